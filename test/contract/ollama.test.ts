/* What the driver asks of Ollama and how it reads the answers, against the strict stub; the plain part also against a real server. */
import { request as httpRequest } from 'node:http'
import type { ModelMessage } from '../../core/model/model'
import { startStrictOllama, type StrictOllama, type StubCall, type StubOptions, type StubReply } from '../support/strict-ollama'
import { answered, ask, conversation, failed, modelAt, offer, reply, request, user } from '../support/strict-ollama/requests'

let stub: StrictOllama

async function start(script: StubOptions['script'], more: Partial<StubOptions> = {}): Promise<void> {
  stub = await startStrictOllama({ models: [{ name: 'qwen3:8b' }], ...(script === undefined ? {} : { script }), ...more })
}

/** The one call that a scripted call becomes. */
async function readCall(call: StubCall, functions = [offer('files::read'), offer('files::remove')]): Promise<unknown> {
  await start([{ tool_calls: [call] }])
  const { calls } = await reply(modelAt(stub.url), request({ functions }))
  const [first] = calls
  return { function_id: first?.function_id, offered: first?.offered, arguments: first?.arguments }
}

afterEach(async () => {
  await stub.stop()
  expect(stub.open()).toBe(0)
  expect(stub.violations).toEqual([])
})

const ways = ['A', 'B', 'C', 'M'] as const
const versions = ['0.9.0', '0.12.0', '0.24.0', '0.33.0', '0.34.0']

describe('a request', () => {
  it('says everything that Ollama would else decide by itself', async () => {
    await start([{ text: 'Done.' }], { models: [{ name: 'qwen3:8b', capabilities: ['completion', 'tools', 'thinking'], context_length: 4_096 }] })
    const described = offer('files::read', { path: { type: 'string', pattern: '^/' } })
    await reply(modelAt(stub.url), request({ functions: [described] }))
    expect(stub.chats).toEqual([{
      model: 'qwen3:8b:local',
      messages: [{ role: 'system', content: 'You work with files.' }, { role: 'user', content: 'Read a.md.' }],
      tools: [{
        type: 'function',
        function: {
          name: 'files__read', description: 'Does files::read.',
          parameters: { type: 'object', properties: { path: { type: 'string', description: 'pattern: ^/' } }, required: ['path'] },
        },
      }],
      think: false, stream: true, truncate: false, shift: false, options: { num_ctx: 4_096 },
    }])
  })

  it('offers no tools where no functions are offered', async () => {
    await start(undefined)
    await reply(modelAt(stub.url))
    expect(stub.chats[0]).not.toHaveProperty('tools')
    expect(stub.chats[0]).not.toHaveProperty('think')
  })

  it('never makes Ollama load the model again, whatever is asked', async () => {
    await start(undefined, { models: [{ name: 'qwen3:8b', capabilities: ['completion', 'tools', 'thinking'] }] })
    const model = modelAt(stub.url)
    await reply(model)
    await reply(model, request({ functions: [offer('files::read')], thinking_level: 'high' }))
    await reply(model, request({ messages: conversation(user('x'.repeat(5_000))) }))
    expect(stub.reloads()).toBe(0)
    expect(stub.chats).toHaveLength(3)
  })

  it('pairs every call with its result by name and by a short id of ours', async () => {
    await start(undefined)
    const [read, removed] = [answered('files::read', { path: 'a' }, 'text of a'), answered('files::remove', {}, 'gone', { is_error: true })]
    await reply(modelAt(stub.url), request({ messages: conversation(user('Go.'), ...read, ...removed), functions: [offer('files::read')] }))
    const sent = stub.chats[0]?.messages ?? []
    const id = sent[2]?.tool_calls?.[0]?.id
    expect(id).toMatch(/^[a-z0-9]{9}$/)
    expect(sent[3]).toEqual({ role: 'tool', content: 'text of a', tool_name: 'files__read', tool_call_id: id })
    expect(sent[5]).toMatchObject({ content: 'Error: gone', tool_name: 'files__remove' })
  })

  it('carries the result of a call that a model invented', async () => {
    await start(undefined)
    const messages = conversation(user('Go.'), ...answered('no such<|channel|>name', {}, 'There is none.'), ...answered('', {}, 'Nor this.'))
    await reply(modelAt(stub.url), request({ messages }))
    expect(stub.chats[0]?.messages.flatMap((message) => message.tool_name ?? [])).toEqual(['no_such__channel__name', 'unnamed'])
  })

  it('leaves no connection and no listener behind', async () => {
    await start(undefined)
    const controller = new AbortController()
    const added = jest.spyOn(controller.signal, 'addEventListener')
    const removed = jest.spyOn(controller.signal, 'removeEventListener')
    await ask(modelAt(stub.url), request(), controller.signal)
    expect(removed.mock.calls.length).toBeGreaterThanOrEqual(added.mock.calls.length)
    expect(added.mock.calls.length).toBe(3)
    expect(stub.open()).toBe(0)
  })
})

