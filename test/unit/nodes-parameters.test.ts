/* From what a person fills into a node to what the harness is asked, and what a model may never fill in. */
import { notFixed, isToolForm } from '../../nodes/shared/fixed'
import { limitsOf, replayGuard, schemaOf, versionOf, type ArgumentField } from '../../nodes/shared/function-input'
import { carriesCall } from '../../nodes/shared/inside-function'
import { globs, keyOf, runInput, sendInput } from '../../nodes/shared/send-input'
import { opensAtStart } from '../../nodes/shared/at-start'
import { secretsOf } from '../../nodes/shared/connect'
import { whyNotHere } from '../../nodes/shared/embedded'
import { waitingUrl } from '../../nodes/shared/waiting'
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const fields = { message: 'hello', sessionId: '', agent: '', model: '', options: {} }

describe('Send', () => {
  it('[n8n.send-key] the same item of the same run has the same key, and a key of the person goes before it', () => {
    const parts = { execution: '7', node: 'n', run: 0, item: 0, operation: 'send' }
    expect(keyOf(parts)).toBe(keyOf({ ...parts }))
    expect(new Set([parts, { ...parts, item: 1 }, { ...parts, run: 1 }, { ...parts, execution: '8' }, { ...parts, operation: 'run' }].map(keyOf)).size).toBe(5)
    expect(sendInput({ ...fields, options: { idempotencyKey: 'mail-1' } }, keyOf(parts)).idempotency_key).toBe('mail-1')
  })

  it('what was left empty is left out', () => {
    expect(sendInput(fields, 'k')).toEqual({ message: 'hello', idempotency_key: 'k' })
  })

  it('options become those of the turn', () => {
    const options = { allow: 'shop::*\nmail::draft', deny: 'shop::refund', maxRounds: 3, mode: 'ask', systemPrompt: 'Be brief.', metadata: '{"ticket":7}' }
    expect(sendInput({ ...fields, sessionId: ' s_1 ', agent: 'helper', options }, 'k')).toEqual({
      message: 'hello', session_id: 's_1', agent: 'helper', idempotency_key: 'k',
      options: { functions: { allow: ['shop::*', 'mail::draft'], deny: ['shop::refund'] }, max_turns: 3, mode: 'ask', system_prompt: 'Be brief.', metadata: { ticket: 7 } },
    })
    expect(globs(' a::b , , c::*\n')).toEqual(['a::b', 'c::*'])
  })

  it('what cannot be read is refused before anything is sent', () => {
    expect(() => sendInput({ ...fields, message: '  ' }, 'k')).toThrow('Message is empty')
    expect(() => sendInput({ ...fields, options: { metadata: '{' } }, 'k')).toThrow('Metadata is no valid JSON')
    expect(() => runInput({ functionId: 'a::b', arguments: '[1]', sessionId: '', waitSeconds: 0 }, 'k')).toThrow('Arguments is no JSON object')
    expect(runInput({ functionId: 'a::b', arguments: { x: 1 }, sessionId: '', waitSeconds: 99 }, 'k')).toMatchObject({ call: { function_id: 'a::b', arguments: { x: 1 } }, wait_seconds: 45 })
  })
})

describe('tool form', () => {
  it('[n8n.tool-fixed] no field that gives rights takes an expression there', () => {
    const fixed = { harness: 'inside', operation: 'send', agent: 'helper', options: { allow: 'shop::*', maxRounds: 3 }, message: "={{ $fromAI('message') }}", sessionId: "={{ $fromAI('session') }}" }
    expect(notFixed(fixed)).toBeNull()
    const doors = ["={{ $fromAI('x') }}", "{{ $fromai('x') }}", '={{ $json.x }}', "={{ $('Agent').item.json.x }}", "={{ this['$from' + 'AI']('x') }}"]
    for (const door of doors) {
      for (const name of ['harness', 'operation', 'agent', 'model', 'functionId']) expect(notFixed({ ...fixed, [name]: door })).not.toBeNull()
      expect(notFixed({ ...fixed, options: { allow: door } })).toBe('Options')
      expect(notFixed({ ...fixed, options: { deep: [{ er: door }] } })).toBe('Options')
    }
  })

  it('is known by the name that n8n gives it', () => {
    expect(isToolForm('n8n-nodes-agent-harness.harnessSendTool')).toBe(true)
    expect(isToolForm('n8n-nodes-agent-harness.harnessSend')).toBe(false)
  })
})

