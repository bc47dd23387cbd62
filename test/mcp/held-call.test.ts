/* The main job through real clients: a call is held, a person decides in another process, and the call runs once or never. */
import path from 'node:path'
import Database from 'better-sqlite3'
import { startCountingServer, type CountingServer } from '../support/counting-server'
import {
  cli,
  endAll,
  environment,
  inspector,
  testHome,
  until,
  watch,
  type Facts,
  type TestClient,
  type TestHome,
  type ToolResult,
} from '../support/mcp-process'
import { startStrictOllama, type StrictOllama } from '../support/strict-ollama'

const refund = { order: 'A-1001', amount: 20, reason: 'damaged' }
const open: { stop(): Promise<void> }[] = []

jest.setTimeout(90_000)

afterEach(async () => {
  await endAll()
  for (const server of open.splice(0)) await server.stop()
})

/** A home where shop::refund is a write at a server that counts. */
async function homeWithShop(): Promise<{ home: TestHome; shop: CountingServer }> {
  const shop = await startCountingServer()
  open.push(shop)
  const home = testHome()
  home.configure(`
functions:
  shop::refund:
    description: Refunds an order.
    risk: high
    schema: { type: object, properties: { order: { type: string }, amount: { type: number }, reason: { type: string } }, additionalProperties: false }
    http: { url: '${shop.url}/refund' }
`)
  await home.init()
  return { home, shop }
}

async function ollama(way: 'A' | 'B'): Promise<StrictOllama> {
  const stub = await startStrictOllama({
    // by name the first two come before it: one leaves the machine, one cannot call functions
    models: [
      { name: 'a-cloud', remote_host: 'https://ollama.com:443' },
      { name: 'b-plain', capabilities: ['completion'] },
      { name: 'qwen3:8b', way },
    ],
    script: [{ text: '', tool_calls: [{ name: 'shop__refund', arguments: refund }] }, { text: 'The refund was made.' }],
  })
  open.push(stub)
  return stub
}

async function held(client: TestClient, name: string, args: Record<string, unknown>): Promise<{ turn_id: string; approval_id: string }> {
  const facts = await client.call(name, args)
  expect(facts).toMatchObject({ state: 'held', calls: [{ status: 'held', function_id: 'shop::refund' }], approvals: [{ status: 'pending' }] })
  const { approval_id } = facts.approvals[0]!
  expect(facts.next).toContain(`approvals approve ${approval_id}`)
  expect(facts.next).toMatch(/Waits for a person.*Do not retry/)
  return { turn_id: facts.turn_id, approval_id }
}

it('[mcp.sdk-client] [mcp.sample] with --sample a call is held, decided by command line, and completed, once', async () => {
  const home = testHome()
  await home.init()
  const client = await home.client(['--sample'])
  const { turn_id, approval_id } = await held(client, 'run_function', { function_id: 'shop::refund', arguments: refund, session_id: null })
  expect((await client.call('get_approval', { approval_id })).arguments).toEqual(refund)
  expect(await client.call('get_turn', { turn_id })).toMatchObject({ state: 'held' })

  const waiting = client.call('get_turn', { turn_id, wait_seconds: 45 })
  expect(await home.decide('approve', approval_id)).toMatchObject({ code: 0, stdout: expect.stringContaining('approved by alice') })
  expect(await waiting).toMatchObject({
    state: 'completed',
    reason: 'done',
    result: { refund_id: 'R-1', order: 'A-1001', amount: 20 },
    calls: [{ status: 'succeeded' }],
    approvals: [{ approval_id, status: 'approved', decided_by: 'alice' }],
  })
  expect(await home.run(['audit', 'verify'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^good/) })
})

it('[mcp.sample] a rejected call is never sent, and the client is told why', async () => {
  const { home, shop } = await homeWithShop()
  const client = await home.client()
  const { turn_id, approval_id } = await held(client, 'run_function', { function_id: 'shop::refund', arguments: refund })
  expect((await home.decide('reject', approval_id)).code).toBe(0)
  const facts = await client.call('get_turn', { turn_id, wait_seconds: 20 })
  expect(facts).toMatchObject({ state: 'cancelled', reason: 'rejected', approvals: [{ status: 'rejected', reason: 'not today' }] })
  expect(facts.next).toMatch(/said no/)
  expect(shop.count('/refund')).toBe(0)
})

