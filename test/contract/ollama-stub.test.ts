/* The strict stub is itself held to what it promises: it refuses what Ollama would swallow, and it is as careless as Ollama where that matters. */
import { startStrictOllama, type StrictOllama, type StubOptions } from '../support/strict-ollama'
import { scan } from '../support/strict-ollama/scanner'
import { goJson, goTime } from '../support/strict-ollama/wire'

let stub: StrictOllama

async function start(more: Partial<StubOptions> = {}): Promise<void> {
  stub = await startStrictOllama({ models: [{ name: 'qwen3:8b', capabilities: ['completion', 'tools', 'thinking'] }], ...more })
}

const tool = (name: string, parameters: unknown = { type: 'object', properties: {} }): unknown =>
  ({ type: 'function', function: { name, description: '', parameters } })
const system = { role: 'system', content: '' }
const asking = { role: 'assistant', content: '', tool_calls: [{ id: 'a1', function: { name: 'files__read', arguments: {} } }] }
const result = { role: 'tool', content: 'x', tool_name: 'files__read', tool_call_id: 'a1' }

const good = {
  model: 'qwen3:8b', messages: [system, { role: 'user', content: 'Hi' }], stream: true, truncate: false, shift: false, think: false,
  options: { num_ctx: 4_096 },
}

async function post(body: unknown, path = '/api/chat', method = 'POST'): Promise<{ status: number; text: string }> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(stub.url + path, { method, ...(method === 'POST' ? { body: text } : {}) })
  return { status: response.status, text: await response.text() }
}

afterEach(async () => {
  await stub.stop()
})

const messages = (...more: unknown[]): unknown => ({ ...good, messages: [system, { role: 'user', content: 'Hi' }, ...more] })
const tools = (...offered: unknown[]): unknown => ({ ...good, tools: offered })
const property = (value: unknown): unknown => tools(tool('files__read', { type: 'object', properties: { path: value } }))

const refused: readonly (readonly [what: string, body: unknown])[] = [
  ['no JSON', '{"model":'],
  ['an unknown field', { ...good, num_ctx: 1 }],
  ['an unknown option', { ...good, options: { num_ctx: 1, mirostat: 1 } }],
  ['an option of another type', { ...good, options: { num_ctx: '4096' } }],
  ['num_ctx left out', { ...good, options: {} }],
  ['stream left out', { ...good, stream: undefined }],
  ['truncate left out', { ...good, truncate: undefined }],
  ['shift left out', { ...good, shift: undefined }],
  ['think left out for a model that thinks', { ...good, think: undefined }],
  ['keep_alive without a unit', { ...good, keep_alive: '300' }],
  ['format with tools', { ...(tools(tool('files__read')) as object), format: 'json' }],
  ['no system message', { ...good, messages: [{ role: 'user', content: 'Hi' }] }],
  ['content that is no text', messages({ role: 'user', content: ['Hi'] })],
  ['an unknown role', messages({ role: 'developer', content: 'Hi' })],
  ['an unknown field of a message', messages({ role: 'user', content: 'Hi', name: 'x' })],
  ['arguments as a string', messages({ ...asking, tool_calls: [{ function: { name: 'files__read', arguments: '{}' } }] }, result)],
  ['a call without a name', messages({ ...asking, tool_calls: [{ function: { name: '', arguments: {} } }] }, { ...result, tool_name: '' })],
  ['a call without a result', messages(asking)],
  ['a call without a result before the next message', messages(asking, { role: 'user', content: 'Hi' })],
  ['a result without a call', messages(result)],
  ['a second result', messages(asking, result, result)],
  ['a result under another name', messages(asking, { ...result, tool_name: 'files__list' })],
  ['a result without a name', messages(asking, { ...result, tool_name: undefined })],
  ['a result of another id', messages(asking, { ...result, tool_call_id: 'b2' })],
  ['an image that is a path', messages({ role: 'user', content: 'Hi', images: ['/etc/passwd.'] })],
  ['a tool without properties', tools(tool('files__read', { type: 'object' }))],
  ['a tool without parameters', tools(tool('files__read', null))],
  ['a keyword that Ollama drops', property({ type: 'string', pattern: '^a' })],
  ['a reference', property({ $ref: '#/$defs/x' })],
  ['a pattern under items', property({ type: 'array', items: { type: 'string', pattern: '^a' } })],
  ['a property that is true', property(true)],
  ['names that contain one another', tools(tool('files__list'), tool('files__list_all'))],
  ['a name that is not taken everywhere', tools(tool('files::read'))],
  ['a cloud name', { ...good, model: 'gpt-oss:120b-cloud' }],
]

