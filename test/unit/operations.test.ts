/* The table of operations: one place, nothing that decides for a model, and the names and fields of the seed. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020'
import { scopes } from '../../core/identity/principal'
import { operations, type OperationName } from '../../core/protocol/operations'

const folder = join(__dirname, '../../core/protocol/seed/harness')
const read = (name: string): object => JSON.parse(readFileSync(join(folder, name), 'utf8')) as object
const examples = read('examples.json') as { schema: string; value: unknown; valid: boolean }[]

/** What is there of the seed's operations: its name, and ours. */
const ours: Readonly<Record<string, OperationName>> = { send: 'send', status: 'status', stop: 'stop', 'function-trigger': 'trigger' }

/** Valid in the seed and not taken in this version, with what the refusal says. */
const refused = [
  { why: 'a message of role custom', holds: (value: unknown) => roleIn(value) === 'custom', says: '"role": "user"' },
  { why: 'a message of role assistant', holds: (value: unknown) => roleIn(value) === 'assistant', says: '"role": "user"' },
]
function roleIn(value: unknown): unknown {
  const { message } = value as { message?: { role?: unknown } | string }
  return typeof message === 'object' ? message.role : undefined
}

const ajv = new Ajv2020({ strict: false, formats: { uint32: true, uint64: true, int64: true, double: true } })
for (const name of readdirSync(folder).filter((file) => file !== 'examples.json')) ajv.addSchema(read(name), name)
const validatorOf = (schema: string): ValidateFunction => ajv.getSchema(schema)!

it('the seed agrees with its own examples', () => {
  expect(examples.length).toBeGreaterThan(150)
  for (const { schema, value, valid } of examples) expect([schema, value, validatorOf(schema)(value)]).toEqual([schema, value, valid])
})

describe.each(Object.entries(ours))('%s', (seed, name) => {
  const requests = examples.filter((example) => example.schema === `${seed}.request.json` && example.valid)

  it('[operations.seed-names] takes every valid request of the seed, or says what is not available', () => {
    expect(requests.length).toBeGreaterThan(0)
    for (const { value } of requests) {
      const parsed = operations[name].input.safeParse(value)
      const exception = refused.find((one) => one.holds(value))
      if (exception === undefined) expect([value, parsed.error?.message]).toEqual([value, undefined])
      else expect(parsed.error?.issues[0]?.message).toContain(exception.says)
    }
  })

  it('[operations.seed-names] has the fields of the seed, in its request and in its answer', () => {
    const fieldsOf = (schema: unknown): string[] => {
      const { properties = {}, anyOf = [] } = schema as { properties?: object; anyOf?: unknown[] }
      return [...new Set([...Object.keys(properties), ...anyOf.flatMap(fieldsOf)])]
    }
    const ourFields = (schema: { toJSONSchema?: unknown }): string[] =>
      fieldsOf(JSON.parse(JSON.stringify((schema as { toJSONSchema: () => object }).toJSONSchema())))
    expect(ourFields(operations[name].input)).toEqual(expect.arrayContaining(fieldsOf(read(`${seed}.request.json`))))
    expect(ourFields(operations[name].output)).toEqual(expect.arrayContaining(fieldsOf(read(`${seed}.response.json`))))
  })
})

it('[operations.seed-names] the options of a turn are those of the seed', () => {
  const options = examples.filter((example) => example.schema === 'common.json#/$defs/TurnOptions' && example.valid)
  expect(options.length).toBeGreaterThan(2)
  for (const { value } of options) expect(operations.send.input.safeParse({ message: 'Hello?', options: value })).toMatchObject({ success: true })
  const messages = examples.filter((example) => example.schema === 'common.json#/$defs/MessageInput' && example.valid)
  for (const { value } of messages) expect(operations.send.input.safeParse({ message: value })).toMatchObject({ success: true })
})

it('a request that is invalid in the seed is refused here too, save for what has a default here', () => {
  const taken = examples.filter(({ schema, value, valid }) => {
    const name = ours[schema.replace('.request.json', '')]
    return !valid && name !== undefined && operations[name].input.safeParse(value).success
  })
  const missing = taken.map(({ schema, value }) => {
    const { required } = read(schema) as { required: string[] }
    return `${schema.split('.')[0]} without ${required.filter((field) => !Object.hasOwn(value as object, field)).join()}`
  })
  // the model of the agent or of the configuration; any session; a session of its own
  expect(missing.sort()).toEqual(['function-trigger without session_id', 'send without model', 'status without session_id'])
})

it('[operations.no-model-decides] what decides an approval, and what an administrator does, is no tool', () => {
  const tools = Object.entries(operations).filter(([, operation]) => operation.mcp !== null)
  for (const [name, operation] of tools) {
    expect(name).not.toMatch(/decide|approve|reject/)
    expect(operation.mcp!.name).not.toMatch(/decide|approve_|reject/)
    expect(['approvals:decide', 'functions:register', 'admin']).not.toContain(operation.scope)
  }
  expect(operations.decide_approval).toMatchObject({ scope: 'approvals:decide', mcp: null })
})

it('[operations.one-table] every operation is described, needs a scope, and has a tool of its own name or none', () => {
  const names = Object.values(operations).flatMap((operation) => (operation.mcp === null ? [] : [operation.mcp.name]))
  expect(new Set(names).size).toBe(names.length)
  for (const { description, scope, mcp } of Object.values(operations)) {
    expect(description.length).toBeGreaterThan(20)
    expect(scopes).toContain(scope)
    if (mcp !== null) expect(mcp.name).toMatch(/^[a-z_]{1,64}$/)
  }
})
