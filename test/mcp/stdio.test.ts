/* The manners of the stdio server: what it says on stdout, what it accepts, when it ends, and what it does beside another process. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { startCountingServer, type CountingServer } from '../support/counting-server'
import {
  cli,
  endAll,
  environment,
  isAlive,
  start,
  testHome,
  until,
  watch,
  type Facts,
  type Message,
  type RawClient,
  type TestHome,
} from '../support/mcp-process'

const refund = { order: 'A-1001', amount: 20, reason: 'damaged' }
const open: { stop(): Promise<void> }[] = []

jest.setTimeout(90_000)

afterEach(async () => {
  await endAll()
  for (const server of open.splice(0)) await server.stop()
})

/** A home with a function that hangs: a write that a rule lets pass. */
async function homeWithSlowCall(): Promise<{ home: TestHome; shop: CountingServer }> {
  const shop = await startCountingServer()
  open.push(shop)
  shop.hold('/slow')
  const home = testHome()
  home.configure(`
functions:
  shop::slow: { description: Takes its time., risk: low, schema: { type: object }, http: { url: '${shop.url}/slow' } }
policy: { rules: [{ id: slow, functions: 'shop::slow', effect: allow, reason: For a test. }] }
`)
  return { home, shop }
}

const callTool = (client: RawClient, name: string, args: unknown): Promise<Message> => client.request('tools/call', { name, arguments: args })

async function endsWithin(ms: number, running: { pid: number; ended: Promise<unknown> }): Promise<void> {
  const begun = performance.now()
  await running.ended
  expect(performance.now() - begun).toBeLessThan(ms)
  expect(isAlive(running.pid)).toBe(false)
}

it('[mcp.stdout-clean] every line of stdout is JSON-RPC, whatever comes in, over a whole run with everything logged', async () => {
  const home = testHome()
  const client = home.raw(['--sample', '--verbose'], {
    nodeOptions: ['--require', preload(home, 'setTimeout(() => { console.log("noise"); process.stdout.write("more noise\\n") }, 300)')],
  })
  expect(await client.initialize()).toMatchObject({ result: { serverInfo: { name: 'agent-harness' }, capabilities: { tools: {} } } })
  for (const line of [
    '',
    '   ',
    'garbage',
    '[]',
    '{"jsonrpc":"2.0"}',
    '{"jsonrpc":"2.0","id":77,"method":"no/such"}',
    '{"id":1}',
    `"${'x'.repeat(100_000)}"`,
    '{"jsonrpc":"2.0","id":78,"method":"ping"}\r',
  ])
    client.line(line)
  client.line('x'.repeat(11 * 1024 * 1024))
  expect((await client.request('tools/list')).result.tools).toHaveLength(8)
  expect(await client.request('server/discover')).toMatchObject({ error: { code: -32601 } })
  expect(
    (await callTool(client, 'run_function', { function_id: 'shop::look_up_order', arguments: { order: 'A-1001' } })).result.structuredContent,
  ).toMatchObject({ state: 'completed' })
  expect(
    (await callTool(client, 'run_function', { function_id: 'shop::refund', arguments: refund, wait_seconds: 5 })).result.structuredContent,
  ).toMatchObject({ state: 'held' })
  await until('the noise', () => client.stderr().includes('more noise'))
  client.child.stdin.end()
  expect((await client.ended).code).toBe(0)
  const ids = client.messages().map((message) => message.id)
  expect(ids).toEqual(expect.arrayContaining([77, 78]))
  expect(client.stdout()).not.toContain('noise')
})

it('[mcp.loose-arguments] null, missing, stringified and empty arguments are taken as they are meant', async () => {
  const home = testHome()
  const client = home.raw(['--sample'])
  await client.initialize()
  const facts = async (name: string, args: unknown): Promise<Facts> => {
    const { result } = await callTool(client, name, args)
    expect(result).toMatchObject({ structuredContent: {} })
    return result.structuredContent!
  }
  for (const args of [null, undefined, {}, '{}', '', { limit: null }]) expect((await facts('list_approvals', args)).approvals).toEqual([])
  const order = { order: 'A-1001' }
  for (const args of [
    { function_id: 'shop::look_up_order', arguments: order, session_id: null, idempotency_key: '', wait_seconds: null },
    { function_id: 'shop::look_up_order', arguments: JSON.stringify(order), wait_seconds: '10', unknown_field: 1 },
    JSON.stringify({ function_id: 'shop::look_up_order', arguments: order }),
  ])
    expect(await facts('run_function', args)).toMatchObject({ state: 'completed', result: { order: 'A-1001' } })
})