describe('a request', () => {
  it('that is good is answered', async () => {
    await start()
    expect(await post(good)).toMatchObject({ status: 200 })
    expect(await post(messages(asking, result))).toMatchObject({ status: 200 })
    expect(stub.violations).toEqual([])
  })

  it.each(refused)('with %s is refused with the reason, and stays on record', async (_, body) => {
    await start()
    const { status, text } = await post(body)
    expect({ status, stub: text.includes('STUB: ') }).toEqual({ status: 400, stub: true })
    expect(stub.violations).toHaveLength(1)
  })

  it('for another window of a loaded model is refused and counted', async () => {
    await start()
    await post(good)
    expect(await post({ ...good, options: { num_ctx: 2_048 } })).toMatchObject({ status: 400 })
    expect(stub.reloads()).toBe(1)
  })

  it('to an alias of a cloud model, or about a cloud name, is a leak', async () => {
    await start({ models: [{ name: 'notes', way: 'D' }] })
    await post({ ...good, model: 'notes', think: undefined })
    await post({ model: 'x:cloud' }, '/api/show')
    expect(stub.violations.map((reason) => reason.slice(0, 5))).toEqual(['LEAK:', 'LEAK:'])
  })

  it.each([['/api/generate', 'POST'], ['/api/pull', 'POST'], ['/v1/chat/completions', 'POST'], ['/api/chat', 'GET']])(
    'of %s with %s is refused', async (path, method) => {
      await start()
      expect((await post({}, path, method)).text).toContain('STUB: ')
    })

  it('after a turn was stopped is refused', async () => {
    await start()
    await stub.stopped()
    await post(good)
    expect(stub.violations).toEqual(['POST /api/chat after its turn was stopped'])
  })

  it('whose connection stays open after a stop is on record', async () => {
    await start({ script: [{ fault: { kind: 'silence' } }] })
    const controller = new AbortController()
    const hanging = fetch(`${stub.url}/api/chat`, { method: 'POST', body: JSON.stringify(good), signal: controller.signal }).catch(() => null)
    while (stub.open() === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    await stub.stopped()
    expect(stub.violations).toEqual(['a connection was open 250 ms after its turn was stopped'])
    controller.abort()
    await hanging
  })
})

describe('an answer', () => {
  it('has the shapes of the wire: escapes, omitted zeros, a last chunk with the counts', async () => {
    await start({ script: [{ text: '<a&b>' }] })
    const lines = (await post(good)).text.trimEnd().split('\n')
    expect(lines[0]?.replace(/"created_at":"[^"]+Z",/, '')).toBe(
      '{"model":"qwen3:8b","message":{"role":"assistant","content":"\\u003ca\\u0026b"},"done":false}')
    expect(lines.at(-1)).toContain('"done":true,"done_reason":"stop","total_duration":')
    expect(lines.at(-1)).not.toContain('load_duration')
  })

  it.each([['0.9.0', /"tool_calls":\[\{"function"/], ['0.12.10', /"tool_calls":\[\{"id":"call_[a-z0-9]{8}","function"/]])(
    'at version %s has calls with ids as that version has them', async (version, shape) => {
      await start({ version, script: [{ tool_calls: [{ name: 'files__read' }] }] })
      expect((await post(tools(tool('files__read')))).text).toMatch(shape)
    })

  it('of way C has its calls in the last chunk', async () => {
    await start({ models: [{ name: 'qwen3:8b', way: 'C' }], script: [{ text: 'Hm.', tool_calls: [{ name: 'files__read' }] }] })
    const lines = (await post({ ...(tools(tool('files__read')) as object), think: undefined })).text.trimEnd().split('\n')
    expect(lines.map((line) => line.includes('tool_calls'))).toEqual([false, true])
  })

  it('depends on the conversation alone', async () => {
    await start({ script: [{ text: 'first' }, { text: 'second' }] })
    for (let time = 0; time < 2; time += 1) {
      expect((await post(good)).text).toContain('firs')
      expect((await post(messages(asking, result))).text).toContain('seco')
    }
  })

  it('to a conversation that is too long is half of it read where truncate is on, else a refusal', async () => {
    await start()
    const long = { ...good, messages: [system, { role: 'user', content: 'word '.repeat(5_000) }] }
    expect((await post({ ...long, truncate: true })).text).toContain('"prompt_eval_count":2050')
    expect(await post(long)).toMatchObject({ status: 400, text: expect.stringContaining('exceed_context_size_error') as string })
  })

  it('/api/status is there from 0.16.2 on', async () => {
    await start({ version: '0.16.1' })
    expect(await post(null, '/api/status', 'GET')).toMatchObject({ status: 404 })
    await stub.stop()
    await start()
    expect(await post(null, '/api/status', 'GET')).toMatchObject({ status: 200 })
  })
})

describe('the scanner of way A', () => {
  beforeEach(() => start())

  it.each<[string, string, readonly string[], { name: string; arguments: object } | null]>([
    ['takes a longer name for the one it knows', '<tool_call>list_secrets({"a":1})', ['list'], { name: 'list', arguments: { a: 1 } }],
    ['takes a name inside another word', '<tool_call>format({"a":1})', ['get', 'rm'], { name: 'rm', arguments: { a: 1 } }],
    ['loses a name that is not offered', '<tool_call>{"name":"now","arguments":{}}', ['get'], null],
    ['loses a call without arguments', '<tool_call>{"name":"now"}', ['now'], null],
    ['loses arguments that are null', '<tool_call>{"name":"now","arguments":null}', ['now'], null],
    ['parses arguments in a string', '<tool_call>{"name":"now","arguments":"{\\"a\\":1}"}', ['now'], { name: 'now', arguments: { a: 1 } }],
    ['reads past a bracket in a text', '<tool_call>{"name":"now","arguments":{"a":"}"}}', ['now'], { name: 'now', arguments: { a: '}' } }],
    ['loses a call that was cut', '<tool_call>{"name":"now","arguments":{"a":', ['now'], null],
  ])('%s', (_, written, names, call) => {
    expect(scan(written, '<tool_call>', names).calls).toEqual(call === null ? [] : [call])
  })

  it('takes a call behind prose for text where the tag is a bracket', () => {
    expect(scan('Sure: {"name":"now","arguments":{}}', '{', ['now'])).toEqual({ text: 'Sure: {"name":"now","arguments":{}}', calls: [] })
  })
})

it('writes JSON and times as Go does', async () => {
  await start()
  expect(goJson('a\u2028<>&\u2029')).toBe('"a\\u2028\\u003c\\u003e\\u0026\\u2029"')
  expect([0, 89_100_000, 1].map((nanoseconds) => goTime(0, nanoseconds).slice(17))).toEqual(['00Z', '00.0891Z', '00.000000001Z'])
})
