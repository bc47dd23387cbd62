import { createServer } from 'node:net'
import { systemClock } from '../../core/clock'
import { canonical } from '../../core/digest'
import { httpSource, httpTargetProblem } from '../../core/functions/http'
import { verifySignature } from '../../core/functions/signature'
import type { FunctionOutcome } from '../../core/functions/function'
import type { FunctionEntry } from '../../core/policy/policy'
import { startCountingServer, type CountingServer, type Plan } from '../support/counting-server'

const signingKey = Buffer.from('a key of the home')
const secrets: Record<string, string> = { TOKEN: 'tok-4711', OTHER_KEY: 'another key', BAD: 'line\nbreak' }
const source = httpSource({ signingKey, secret: (name) => secrets[name], clock: { ...systemClock, now: () => 1_790_000_000_000 } })

let server: CountingServer

beforeAll(async () => {
  server = await startCountingServer()
})

afterAll(() => server.stop())

function entry(target: FunctionEntry['target'], more: Partial<FunctionEntry> = {}): FunctionEntry {
  return {
    id: 'shop::refund', description: '', schema: { type: 'object' }, risk: 'high', side_effects: 'write', idempotent: false, roles: [],
    approver_roles: ['approver'], approval_ttl_ms: 1000, timeout_ms: 5000, unattended: [], target: { kind: 'http', ...target }, ...more,
  }
}

interface Given {
  readonly target?: FunctionEntry['target']
  readonly more?: Partial<FunctionEntry>
  readonly args?: Record<string, never> | object
  readonly signal?: AbortSignal
}

function call(
  path: string,
  { target, more, args = { b: 1, a: 'ä' }, signal = new AbortController().signal }: Given = {},
): Promise<FunctionOutcome> {
  const url = path.startsWith('/') ? server.url + path : path
  return source.call(
    { call_id: 'c_1', turn_id: 't_1', session_id: 's_1', entry: entry({ url, ...target }, more), arguments: args as never },
    signal,
  )
}

/** The answer to a plan of its own path. */
async function planned(path: string, plan: Plan, given?: Given): Promise<FunctionOutcome> {
  server.plan(path, plan)
  return call(path, given)
}