describe('thinking', () => {
  const thinker = [{ name: 'qwen3:8b', capabilities: ['completion', 'thinking'] }]

  it('is asked for only where a level is given, and comes apart from the text', async () => {
    await start([{ thinking: 'Hm <so>.', text: 'Yes.' }], { models: thinker })
    const model = modelAt(stub.url)
    expect(await reply(model)).toMatchObject({ text: 'Yes.', thinking: null })
    expect(await reply(model, request({ thinking_level: 'low' }))).toMatchObject({ text: 'Yes.', thinking: 'Hm <so>.' })
    expect(stub.chats.map((chat) => chat.think)).toEqual([false, true])
  })

  it('is never mentioned to a model that cannot', async () => {
    await start(undefined)
    await reply(modelAt(stub.url), request({ thinking_level: 'high' }))
    expect(stub.chats[0]).not.toHaveProperty('think')
  })

  it('has levels for gpt-oss alone, and a highest one where the server knows it', async () => {
    const models = [{ name: 'gpt-oss:20b', architecture: 'gptoss', capabilities: ['completion', 'thinking'] }]
    await start(undefined, { models })
    const levels = ['minimal', 'medium', 'xhigh'] as const
    for (const thinking_level of levels) await reply(modelAt(stub.url), request({ model: 'gpt-oss:20b', thinking_level }))
    expect(stub.chats.map((chat) => chat.think)).toEqual(['low', 'medium', 'max'])
    await stub.stop()
    await start(undefined, { models, version: '0.12.11' })
    await reply(modelAt(stub.url), request({ model: 'gpt-oss:20b', thinking_level: 'xhigh' }))
    expect(stub.chats.map((chat) => chat.think)).toEqual(['high'])
  })

  it('goes back with the calls of the same run and with no older ones', async () => {
    await start(undefined, { models: [{ name: 'qwen3:8b', capabilities: ['completion', 'tools', 'thinking'] }] })
    const run = (thinking: string): ModelMessage[] => [user('Look.'), ...answered('files::read', {}, 'x', { thinking })]
    await reply(modelAt(stub.url), request({ messages: conversation(...run('old'), ...run('new')), thinking_level: 'low' }))
    expect(stub.chats[0]?.messages.flatMap((message) => message.thinking ?? [])).toEqual(['new'])
  })
})

describe.each(ways)('run in way %s', (way) => {
  it.each(versions)('at version %s a call comes whole, goes back, and the answer follows', async (version) => {
    const asks: StubReply = { text: 'Let me look.', tool_calls: [{ name: 'files__read', arguments: { path: 'a & <b>', deep: { list: [1, '}'] } } }] }
    await start([asks, { text: 'It says hello.' }], { version, models: [{ name: 'qwen3:8b', way }] })
    const model = modelAt(stub.url)
    const functions = [offer('files::read')]
    const first = await reply(model, request({ functions }))
    expect(first).toMatchObject({ text: 'Let me look.', stop_reason: 'function_call', native_stop_reason: 'stop', warnings: [] })
    const given = { path: 'a & <b>', deep: { list: [1, '}'] } }
    expect(first.calls).toMatchObject([{ function_id: 'files::read', offered: true, arguments: given }])
    expect(first.calls[0]?.native_id ?? null).toEqual(['0.9.0', '0.12.0'].includes(version) ? null : expect.any(String))
    const second = await reply(model, request({ functions, messages: conversation(user('Read.'), ...answered('files::read', given, 'hello')) }))
    expect(second).toMatchObject({ text: 'It says hello.', calls: [], stop_reason: 'end' })
    expect(second.usage.input).toBeGreaterThan(0)
    expect(second.usage.output).toBeGreaterThan(0)
  })

  it.each<[string, StubReply]>([
    ['one chunk', {}], ['chunks of their own', { spread: 'apart' }], ['the last chunk', { calls_in_final: true }],
  ])('several calls in %s come in order', async (_, more) => {
    const tool_calls = ['a', 'b', 'c'].map((path) => ({ name: 'files__read', arguments: { path } }))
    await start([{ tool_calls, ...more }], { version: '0.12.11', models: [{ name: 'qwen3:8b', way }] })
    const { calls } = await reply(modelAt(stub.url), request({ functions: [offer('files::read')] }))
    expect(calls.map((call) => call.arguments)).toEqual([{ path: 'a' }, { path: 'b' }, { path: 'c' }])
    expect(new Set(calls.map((call) => call.native_id)).size).toBe(3)
  })
})

