/* A conversation stays on this machine and its local network unless the cloud is allowed: by name, by address, and by what the server says. */
import dns from 'node:dns'
import { Socket } from 'node:net'
import { startStrictOllama, type StrictOllama, type StubModel, type StubOptions } from '../support/strict-ollama'
import { failed, modelAt, reply, request } from '../support/strict-ollama/requests'

let stub: StrictOllama

async function start(models: readonly StubModel[], more: Partial<StubOptions> = {}): Promise<void> {
  stub = await startStrictOllama({ models, ...more })
}

afterEach(async () => {
  jest.restoreAllMocks()
  await stub.stop()
  expect(stub.violations).toEqual([])
})

describe('where only local models are allowed', () => {
  it.each(['gpt-oss:120b-cloud', 'qwen3-coder:480B-Cloud ', 'kimi-k2:cloud', ' glm:CLOUD', 'kimi-k2:cloud:local', 'team/notes:1-cloud'])(
    'the name %j is refused before anything is sent', async (name) => {
      await start([{ name }])
      expect(await failed(modelAt(stub.url), request({ model: name }))).toMatchObject({ error_kind: 'permanent', cause: 'cloud' })
      expect(stub.requests).toEqual([])
    })

  it.each(['my-cloud-model', 'cloud', 'llama-cloud', 'notes:cloudy', 'host:5000/x-cloud/y'])('the name %j is as local as any', async (name) => {
    await start([{ name }])
    expect((await reply(modelAt(stub.url), request({ model: name }))).text).toBe('ok')
  })

  it.each([
    'https://ollama.com', 'https://api.OLLAMA.com.', 'http://8.8.8.8:11434', 'http://[2001:4860:4860::8888]:11434', 'http://100.64.0.1:11434',
    'http://134744072',
  ])('the address %s is refused before a connection is opened', async (url) => {
    await start([])
    const [resolved, connected] = [jest.spyOn(dns, 'lookup'), jest.spyOn(Socket.prototype, 'connect')]
    expect(await failed(modelAt(url))).toMatchObject({ error_kind: 'permanent', cause: 'cloud' })
    expect([resolved.mock.calls, connected.mock.calls]).toEqual([[], []])
  })

  it('a host whose name leads out of the local network is refused when it is resolved', async () => {
    await start([])
    const answers = [{ address: '127.0.0.1', family: 4 }, { address: '93.184.215.14', family: 4 }]
    const resolve = (_: string, __: unknown, callback: (error: null, found: unknown) => void): void => { callback(null, answers) }
    jest.spyOn(dns, 'lookup').mockImplementation(resolve as never)
    expect(await failed(modelAt(`http://box.example:${String(stub.port)}`))).toMatchObject({ error_kind: 'permanent', cause: 'cloud' })
    expect(stub.requests).toEqual([])
  })

  it('[ollama.local-or-cloud] an alias of a cloud model is refused before the conversation is sent', async () => {
    await start([{ name: 'notes', way: 'D', remote_host: 'https://ollama.com:443', remote_model: 'gpt-oss:120b' }])
    expect(await failed(modelAt(stub.url), request({ model: 'notes' }))).toMatchObject({ error_kind: 'permanent', cause: 'cloud' })
    expect(stub.chats).toEqual([])
  })

  it('an alias that turns to the cloud after it was looked at is refused by the server itself', async () => {
    await start([{ name: 'notes', turns_cloud: true }])
    const failure = await failed(modelAt(stub.url), request({ model: 'notes' }))
    expect(failure).toMatchObject({ error_kind: 'permanent', cause: 'cloud' })
    expect(failure.message).toContain('has become an alias')
    expect(stub.chats).toEqual([])
  })

  it('a chunk that names a remote model ends the call at once, on a server too old to refuse', async () => {
    const script = [{ text: 'word '.repeat(1_000), chunk_ms: 5 }]
    await start([{ name: 'notes', turns_cloud: true }], { version: '0.12.11', script })
    const before = performance.now()
    expect(await failed(modelAt(stub.url), request({ model: 'notes' }))).toMatchObject({ error_kind: 'permanent', cause: 'cloud' })
    expect(performance.now() - before).toBeLessThan(1_000)
    await stub.stopped()
    expect(stub.open()).toBe(0)
  })

  it('[ollama.local-or-cloud] a model is looked at again for each call', async () => {
    await start([{ name: 'notes', turns_cloud: true }])
    const model = modelAt(stub.url)
    await failed(model, request({ model: 'notes' }))
    const again = await failed(model, request({ model: 'notes' }))
    expect(again).toMatchObject({ cause: 'cloud', message: expect.stringContaining('is an alias') as string })
  })

  it.each([['0.17.7', 'qwen3:8b'], ['0.18.0', 'qwen3:8b:local'], ['0.33.0', 'qwen3:8b:local'], ['0.0.0', 'qwen3:8b']])(
    'a server of version %s is asked for %s', async (version, name) => {
      await start([{ name: 'qwen3:8b' }], { version })
      expect((await reply(modelAt(stub.url))).model).toBe('qwen3:8b')
      expect(stub.chats.map((chat) => chat.model)).toEqual([name])
    })

  it('a name that insists on local already is left as it is', async () => {
    await start([{ name: 'qwen3:8b' }])
    await reply(modelAt(stub.url), request({ model: 'qwen3:8b:local' }))
    expect(stub.chats.map((chat) => chat.model)).toEqual(['qwen3:8b:local'])
  })

  it('a model that was deleted meanwhile is missing, not in the cloud', async () => {
    const body = '{"error":"model \'qwen3:8b:local\' not found"}'
    await start([{ name: 'qwen3:8b' }], { endpoints: { '/api/chat': { kind: 'http', status: 404, body } } })
    expect(await failed(modelAt(stub.url))).toMatchObject({ cause: 'model_missing' })
  })
})