describe('Function Trigger', () => {
  const args: ArgumentField[] = [
    { name: 'order', type: 'text', description: 'Number', required: true }, { name: 'amount', type: 'number' }, { name: 'express', type: 'boolean', required: false },
    { name: 'size', type: 'choice', choices: 'small, large' },
  ]

  it('fields become a schema that takes nothing else', () => {
    expect(schemaOf(args)).toEqual({
      type: 'object', required: ['order', 'amount', 'size'], additionalProperties: false,
      properties: { order: { type: 'string', description: 'Number' }, amount: { type: 'number' }, express: { type: 'boolean' }, size: { type: 'string', enum: ['small', 'large'] } },
    })
    expect(schemaOf([])).toEqual({ type: 'object', properties: {}, required: [], additionalProperties: false })
    expect(() => schemaOf([args[0]!, args[0]!])).toThrow('two arguments order')
  })

  it('[n8n.limits-read] limits are read by the type of their argument; one that cannot be read is refused, never dropped', () => {
    expect(limitsOf([{ argument: 'amount', test: 'at_most', value: '50' }, { argument: 'express', test: 'equals', value: 'false' }, { argument: 'size', test: 'one_of', value: 'small, large' }], args)).toEqual([
      { argument: 'amount', test: 'at_most', value: 50 }, { argument: 'express', test: 'equals', value: false }, { argument: 'size', test: 'one_of', value: ['small', 'large'] },
    ])
    for (const limit of [{ argument: 'amout', test: 'at_most', value: '50' }, { argument: 'amount', test: 'at_most', value: 'fifty' }, { argument: 'amount', test: 'at_most', value: '' }, { argument: 'express', test: 'equals', value: 'no' }] as const) {
      expect(() => limitsOf([limit], args)).toThrow('Runs Without a Person When')
    }
  })

  it('the version changes with the workflow and with nothing else', () => {
    const node = { name: 'a', parameters: { x: 1, y: { z: 2 } } }
    expect(versionOf([node], {})).toBe(versionOf([{ parameters: { y: { z: 2 }, x: 1 }, name: 'a' }], {}))
    expect(versionOf([node], {})).not.toBe(versionOf([{ ...node, parameters: { x: 2, y: { z: 2 } } }], {}))
    expect(versionOf([node], {})).not.toBe(versionOf([node], { main: [] }))
  })

  it('[n8n.call-once] a call that came already is not run again while its signature is fresh', () => {
    const isReplay = replayGuard(1_000)
    expect([isReplay('c_1', 0), isReplay('c_1', 500), isReplay('c_2', 900), isReplay('c_1', 1_000)]).toEqual([false, true, false, true])
  })

  it('[n8n.no-nested-send] an item of a function workflow is known by the facts of its call', () => {
    expect(carriesCall({ json: { amount: 1, harness: { call_id: 'c_1' } } })).toBe(true)
    expect(carriesCall({ json: { harness: 'x' } })).toBe(false)
  })
})

describe('where the harness lives', () => {
  it('[n8n.queue-refused] queue mode and an old Node are refused with what to do', () => {
    expect(whyNotHere({ EXECUTIONS_MODE: 'queue' }, '24.9.0')).toMatch(/queue mode.*Server/)
    expect(whyNotHere({}, '22.12.0')).toMatch(/22\.13/)
    expect([whyNotHere({}, '22.13.0'), whyNotHere({}, '24.1.0')]).toEqual([null, null])
  })

  it('[n8n.commands-open-nothing] only a starting n8n whose harness was used before opens it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'nodes-start-'))
    try {
      const env = { N8N_USER_FOLDER: folder }
      const home = join(folder, '.n8n', 'agent-harness')
      expect(opensAtStart(['node', 'n8n'], env, '24.9.0')).toBe(false)
      mkdirSync(home, { recursive: true })
      writeFileSync(join(home, 'harness.db'), '')
      expect(opensAtStart(['node', 'n8n'], env, '24.9.0')).toBe(false)
      writeFileSync(join(home, 'harness.db'), 'x')
      expect([['node', 'n8n'], ['node', 'n8n', 'start']].map((argv) => opensAtStart(argv, env, '24.9.0'))).toEqual([true, true])
      const commands = ['export:workflow', 'export:nodes', 'import:workflow', 'execute', 'worker', 'webhook', 'license:info']
      expect(commands.filter((command) => opensAtStart(['node', 'n8n', command], env, '24.9.0'))).toEqual([])
      expect(opensAtStart(['node', 'n8n'], { ...env, EXECUTIONS_MODE: 'queue' }, '24.9.0')).toBe(false)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('secrets are NAME=value, and a line that is not is refused without being shown', () => {
    expect(secretsOf('A=1\n# no\n B_2 = x=y ')).toEqual({ A: '1', B_2: 'x=y' })
    expect(() => secretsOf('A=1\nhunter2')).toThrow(/^Line 2 of Secrets is not NAME=value\.$/)
  })

  it('the address of a parked execution keeps its token and gets our end', () => {
    expect(waitingUrl('https://n8n/base/webhook-waiting/7?signature=abc', { approval_id: 'a_1', key: 'k' })).toBe('https://n8n/base/webhook-waiting/7/agent-harness?signature=abc&approval_id=a_1&key=k')
  })
})