describe('an answer', () => {
  const odd = 'naïve 🧪 "quotes" \\ <think> & \u2028 end'

  it.each([1, 2, 3, 7])('is the same when it arrives in pieces of %i bytes', async (write_bytes) => {
    await start([{ text: odd, tool_calls: [{ name: 'files__read', arguments: { path: odd } }], write_bytes, line_end: '\r\n', chunk_size: 1 }])
    const { text, calls } = await reply(modelAt(stub.url), request({ functions: [offer('files::read')] }))
    expect(text).toBe(odd)
    expect(calls[0]?.arguments).toEqual({ path: odd })
  })

  it('waits through loading and through the silence in which a call is written', async () => {
    await start([{ load_ms: 300, text: 'Wait.', tool_calls: [{ name: 'files__read', arguments: {} }], silent_ms: 300 }])
    const { calls } = await reply(modelAt(stub.url, { first_byte_ms: 600, idle_ms: 600 }), request({ functions: [offer('files::read')] }))
    expect(calls).toHaveLength(1)
  })

  it('may hold any JSON value of arguments, and only an object is one', async () => {
    const read = async (given: Partial<StubCall>): Promise<unknown> => {
      const call = (await readCall({ name: 'files__read', ...given })) as { arguments: unknown }
      await stub.stop()
      return call.arguments
    }
    expect(await read({ arguments: { path: '007' } })).toEqual({ path: '007' })
    expect(await read({ arguments: '{"path":"x"}' })).toEqual({ path: 'x' })
    expect(await read({ arguments: null })).toEqual({})
    expect(await read({ arguments: undefined })).toEqual({})
    for (const bad of ['ls -R', '{"path":"x"}]', '"{}"', 'null', [], 7, true]) expect(await read({ arguments: bad })).toBeNull()
  })

  it('[bad.tool-not-offered] with a function that was not offered says so and is no call of another', async () => {
    expect(await readCall({ name: 'files__read_all', arguments: {} })).toEqual({ function_id: 'files__read_all', offered: false, arguments: {} })
    await stub.stop()
    expect(await readCall({ name: 'files::read', arguments: {} })).toMatchObject({ function_id: 'files::read', offered: false })
    await stub.stop()
    expect(await readCall({ name: '', arguments: {} })).toMatchObject({ function_id: 'unnamed', offered: false })
    await stub.stop()
    expect(await readCall({ name: 'x'.repeat(500), arguments: {} })).toMatchObject({ function_id: 'x'.repeat(128), offered: false })
  })

  it('loses the channel behind a name only where the rest is exactly an offered name', async () => {
    expect(await readCall({ name: 'files__read<|channel|>analysis', arguments: {} })).toMatchObject({ function_id: 'files::read', offered: true })
    await stub.stop()
    const other = 'assistant<|channel|>analysis'
    expect(await readCall({ name: other, arguments: {} })).toMatchObject({ function_id: other, offered: false })
  })

  it('that only writes a call as text asks for nothing', async () => {
    const written = 'Sure:\n```json\n{"name":"files__read","arguments":{"path":"a"}}\n```\n<tool_call>files__read</tool_call>'
    await start([{ text: written }])
    const answer = await reply(modelAt(stub.url), request({ functions: [offer('files::read')] }))
    expect(answer).toMatchObject({ text: written, calls: [], stop_reason: 'end' })
  })

  it('cut at the end of the window says length, and calls from before the cut are left out', async () => {
    await start([{ text: 'Once upon', done_reason: 'length' }])
    expect(await reply(modelAt(stub.url))).toMatchObject({ text: 'Once upon', stop_reason: 'length', native_stop_reason: 'length' })
    await stub.stop()
    const cut: StubReply = { tool_calls: [{ name: 'files__read', arguments: {} }], done_reason: 'length' }
    const asked = request({ functions: [offer('files::read')] })
    await start([cut])
    const before = await reply(modelAt(stub.url), asked)
    expect(before).toMatchObject({ calls: [], stop_reason: 'length' })
    expect(before.warnings[0]).toMatch(/1 calls before the cut/)
    await stub.stop()
    await start([{ ...cut, calls_in_final: true }])
    const after = await reply(modelAt(stub.url), asked)
    expect(after).toMatchObject({ calls: [{ offered: true }], stop_reason: 'function_call', native_stop_reason: 'length' })
  })

  it('without text and calls is an empty reply with a warning', async () => {
    await start([{}])
    expect(await reply(modelAt(stub.url))).toMatchObject({ text: '', calls: [], stop_reason: 'end', warnings: ['The model answered nothing.'] })
    await stub.stop()
    await start([{ thinking: 'Hm.' }], { models: [{ name: 'qwen3:8b', capabilities: ['completion', 'thinking'] }] })
    expect((await reply(modelAt(stub.url), request({ thinking_level: 'low' }))).warnings[0]).toMatch(/only thought/)
  })

  it('to a conversation that an old server cut carries a warning', async () => {
    await start(undefined, { version: '0.12.0' })
    const long = await reply(modelAt(stub.url, { num_ctx: 2_048 }), request({ messages: conversation(user('word '.repeat(10_000))) }))
    expect(long.warnings[0]).toMatch(/left out the oldest part/)
  })

  it('is read without a word on standard output or the console', async () => {
    const spies = (['log', 'warn', 'error', 'info'] as const).map((name) => jest.spyOn(console, name).mockImplementation(() => undefined))
    const output = jest.spyOn(process.stdout, 'write')
    await start([{ text: 'x', fault: { kind: 'http', status: 502, body: '<html>Bad gateway</html>', type: 'text/html' } }])
    await failed(modelAt(stub.url))
    await stub.stop()
    await start([{ text: 'x', fault: { kind: 'line', line: 'no json', after: 1 } }])
    await failed(modelAt(stub.url))
    expect([...spies, output].map((spy) => spy.mock.calls)).toEqual([[], [], [], [], []])
    jest.restoreAllMocks()
  })
})