it('[bad.null-arguments] [bad.unknown-id] [bad.large-message] what cannot be meant is refused in words that help', async () => {
  const home = testHome()
  const client = home.raw(['--sample'])
  await client.initialize()
  const refusals: [name: string, args: unknown, expected: RegExp][] = [
    ['run_function', null, /function_id is missing.*Call it like/],
    ['run_function', { function_id: 'shop::refund', arguments: '{"order":' }, /arguments came as a text/],
    ['run_function', { function_id: 'shop::refund', arguments: [1] }, /must be a JSON object/],
    ['run_function', { function_id: 'shop::refund', wait_seconds: 46 }, /from 0 to 45/],
    ['send_to_agent', { message: '' }, /message is missing/],
    ['send_to_agent', { message: 'x'.repeat(5_000_000) }, /5000000 bytes; the most is/],
    ['get_turn', {}, /Name a turn/],
    ['get_turn', { turn_id: 't_unknown' }, /There is no turn t_unknown/],
    ['stop_turn', { session_id: 's_unknown' }, /There is no session s_unknown/],
    ['get_approval', { approval_id: 'a_unknown' }, /There is no approval a_unknown/],
    ['list_approvals', { status: 'open' }, /one of pending/],
    ['no_such_tool', {}, /There is no tool/],
  ]
  for (const [name, args, expected] of refusals) {
    const { result } = await callTool(client, name, args)
    expect(result).toMatchObject({ isError: true, content: [{ type: 'text', text: expect.stringMatching(expected) }] })
    expect(result.structuredContent).toBeUndefined()
    expect(result.content[0]!.text).not.toMatch(/\n\s+at |\/(home|root|tmp|work)\//)
  }
  expect((await home.run(['status'])).stdout).toMatch(/Turns +none yet/)
})

it('[bad.arguments-off-schema] arguments off their schema are refused before anything is sent, and the answer says how', async () => {
  const client = await testHome().client(['--sample'])
  const facts = await client.call('run_function', {
    function_id: 'shop::refund',
    arguments: { order: 'A-1001', amount: -1, reason: 'x', extra: true },
  })
  expect(facts).toMatchObject({ state: 'cancelled', reason: 'denied', calls: [{ status: 'denied', reason: 'invalid_arguments' }] })
  expect(facts.next).toMatch(/Correct them/)
})

it('[stop.inside-function] stop_turn ends a turn inside a function call, and tells the cut write as unknown', async () => {
  const { home, shop } = await homeWithSlowCall()
  const client = await home.client()
  const { turn_id, state, next } = await client.call('run_function', { function_id: 'shop::slow', arguments: {}, wait_seconds: 0 })
  expect(state).toBe('working')
  expect(next).toMatch(/get_turn with turn_id .* pauses when the server exits/s)
  await shop.seen('/slow', 1)
  expect(await client.call('stop_turn', { turn_id })).toMatchObject({ stopping: true, turn_id })
  expect(await client.call('get_turn', { turn_id, wait_seconds: 10 })).toMatchObject({ state: 'cancelled', calls: [{ status: 'interrupted' }] })
})

it('[mcp.ends-with-stdin] ends within 2 s of the end of stdin with a running and a held turn; both go on at the next start', async () => {
  const { home, shop } = await homeWithSlowCall()
  const client = home.raw(['--sample'])
  await client.initialize()
  const turn = (await callTool(client, 'run_function', { function_id: 'shop::refund', arguments: refund })).result.structuredContent!
  expect(turn).toMatchObject({ state: 'held' })
  // the answer to this one is still waited for when the input ends
  client.line(
    JSON.stringify({
      jsonrpc: '2.0',
      id: 900,
      method: 'tools/call',
      params: { name: 'run_function', arguments: { function_id: 'shop::slow', wait_seconds: 45 } },
    }),
  )
  await shop.seen('/slow', 1)
  client.child.stdin.end()
  await endsWithin(2_000, client)
  const waited = client.messages().find((message) => message.id === 900)!.result.structuredContent!
  expect(waited).toMatchObject({ state: 'working' })

  const next = await home.client()
  expect(await next.call('get_turn', { turn_id: turn.turn_id })).toMatchObject({ state: 'held' })
  // started, not idempotent, cut: told as unknown and never sent again
  expect(await next.call('get_turn', { turn_id: waited.turn_id, wait_seconds: 10 })).toMatchObject({
    reason: 'interrupted',
    calls: [{ status: 'interrupted' }],
  })
  expect(shop.count('/slow')).toBe(1)
})

it('[mcp.ends-with-stdin] answers what came in before the end of a short input', async () => {
  const home = testHome()
  const lines = [
    {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'pipe', version: '1' } },
    },
    { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'list_functions' } },
  ]
  const { code, stdout } = await home.run(['stdio', '--sample'], { stdin: lines.map((line) => `${JSON.stringify(line)}\n`).join('') })
  expect(code).toBe(0)
  const answers = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Message)
  expect(answers.map((answer) => answer.id)).toEqual([1, 2])
  expect(answers[0]!.result.protocolVersion).toBe('2025-06-18')
  expect(answers[1]!.result.structuredContent?.functions).toHaveLength(2)
})

