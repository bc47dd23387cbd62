/* What a client is offered: tools from the table, in a form that every client takes, and none that decides. */
import { operations, type McpTool, type OperationName } from '../../core/index'
import { makeTools } from '../../mcp-server/tools'
import { answerBytes, capped } from '../../mcp-server/capped'
import { instructionsFor } from '../../mcp-server/server'
import { readMessage } from '../../mcp-server/stdio-transport'
import { escapedArguments, rawArguments, visible } from '../../mcp-server/visible'
import { endAll, testHome } from '../support/mcp-process'

jest.setTimeout(90_000)
afterAll(endAll)

const tools = makeTools()
const offered = Object.entries(operations).filter(([, row]) => row.mcp !== null) as [OperationName, { mcp: McpTool; description: string }][]

it('[operations.one-table] the tools a client lists are the operations that the table offers, word for word', async () => {
  const { client } = await testHome().client()
  const listed = (await client.listTools()).tools
  expect(listed.map((tool) => [tool.name, tool.title, tool.description])).toEqual(
    offered.map(([, row]) => [row.mcp.name, row.mcp.title, row.description]),
  )
  for (const tool of listed) expect(tool.annotations).toMatchObject(offered.find(([, row]) => row.mcp.name === tool.name)![1].mcp.annotations)
  expect(listed.map((tool) => tool.inputSchema)).toEqual(tools.map((tool) => tool.inputSchema))
})

it('[operations.no-model-decides] no tool decides an approval, and no name that sounds like it is answered', async () => {
  expect(operations.decide_approval.mcp).toBeNull()
  expect(tools.map((tool) => tool.operation)).not.toContain('decide_approval')
  expect(offered.every(([name]) => operations[name].scope !== 'approvals:decide' && operations[name].scope !== 'admin')).toBe(true)
  const test = await testHome().client()
  for (const name of ['decide_approval', 'approve', 'approve_call', 'approvals_approve', 'unlock'])
    expect(await test.refused(name)).toContain('There is no tool')
})

it('[operations.one-table] each field of a tool is a field of its operation, and none sets functions, policy, rights or constraints', () => {
  for (const { operation, fields } of tools) {
    const shape = operations[operation].input.shape as Record<string, unknown>
    const call = 'call' in shape ? ['function_id', 'arguments'] : []
    const known = [...Object.keys(shape), ...call, 'wait_seconds', ...(operation === 'stop' ? ['turn_id'] : [])]
    expect(Object.keys(fields).filter((field) => !known.includes(field))).toEqual([])
    expect(Object.keys(fields).filter((field) => /options|functions|policy|^mode$|role|scope|constraint|risk|principal|user/.test(field))).toEqual([])
  }
})

describe('every schema, name and text', () => {
  const forbidden = ['$ref', '$defs', 'anyOf', 'oneOf', 'allOf', 'not', 'propertyNames', 'patternProperties', 'const']
  const check = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, member] of Object.entries(value)) {
      expect(forbidden).not.toContain(key)
      if (key === 'type') expect(typeof member).toBe('string')
      check(member)
    }
  }

  it.each(tools.map((tool) => [tool.name, tool] as const))('[operations.one-table] of %s is flat, short and described', (name, tool) => {
    expect(name).toMatch(/^[a-z][a-z0-9_]{0,29}$/)
    expect(tool.description.length).toBeLessThanOrEqual(700)
    expect(tool.inputSchema.type).toBe('object')
    check(tool.inputSchema)
    for (const property of Object.values(tool.inputSchema.properties) as { type: string; description: string }[]) {
      expect(['string', 'number', 'integer', 'object']).toContain(property.type)
      expect(property.description.length).toBeGreaterThan(10)
    }
    for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const)
      expect(typeof tool.annotations[hint]).toBe('boolean')
  })

  it('[operations.one-table] the instructions are shorter than clients cut them', () => {
    const command = (words: string): string => `agent-harness ${words}`
    for (const [state, text] of [
      ['working', ''],
      ['standing_by', 'x'.repeat(200)],
    ] as const) {
      for (const hasApprover of [true, false]) {
        const said = instructionsFor({ workerState: () => ({ state, text }) }, { command, hasApprover, runsHere: state === 'working' })
        expect(said.length).toBeLessThan(1_490)
      }
    }
  })
})