describe('names', () => {
  const functions = [offer('files::list', {}), offer('files::list_secrets', {}), offer('my_files::list', {})]

  it('that contain one another are told apart, and come back as what was offered', async () => {
    await start((chat) => ({ tool_calls: (chat.tools ?? []).map((tool) => ({ name: tool.function.name })) }))
    const { calls } = await reply(modelAt(stub.url), request({ functions }))
    expect(calls.map((call) => call.function_id)).toEqual(['files::list', 'files::list_secrets', 'my_files::list'])
    expect(stub.chats[0]?.tools?.map((tool) => tool.function.name)).toEqual(['files__list___00', 'files__list_secrets', 'my_files__list'])
  })

  it('are not mistaken by the scanner of way A', async () => {
    await start([{ raw: '<tool_call>{"name":"my_files__list","arguments":{}}</tool_call>' }], { models: [{ name: 'qwen3:8b', way: 'A' }] })
    const { calls } = await reply(modelAt(stub.url), request({ functions }))
    expect(calls.map((call) => call.function_id)).toEqual(['my_files::list'])
  })
})

/** What holds on any server; on a real one too where OLLAMA_TEST_URL names it, with the model OLLAMA_TEST_MODEL, else the first that fits. */
const servers: [string, () => Promise<{ url: string; model: string }>][] = [['the stub', async () => {
  await start((chat) => (chat.messages.at(-1)?.content.includes('count') === true
    ? { text: 'one two three four five six seven eight nine ten', chunk_ms: 50 }
    : chat.tools === undefined ? { text: 'ok' } : { tool_calls: [{ name: 'clock__now' }] }))
  return { url: stub.url, model: 'qwen3:8b' }
}]]
const real = process.env['OLLAMA_TEST_URL']
if (real !== undefined) {
  servers.push(['a real server', async () => {
    await start(undefined)
    const { models } = await modelAt(real).probe()
    return { url: real, model: process.env['OLLAMA_TEST_MODEL'] ?? models.find((model) => model.functions)?.name ?? '' }
  }])
}

describe.each(servers)('on %s', (_, open) => {
  const patient = { first_byte_ms: 300_000, idle_ms: 300_000, num_ctx: 4_096 }

  it('a model is listed, answers, asks for a call and can be stopped', async () => {
    const { url, model: name } = await open()
    const model = modelAt(url, patient)
    expect(await model.probe()).toMatchObject({ address: url, reachable: true, problem: null })
    expect((await model.probe()).models).toContainEqual({ name, locality: 'this_machine', functions: true })
    expect((await reply(model, request({ model: name }))).text).not.toBe('')
    const messages = conversation(user('What time is it? Use the function.'))
    const called = await reply(model, request({ model: name, messages, functions: [offer('clock::now', {})] }))
    expect(called.calls.map((call) => call.function_id)).toEqual(['clock::now'])
    const controller = new AbortController()
    setTimeout(() => { controller.abort() }, 120)
    const stopped = await ask(model, request({ model: name, messages: conversation(user('Please count to a thousand.')) }), controller.signal)
    expect(stopped).toMatchObject({ kind: 'failure', cause: 'aborted' })
    expect(await failed(model, request({ model: 'no-such-model:1b' }))).toMatchObject({ cause: 'model_missing' })
  }, 600_000)
})

it('the stub is a server that other processes can reach', async () => {
  await start(undefined)
  const status = await new Promise((resolve) => httpRequest(`${stub.url}/api/version`, (response) => { resolve(response.resume().statusCode) }).end())
  expect(status).toBe(200)
})