it.each(['SIGINT', 'SIGTERM'] as const)('[mcp.ends-with-stdin] ends within 2 s of %s', async (signal) => {
  const { home, shop } = await homeWithSlowCall()
  const client = home.raw()
  await client.initialize()
  client.line(
    JSON.stringify({ jsonrpc: '2.0', id: 900, method: 'tools/call', params: { name: 'run_function', arguments: { function_id: 'shop::slow' } } }),
  )
  await shop.seen('/slow', 1)
  client.child.kill(signal)
  await endsWithin(2_000, client)
})

it('[mcp.ends-with-stdin] ends when nobody reads its stdout any more', async () => {
  const client = testHome().raw(['--sample'])
  await client.initialize()
  client.child.stdout.destroy()
  client.line(JSON.stringify({ jsonrpc: '2.0', id: 900, method: 'tools/list' }))
  client.line(JSON.stringify({ jsonrpc: '2.0', id: 901, method: 'tools/list' }))
  await endsWithin(2_000, client)
})

it('[mcp.ends-with-stdin] ends within 2 s when its parent is killed, though its stdin stays open', async () => {
  const home = testHome()
  // the pipe's other end is held by the grandparent, so only the parent's death can be noticed
  const script = `
    const [cli, home, file] = process.argv.slice(1)
    const child = require('node:child_process').spawn(process.execPath, [cli, 'stdio', '--home', home], { stdio: 'inherit' })
    require('node:fs').writeFileSync(file, String(child.pid))`
  const parent = watch(process.execPath, ['-e', script, cli, home.folder, path.join(home.folder, 'pid')], { env: environment() })
  parent.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`)
  await parent.says(/"id":1/)
  const pid = Number(readFileSync(path.join(home.folder, 'pid'), 'utf8'))
  expect(isAlive(pid)).toBe(true)
  const begun = performance.now()
  parent.child.kill('SIGKILL')
  await until('its end', () => !isAlive(pid))
  expect(performance.now() - begun).toBeLessThan(2_000)
})

it('[mcp.beside-owner] [home.one-worker] [bad.second-process] beside the owner of the database it writes and reads rows, and says so', async () => {
  const { home, shop } = await homeWithSlowCall()
  const owner = home.start(['serve', '--port', '0'])
  await owner.says(/is up/)
  const client = await home.client()
  expect(client.client.getInstructions()).toMatch(/Another process holds the database and runs the turns/)
  const { turn_id, worker, next } = await client.call('run_function', { function_id: 'shop::slow', arguments: {}, wait_seconds: 0 })
  expect(worker).toMatch(new RegExp(`serve, pid ${String(owner.pid)}`))
  expect(next).toContain('Worker: ')
  await shop.seen('/slow', 1)

  // a stopped owner runs nothing, so nothing may run
  owner.child.kill('SIGSTOP')
  const stalled = await client.call('run_function', { function_id: 'shop::slow', arguments: {}, wait_seconds: 1 })
  expect(stalled).toMatchObject({ state: 'working' })
  expect(shop.count('/slow')).toBe(1)
  owner.child.kill('SIGCONT')
  await shop.seen('/slow', 2)

  owner.child.kill('SIGKILL')
  await owner.ended
  expect(await client.call('get_turn', { turn_id, wait_seconds: 20 })).toMatchObject({
    reason: 'interrupted',
    worker: 'This process runs the turns.',
  })
  expect(shop.count('/slow')).toBe(2)
})

it('[mcp.beside-owner] alone it says that its turns pause when it exits', async () => {
  const client = await testHome().client()
  expect(client.client.getInstructions()).toMatch(/runs turns itself: they pause when it exits and go on at its next start/)
})

it('[mcp.sdk-client] progress is told to those who ask, and the end of a wait does not end the turn', async () => {
  const { home, shop } = await homeWithSlowCall()
  const client = await home.client()
  const told: (string | undefined)[] = []
  const call = { name: 'run_function', arguments: { function_id: 'shop::slow', wait_seconds: 45, idempotency_key: 'k' } }
  await expect(
    client.client.callTool(call, undefined, {
      timeout: 1_500,
      onprogress: ({ message }) => {
        told.push(message)
      },
    }),
  ).rejects.toThrow(/timed out/i)
  expect(told.join('\n')).toMatch(/working.*shop::slow started/)
  const { turn_id } = await client.call('run_function', { ...call.arguments, wait_seconds: 0 })
  expect(await client.call('get_turn', { turn_id })).toMatchObject({ state: 'working', calls: [{ status: 'started' }] })
  shop.release()
  expect(await client.call('get_turn', { turn_id, wait_seconds: 10 })).toMatchObject({ state: 'completed' })
  expect(shop.count('/slow')).toBe(1)
})

describe('a wrong Node', () => {
  const oldNode = 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.5" } })'

  it('[mcp.wrong-node] answers initialize with an error that says what to install, after a probe that it does not know', async () => {
    const home = testHome()
    const client = home.raw([], { nodeOptions: ['--require', preload(home, oldNode)] })
    expect(await client.request('server/discover')).toMatchObject({ error: { code: -32601 } })
    client.line(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 900,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
      }),
    )
    expect((await client.ended).code).toBe(1)
    expect(client.messages().find((message) => message.id === 900)).toMatchObject({
      error: { code: -32603, message: expect.stringMatching(/needs Node 22\.13 or newer, this is 20\.19\.5\. Install Node 24/) },
    })
  })

  it('[package.old-node-told] any other command says so on stderr and ends with 1, and makes nothing', async () => {
    const home = testHome()
    const done = await home.run(['status'], { nodeOptions: ['--require', preload(home, oldNode)] })
    expect(done).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^agent-harness needs Node 22\.13 or newer, this is 20\.19\.5\./),
    })
  })
})

it('[bad.broken-configuration] a harness that cannot start answers initialize with the reason', async () => {
  const home = testHome()
  home.configure('no_such_setting: 1\n')
  const client = home.raw()
  expect(
    await client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } }),
  ).toMatchObject({
    error: { code: -32603, message: expect.stringMatching(/harness\.yaml line \d+.*no_such_setting/s) },
  })
  expect((await client.ended).code).toBe(1)
})

it('[mcp.loose-arguments] tells each client its own revision', async () => {
  const client = testHome().raw()
  for (const protocolVersion of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    expect(await client.request('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'raw', version: '1' } })).toMatchObject({
      result: { protocolVersion },
    })
  }
})

function preload(home: TestHome, code: string): string {
  const file = path.join(home.folder, 'preload.cjs')
  writeFileSync(file, code)
  return file
}

it('[mcp.stdout-clean] an unknown command says so on stderr and ends with 2', async () => {
  expect(await start(['no-such-command'], { stdin: '' }).ended).toMatchObject({ code: 2, stdout: '' })
})