describe('an answer', () => {
  it('[mcp.loose-arguments] is never longer than 20 kB, and says where it was cut', () => {
    const long = { state: 'completed', next: 'Done.', result: 'ü'.repeat(40_000), calls: [{ result: 'x'.repeat(300) }] }
    const short = capped(long)
    expect(Buffer.byteLength(JSON.stringify(short))).toBeLessThanOrEqual(answerBytes)
    expect(short['cut']).toMatch(/longer than/)
    expect(short).toMatchObject({ state: 'completed', next: 'Done.', calls: long.calls })
    const wide = {
      next: 'x',
      result: Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`key${String(index)}`, { deep: [index, { more: 'y'.repeat(50) }] }])),
    }
    expect(Buffer.byteLength(JSON.stringify(capped(wide)))).toBeLessThanOrEqual(answerBytes)
    expect(capped({ next: 'x' })).toEqual({ next: 'x' })
  })
})

describe('a line of a client', () => {
  const call = (args: string): string => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_function","arguments":${args}}}`

  it.each([
    ['null', {}],
    ['""', {}],
    ['{}', {}],
    ['"{\\"order\\":\\"A-1001\\"}"', { order: 'A-1001' }],
  ])('[mcp.loose-arguments] with arguments %s is read as an object', (args, expected) => {
    expect(readMessage(call(args))).toMatchObject({ kind: 'message', message: { params: { arguments: expected } } })
  })

  it.each([['[]'], ['3'], ['"no json"'], ['"[1]"']])('[mcp.loose-arguments] with arguments %s is refused in words', (args) => {
    expect(readMessage(call(args)).kind).toBe('bad_call')
  })

  it.each([['{"arguments":{"order":"a","order":"b"}}'], ['"{\\"order\\":1,\\"order\\":2}"']])('[bad.duplicate-keys] with %s is refused', (args) => {
    expect(readMessage(call(args))).toMatchObject({ kind: 'bad_call', problem: expect.stringContaining('twice') })
  })

  it.each([['{"arguments":{"__proto__":{"admin":true}}}'], ['"{\\"__proto__\\":1}"']])('[bad.proto-key] with %s is refused', (args) => {
    expect(readMessage(call(args))).toMatchObject({ kind: 'bad_call', problem: expect.stringContaining('__proto__') })
  })

  it.each([['nothing at all'], ['[{"jsonrpc":"2.0","id":1,"method":"ping"}]'], ['"x"'], ['null']])(
    '[mcp.stdout-clean] that is no message (%s) is told so',
    (line) => {
      expect(readMessage(line).kind).toBe('bad_line')
    },
  )
})

describe('text a person decides on', () => {
  it('[approvals.exact-arguments] shows what is hidden, and letters that only look alike', () => {
    expect(visible('a\u202eb\u200bc\u0007d\u00a0e\ufeff')).toBe('a\\u{202e}b\\u{200b}c\\u{7}d\\u{a0}e\\u{feff}')
    expect(rawArguments({ order: 'A-1001', to: 'p\u0430y\u202e' })).toBe('{\n  "order": "A-1001",\n  "to": "p\u0430y\\u{202e}"\n}')
    expect(escapedArguments({ to: 'p\u0430y' })).toBe('{"to":"p\\u{430}y"}')
    expect(escapedArguments({ to: 'pay\n' })).toBeNull()
    expect(visible('\u001b[2J\u009b1m')).toBe('\\u{1b}[2J\\u{9b}1m')
  })
})