describe('where the cloud is allowed', () => {
  it('cloud models and aliases are used, under their own names', async () => {
    const names = ['gpt-oss:120b-cloud', 'notes']
    await start(names.map((name) => ({ name, way: 'D' })), { policy: 'cloud' })
    for (const name of names) expect((await reply(modelAt(stub.url), request({ model: name, allow_cloud: true }))).text).toBe('ok')
    expect(stub.chats.map((chat) => chat.model)).toEqual(names)
  })
})

describe('a probe', () => {
  const models: StubModel[] = [
    { name: 'qwen3:8b' }, { name: 'gemma3:4b', capabilities: ['completion', 'vision'] }, { name: 'gpt-oss:120b-cloud', way: 'D' },
    { name: 'notes', remote_host: 'https://ollama.com:443' },
  ]

  it.each(['0.9.0', '0.24.0', '0.33.0'])('at version %s lists every model by name, where it runs and whether it calls functions', async (version) => {
    await start(models, { version })
    expect(await modelAt(stub.url).probe()).toEqual({
      address: stub.url, reachable: true, problem: null,
      models: [
        { name: 'gemma3:4b', locality: 'this_machine', functions: false },
        { name: 'gpt-oss:120b-cloud', locality: 'cloud', functions: version === '0.33.0' },
        { name: 'notes', locality: 'cloud', functions: version === '0.33.0' },
        { name: 'qwen3:8b', locality: 'this_machine', functions: true },
      ],
    })
  })

  it('asks about at most twenty models, the first by name', async () => {
    await start(Array.from({ length: 30 }, (_, index) => ({ name: `model-${String(index).padStart(2, '0')}` })), { version: '0.24.0' })
    const { models: found } = await modelAt(stub.url).probe()
    expect(found).toHaveLength(30)
    expect(found.map((model) => model.functions)).toEqual([...Array<boolean>(20).fill(true), ...Array<boolean>(10).fill(false)])
  })

  it('without models is reachable and empty', async () => {
    await start([])
    expect(await modelAt(stub.url).probe()).toEqual({ address: stub.url, reachable: true, problem: null, models: [] })
  })

  it('of a server that is down says where it looked and what to do', async () => {
    await start([])
    await stub.stop()
    const found = await modelAt(stub.url).probe()
    expect(found).toMatchObject({ address: stub.url, reachable: false, models: [] })
    expect(found.problem).toMatch(/not answering at .* "ollama serve"/)
  })

  it('of a server that hangs, or of something else, ends within 3 s', async () => {
    await start([{ name: 'qwen3:8b' }], { version: '0.24.0', endpoints: { '/api/tags': { kind: 'silence' } } })
    const before = performance.now()
    expect(await modelAt(stub.url).probe()).toMatchObject({ reachable: false, problem: expect.stringContaining('within 3 s') as string })
    expect(performance.now() - before).toBeLessThan(3_000)
    await stub.stop()
    await start([], { endpoints: { '*': { kind: 'http', status: 200, body: '<html></html>' } } })
    expect(await modelAt(stub.url).probe()).toMatchObject({ reachable: false })
    await stub.stop()
    await start([], { endpoints: { '*': { kind: 'redirect', location: 'http://127.0.0.1:1/' } } })
    expect(await modelAt(stub.url).probe()).toMatchObject({ reachable: false, problem: expect.stringContaining('redirects') as string })
  })

  it('lists models that it could not ask about in time', async () => {
    await start([{ name: 'qwen3:8b' }], { version: '0.24.0', endpoints: { '/api/show': { kind: 'silence' } } })
    expect((await modelAt(stub.url).probe()).models).toEqual([{ name: 'qwen3:8b', locality: 'this_machine', functions: false }])
  })
})