describe('A call', () => {
  it('is one signed POST of the canonical arguments under the call id, on a connection of its own that is not kept', async () => {
    const before = server.connections()
    expect(await call('/plain?fixed=1')).toEqual({ kind: 'answered', value: { ok: true }, is_error: false })
    expect(await call('/plain?fixed=1')).toEqual({ kind: 'answered', value: { ok: true }, is_error: false })
    expect([server.count('/plain'), server.connections() - before]).toEqual([2, 2])
    const [seen] = server.requests.filter((request) => request.path === '/plain')
    expect(seen).toMatchObject({ method: 'POST', query: '?fixed=1', body: '{"a":"ä","b":1}', call_id: 'c_1' })
    expect(seen?.headers).toMatchObject({
      'idempotency-key': 'c_1',
      'harness-call-id': 'c_1',
      'harness-timestamp': '1790000000000',
      'content-type': 'application/json',
      host: `127.0.0.1:${String(server.port)}`,
      connection: 'close',
      'content-length': '16',
    })
    expect(seen?.headers['transfer-encoding']).toBeUndefined()
  })

  it('carries a signature that its receiver can check, and that fits no other request, time or key', async () => {
    await call('/signed?x=%20y')
    const seen = server.requests.find((request) => request.path === '/signed')
    if (seen === undefined) throw new Error('nothing came')
    const request = {
      key: signingKey, method: 'POST', path: '/signed?x=%20y', body: seen.body, now: 1_790_000_000_000,
      header: (name: string) => seen.headers[name.toLowerCase()] as string | undefined,
    }
    expect(verifySignature(request)).toEqual({ ok: true, callId: 'c_1' })
    expect(verifySignature({ ...request, now: request.now + 300_000 }).ok).toBe(true)
    const other = (name: string, value: string | undefined) => ({
      ...request,
      header: (asked: string) => (asked === name ? value : request.header(asked)),
    })
    const wrong = [
      { ...request, key: 'another key' }, { ...request, method: 'PUT' }, { ...request, path: '/signed' }, { ...request, body: '{}' },
      { ...request, now: request.now + 300_001 }, { ...request, now: request.now - 300_001 }, other('Harness-Call-Id', 'c_2'),
      other('Harness-Call-Id', ''), other('Idempotency-Key', 'c_2'), other('Harness-Timestamp', '1790000000001'),
      other('Harness-Signature', undefined), other('Harness-Signature', 'v1='),
    ]
    for (const request of wrong) expect(verifySignature(request)).toEqual({ ok: false, problem: expect.any(String) })
  })

  it('is signed with the secret it names instead, and has the headers of configuration with their references resolved', async () => {
    await call('/own', { target: { signing: '${OTHER_KEY}', headers: { Authorization: 'Bearer ${TOKEN}', 'X-Fixed': '$5' } } })
    const seen = server.requests.find((request) => request.path === '/own')
    expect(seen?.headers).toMatchObject({ authorization: 'Bearer tok-4711', 'x-fixed': '$5' })
    const header = (name: string) => seen?.headers[name.toLowerCase()] as string | undefined
    expect(verifySignature({ key: 'another key', method: 'POST', path: '/own', body: seen?.body ?? '', header, now: 1_790_000_000_000 }).ok).toBe(
      true,
    )
  })

  it('with GET puts its scalars into the query and sends no body; PUT, PATCH and DELETE send one', async () => {
    const more = { side_effects: 'read' } as const
    expect(await call('/get?key=1', { target: { method: 'GET' }, more, args: { q: 'a b&c', n: 2, yes: true, none: null } })).toMatchObject({
      is_error: false,
    })
    const get = server.requests.find((request) => request.path === '/get')
    expect(get).toMatchObject({ method: 'GET', query: '?key=1&n=2&q=a+b%26c&yes=true', body: '' })
    expect(get?.headers['content-length']).toBeUndefined()
    expect(await call('/get', { target: { method: 'GET' }, more, args: { list: [1] } })).toMatchObject({ kind: 'not_sent' })
    expect(await call('/get', { target: { method: 'GET' } })).toMatchObject({ kind: 'not_sent' })
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      await call(`/${method}`, { target: { method } })
      expect(server.requests.find((request) => request.path === `/${method}`)).toMatchObject({ method, body: canonical({ a: 'ä', b: 1 }) })
    }
  })

  it('reaches a server by name over whichever of its addresses answers', async () => {
    expect(await call(`http://localhost:${String(server.port)}/by-name`)).toMatchObject({ kind: 'answered', is_error: false })
    expect(server.count('/by-name')).toBe(1)
  })
})