it.each(['A', 'B'] as const)(
  '[mcp.sdk-client] [mcp.ollama-wire] [home.default-model] a model over the wire of Ollama, way %s, is held, decided, and goes on to its answer',
  async (way) => {
    const { home, shop } = await homeWithShop()
    const stub = await ollama(way)
    const client = await home.client([], { OLLAMA_HOST: stub.url })
    const { turn_id, approval_id } = await held(client, 'send_to_agent', { message: 'Refund 20 for A-1001, it came damaged.' })
    expect(shop.count('/refund')).toBe(0)
    expect((await home.decide('approve', approval_id)).code).toBe(0)
    expect(await client.call('get_turn', { turn_id, wait_seconds: 45 })).toMatchObject({ state: 'completed', result: 'The refund was made.' })
    expect(shop.count('/refund')).toBe(1)
    expect(JSON.parse(shop.requests[0]!.body)).toMatchObject(refund)
    expect(stub.chats.map(({ model }) => model.replace(/:local$/, ''))).toEqual(['qwen3:8b', 'qwen3:8b'])
    expect(stub.violations).toEqual([])
  },
)

it('[mcp.inspector] the command line of the Inspector lists the tools, and calls one that is held, decided, and completed', async () => {
  const { home, shop } = await homeWithShop()
  // the Inspector's server lives for one call only; serve runs the turn between them
  await home.start(['serve', '--port', '0']).says(/is up/)
  const inspect = async (...words: string[]): Promise<ToolResult & { result?: ToolResult }> => {
    const env = { ...environment(), HOME: home.folder, MCP_INSPECTOR_SECRET_STORE: 'memory' }
    const { code, stdout, stderr } = await watch(
      process.execPath,
      [inspector, '--cli', process.execPath, cli, 'stdio', '--home', home.folder, ...words, '--format', 'json'],
      { env, stdin: '' },
    ).ended
    if (code !== 0) throw new Error(`${stderr}${stdout}`)
    return JSON.parse(stdout) as ToolResult
  }
  const listed = await inspect('--method', 'tools/list')
  expect(JSON.stringify(listed)).toContain('"run_function"')
  const call = async (name: string, args: object): Promise<Facts> => {
    const answer = await inspect('--method', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args))
    return (answer.result ?? answer).structuredContent!
  }
  const { turn_id, state, approvals, worker } = await call('run_function', { function_id: 'shop::refund', arguments: refund })
  expect(state).toBe('held')
  expect(worker).toContain('serve')
  expect((await home.decide('approve', approvals[0]!.approval_id)).code).toBe(0)
  expect(await call('get_turn', { turn_id, wait_seconds: 20 })).toMatchObject({ state: 'completed' })
  expect(shop.count('/refund')).toBe(1)
})

it('[commit.idempotency-key] a call repeated by its client, by key or by the id of the tool use, starts nothing new', async () => {
  const { home } = await homeWithShop()
  const client = await home.client()
  const args = { function_id: 'shop::refund', arguments: refund }
  const first = await client.call('run_function', { ...args, idempotency_key: 'one' })
  expect(await client.call('run_function', { ...args, idempotency_key: 'one' })).toMatchObject({ turn_id: first.turn_id, deduplicated: true })
  expect(await client.refused('run_function', { ...args, arguments: { ...refund, amount: 1 }, idempotency_key: 'one' })).toContain('another request')
  const used = async (id: string): Promise<string> => {
    const answer = await client.client.callTool({ name: 'run_function', arguments: args, _meta: { 'claudecode/toolUseId': id } })
    return (answer as unknown as ToolResult).structuredContent!.turn_id
  }
  const [second, again, third] = [await used('toolu_1'), await used('toolu_1'), await used('toolu_2')]
  expect(again).toBe(second)
  expect(new Set([first.turn_id, second, third]).size).toBe(3)
})

it('[home.no-key-holds] [authority.reload-audited] without an approver the call is held, and the answer names what makes one', async () => {
  const home = testHome()
  const client = await home.client(['--sample'])
  const facts = await client.call('run_function', { function_id: 'shop::refund', arguments: refund })
  expect(facts).toMatchObject({ state: 'held' })
  expect(facts.next).toMatch(/Nobody can decide yet.* init /)
  const { approval_id } = facts.approvals[0]!
  expect((await home.decide('approve', approval_id)).code).toBe(1)
  // a key that is made now counts at once: the process that holds the call takes it up by itself
  await home.init()
  expect((await home.decide('approve', approval_id)).code).toBe(0)
  await until('the end', async () => (await client.call('get_turn', { turn_id: facts.turn_id })).state === 'completed')
  const database = new Database(path.join(home.folder, 'harness.db'), { readonly: true })
  const loaded = database.prepare("SELECT count(*) AS count FROM audit_events WHERE chain = 'deployment' AND changes LIKE '%authority.loaded%'").get()
  database.close()
  expect((loaded as { count: number }).count).toBeGreaterThan(0)
})