describe('A complete answer', () => {
  it('is answered by its status: 2xx as the value, 4xx and 5xx as an error with the status', async () => {
    expect(await planned('/created', { kind: 'answer', status: 201, body: [1] })).toEqual({ kind: 'answered', value: [1], is_error: false })
    expect(await planned('/late', { kind: 'answer', delay_ms: 100 })).toEqual({ kind: 'answered', value: { ok: true }, is_error: false })
    expect(await planned('/empty', { kind: 'answer', status: 204, body: '' })).toEqual({ kind: 'answered', value: null, is_error: false })
    for (const status of [400, 404, 429, 500, 503]) {
      expect(await planned('/error', { kind: 'answer', status, body: { why: 'no' } })).toEqual({
        kind: 'answered',
        value: { status, body: { why: 'no' } },
        is_error: true,
      })
    }
    expect(server.count('/error')).toBe(5)
  })

  it('with a redirect is an error that explains itself, and nobody is asked a second time', async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      const outcome = await planned('/redirect', { kind: 'answer', status, headers: { Location: `${server.url}/target` } })
      expect(outcome).toMatchObject({ kind: 'answered', is_error: true, value: { status, body: expect.stringContaining('redirect') } })
    }
    expect([server.count('/redirect'), server.count('/target')]).toEqual([5, 0])
  })

  it('is parsed when it says JSON and is strict JSON; else it stays the text it is', async () => {
    const text = { 'Content-Type': 'text/plain' }
    expect(await planned('/text', { kind: 'answer', headers: text, body: '{"a":1}' })).toMatchObject({ value: '{"a":1}' })
    expect(
      await planned('/problem', { kind: 'answer', headers: { 'Content-Type': 'application/problem+json; charset=utf-8' }, body: { a: 1 } }),
    ).toMatchObject({ value: { a: 1 } })
    for (const body of ['{"a":', '{"a":1,"a":2}', '{"__proto__":1}', '[1e999]', '['.repeat(5000) + ']'.repeat(5000)]) {
      expect(await planned('/broken', { kind: 'answer', body })).toEqual({ kind: 'answered', value: body, is_error: false })
    }
    expect(await planned('/binary', { kind: 'answer', body: Buffer.from([0xff, 0xfe, 0]) })).toMatchObject({ value: '[3 bytes that are no text]' })
  })

  it('is kept to 256 KiB with a note, read to 1 MiB, and answered by its status even where reading stopped', async () => {
    const half = await planned('/long', { kind: 'answer', body: JSON.stringify('ä'.repeat(200_000)) })
    expect(half).toMatchObject({ kind: 'answered', is_error: false, value: expect.stringMatching(/^"ä+\n\[cut: 137858 bytes\]$/) })
    const huge = await planned('/huge', { kind: 'answer', status: 500, body: 'x'.repeat(30_000_000) })
    expect(huge).toMatchObject({
      kind: 'answered',
      is_error: true,
      value: { status: 500, body: expect.stringMatching(/^x+\n\[cut: at least \d+ bytes\]$/) },
    })
    expect(JSON.stringify(huge).length).toBeLessThan(263_000)
  })

  it('without a length, ended by its connection, and in small pieces is whole', async () => {
    expect(await planned('/http10', { kind: 'raw', bytes: 'HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nfine' })).toMatchObject({
      kind: 'answered',
      value: 'fine',
    })
    const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nfi\r\n2\r\nne\r\n0\r\n\r\n'
    expect(await planned('/chunked', { kind: 'raw', bytes: chunked })).toMatchObject({ kind: 'answered', value: 'fine' })
    const long = `HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n${'x'.repeat(200_000)}`
    for (let turn = 0; turn < 50; turn += 1)
      expect(await planned('/closing', { kind: 'raw', bytes: long })).toMatchObject({ kind: 'answered', is_error: false })
  })
})

describe('A call of which nothing can have been sent', () => {
  it('is not sent when nobody listens, the name has no address, or the connection cannot be made secure', async () => {
    const port = await freePort()
    expect(await call(`http://127.0.0.1:${String(port)}/`)).toEqual({
      kind: 'not_sent',
      message: 'shop::refund was not called: the connection was refused.',
    })
    expect(await call(`http://localhost:${String(port)}/`)).toMatchObject({ kind: 'not_sent' })
    expect(await call('http://no-such-host.invalid/', { more: { timeout_ms: 1000 } })).toMatchObject({ kind: 'not_sent' })
    const before = server.requests.length
    expect(await call(`https://127.0.0.1:${String(server.port)}/tls`)).toMatchObject({ kind: 'not_sent' })
    expect(server.requests.length).toBe(before)
  })

  it('is not sent to addresses of metadata services, link-local, unspecified and multicast ones, however they are written', async () => {
    for (const host of [
      '169.254.169.254', '0xa9fea9fe', '169.254.1', '[fe80::1]', '[fd00:ec2::254]', '[::ffff:169.254.169.254]', '[64:ff9b::a9fe:a9fe]', '0.0.0.0',
      '0', '[::]', '224.0.0.1', '[ff02::1]', '255.255.255.255',
    ]) {
      expect([host, await call(`http://${host}:${String(server.port)}/blocked`)]).toEqual([
        host,
        { kind: 'not_sent', message: expect.stringContaining('never called') },
      ])
    }
    expect(server.count('/blocked')).toBe(0)
  })

  it('is not sent when its target or a secret is wrong, and the message names what and shows no value', async () => {
    const cases: [FunctionEntry['target'], string][] = [
      [{ url: 'nonsense' }, 'no URL'], [{ url: 'ftp://127.0.0.1/' }, 'neither http nor https'],
      [{ url: 'file:///etc/hosts' }, 'neither http nor https'], [{ url: 'http://u:hunter2@127.0.0.1/' }, 'holds a user'],
      [{ method: 'TRACE' }, 'method'], [{ headers: { A: '${NONE}' } }, 'the secret NONE is not set'],
      [{ signing: 'NONE' }, 'the secret NONE is not set'], [{ headers: { A: 'x${BAD}' } }, 'its header A cannot be sent'],
      [{ headers: { 'a b': 'x' } }, 'no valid name'], [{ headers: { 'Harness-Signature': 'v1=0' } }, 'set by the harness'],
      [{ headers: { host: 'elsewhere' } }, 'set by the harness'], [{ headers: { A: 1 } }, 'no text'],
    ]
    for (const [target, words] of cases) {
      const outcome = await call('/wrong', { target })
      expect(outcome).toEqual({ kind: 'not_sent', message: expect.stringContaining(words) })
      expect(JSON.stringify(outcome)).not.toMatch(/hunter2|line|\n/)
    }
    expect(server.count('/wrong')).toBe(0)
    expect(httpTargetProblem(entry({ url: 'nonsense' }))).toBe('its url is no URL')
    expect(httpTargetProblem(entry({ url: server.url, headers: { A: '${NONE}' } }))).toBeNull()
  })

  it('is not sent when it was stopped before, or runs out of time while it connects', async () => {
    const stopped = new AbortController()
    stopped.abort()
    expect(await call('/stopped', { signal: stopped.signal })).toEqual({
      kind: 'not_sent',
      message: 'shop::refund was not called: it was stopped.',
    })
    // A server that never answers the TLS greeting: connected, but nothing of the request was written.
    const silent = await silentServer()
    expect(await call(`https://127.0.0.1:${String(silent.port)}/`, { more: { timeout_ms: 100 } })).toEqual({
      kind: 'not_sent',
      message: 'shop::refund was not called: it took longer than 100 ms.',
    })
    await silent.stop()
    expect(server.count('/stopped')).toBe(0)
  })
})

describe('A call of which a byte may have been sent', () => {
  it('is cut when the connection breaks before the answer, or in the middle of it', async () => {
    for (const kind of ['cut', 'cut_in_body'] as const) {
      expect(await planned(`/${kind}`, { kind })).toEqual({
        kind: 'cut',
        message: expect.stringMatching(/^shop::refund: 127\.0\.0\.1:\d+ may have got the request, but .*; whether it acted is unknown\.$/),
      })
      expect(server.count(`/${kind}`)).toBe(1)
    }
    const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n'
    for (const bytes of ['', 'HTTP/1.1 200 OK\r\nContent-Le', chunked, 'HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nshort']) {
      expect(await planned('/raw', { kind: 'raw', bytes })).toMatchObject({ kind: 'cut' })
    }
    expect(server.count('/raw')).toBe(4)
  })

  it('is cut when the answer is no HTTP', async () => {
    expect(await planned('/garbage', { kind: 'raw', bytes: 'SSH-2.0-nothing\r\n' })).toMatchObject({ kind: 'cut' })
    expect(await planned('/upgrade', { kind: 'raw', bytes: 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n' })).toMatchObject({
      kind: 'cut',
    })
  })

  it('is cut when it runs out of time, with no answer and with half of one', async () => {
    for (const kind of ['hold', 'first_byte'] as const) {
      const outcome = await planned(`/slow-${kind}`, { kind }, { more: { timeout_ms: 200 } })
      expect(outcome).toEqual({ kind: 'cut', message: expect.stringContaining('it took longer than 200 ms') })
    }
    server.release()
  })

  it('settles as cut within 250 ms of being stopped, and its connection is closed', async () => {
    for (const kind of ['hold', 'first_byte'] as const) {
      const controller = new AbortController()
      const path = `/stop-${kind}`
      const outcome = planned(path, { kind }, { signal: controller.signal })
      await server.seen(path, 1)
      await new Promise((resolve) => setTimeout(resolve, 30))
      const start = performance.now()
      controller.abort(new Error('secret reason'))
      expect(await outcome).toEqual({ kind: 'cut', message: expect.stringContaining('it was stopped') })
      expect(performance.now() - start).toBeLessThan(250)
      await new Promise((resolve) => setTimeout(resolve, 100))
      expect([server.count(path), server.open()]).toEqual([1, 0])
    }
    server.release()
  })

  it('never shows a secret in its message', async () => {
    const outcome = await planned('/hush', { kind: 'cut' }, { target: { headers: { Authorization: 'Bearer ${TOKEN}' } } })
    expect(JSON.stringify(outcome)).not.toContain('tok-4711')
  })
})

async function freePort(): Promise<number> {
  const silent = await silentServer()
  await silent.stop()
  return silent.port
}

function silentServer(): Promise<{ port: number; stop(): Promise<void> }> {
  const listener = createServer((socket) => socket.on('error', () => undefined).resume())
  return new Promise((resolve) => {
    listener.listen(0, '127.0.0.1', () => {
      const { port } = listener.address() as { port: number }
      resolve({
        port,
        stop: () =>
          new Promise((done) =>
            listener.close(() => {
              done()
            }),
          ),
      })
    })
  })
}
