/*
 * The HTTP interface of a real `agent-harness serve`, as programs and strangers meet it: who gets in, who does not, what is too much, and
 * that nobody who goes away takes a turn with him.
 */
import { spawn } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import path from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { operations } from '../../core/protocol/operations'
import { startCountingServer, type CountingServer } from '../support/counting-server'
import { endAll, isAlive, testHome, until, type Running, type TestHome } from '../support/mcp-process'

jest.setTimeout(90_000)

const servers: CountingServer[] = []
afterEach(async () => {
  await endAll()
  for (const server of servers.splice(0)) await server.stop()
})

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: Readonly<Record<string, unknown>> | null
}

interface Asked {
  readonly token?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** A text is sent as it is. */
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/** One request by hand: fetch would not let us set Host or Origin. */
function ask(base: string, where: string, { token, method = 'POST', headers = {}, body = {}, signal }: Asked = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const bytes = method === 'GET' ? '' : typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    const length = 'transfer-encoding' in headers ? {} : { 'content-length': String(Buffer.byteLength(bytes)) }
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const sent = httpRequest(`${base}${where}`, { method, headers: { 'content-type': 'application/json', ...length, ...authorization, ...headers }, ...(signal === undefined ? {} : { signal }) }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => { text += part })
      response.on('error', reject)
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, body: /json/.test(response.headers['content-type'] ?? '') && text !== '' ? (JSON.parse(text) as Answer['body']) : null })
      })
    })
    sent.on('error', reject)
    sent.end(bytes)
  })
}

interface Scene {
  readonly home: TestHome
  readonly shop: CountingServer
  readonly serve: Running
  readonly base: string
  addToken(...words: string[]): Promise<string>
}

async function serving(more = ''): Promise<Scene> {
  const shop = await startCountingServer()
  servers.push(shop)
  const home = testHome()
  home.configure(`
# a comment that somebody wrote
functions:
  shop::refund: { description: Refunds an order., risk: high, schema: { type: object }, http: { url: '${shop.url}/refund' } }
  shop::look_up: { description: Looks an order up., risk: low, side_effects: read, schema: { type: object }, http: { url: '${shop.url}/look_up' } }
${more}`)
  const serve = home.start(['serve', '--port', '0'])
  const [, base = ''] = await serve.says(/HTTP +(http:\/\/127\.0\.0\.1:\d+)\/v1 /)
  return {
    home, shop, serve, base,
    async addToken(...words) {
      const done = await home.run(['tokens', 'add', ...words])
      expect([done.code, done.stdout]).toEqual([0, expect.stringMatching(/^ahk_[A-Za-z0-9_-]{43}\n$/)])
      return done.stdout.trim()
    },
  }
}

const lookUp = { call: { function_id: 'shop::look_up', arguments: { order: 'A-1' } } }
const errorOf = (answer: Answer): unknown => (answer.body?.['error'] as { code?: unknown } | undefined)?.code

/** Nothing that shows how the program is built, and nothing a cache may keep. */
function isClean(answer: Answer): void {
  expect(answer.text).not.toMatch(/node_modules|\.(ts|js)\b|\bat \w+ \(|\/tmp\/|ahk_/)
  expect(answer.headers['cache-control']).toBe('no-store')
}

it('[http.removed-token] a token made beside a running serve is taken at once, and counts no more once it is removed', async () => {
  const { home, base, serve, addToken } = await serving()
  expect(serve.stdout()).toMatch(/nobody has a token yet; make one with .*tokens add n8n/)
  expect(await home.run(['tokens'])).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('There are no tokens.') })
  const token = await addToken('n8n')
  const other = await addToken('other', '--scopes', 'turns:read')
  expect(await ask(base, '/v1/trigger', { token, body: { ...lookUp, wait_seconds: 20 } })).toMatchObject({ status: 200, body: { state: 'completed', function_id: 'shop::look_up' } })
  expect(await ask(base, '/v1/get_user_context', { token })).toMatchObject({ body: { id: 'n8n', scopes: expect.not.arrayContaining(['admin']) } })
  const listed = await home.run(['tokens', 'list'])
  expect(listed.stdout).toMatch(/^n8n {2}\(speaks for n8n; all its scopes; never expires\)\n {2}called back at http:\/\/127\.0\.0\.1:5678\/, http:\/\/localhost:5678\/\nother {2}\(speaks for n8n; turns:read; never expires\)\n/)
  expect(readFileSync(path.join(home.folder, 'harness.yaml'), 'utf8')).toContain('# a comment that somebody wrote')

  expect(await home.run(['tokens', 'remove', 'n8n'])).toMatchObject({ code: 0 })
  const gone = await ask(base, '/v1/get_user_context', { token })
  expect([gone.status, errorOf(gone)]).toEqual([401, 'unauthenticated'])
  expect((await ask(base, '/v1/status', { token: other, body: { turn_id: 't' } })).status).toBe(200)
  expect(await home.run(['tokens', 'remove', 'n8n'])).toMatchObject({ code: 1, stderr: expect.stringContaining('It has: other.') })
})

it('[http.removed-token] a token that has expired is no token, to the millisecond and without a restart', async () => {
  const { home, base, addToken } = await serving()
  const end = Date.now() + 3_000
  const token = await addToken('brief', '--expires', new Date(end).toISOString())
  const seen: number[] = []
  await until('the end of the token', async () => {
    const { status } = await ask(base, '/v1/list_functions', { token })
    seen.push(status)
    return status === 401
  })
  expect(Date.now()).toBeGreaterThanOrEqual(end)
  expect(new Set(seen)).toEqual(new Set([200, 401]))
  expect((await home.run(['tokens'])).stdout).toContain('expired')
  const past = await addToken('past', '--expires', '2020-01-01')
  expect((await ask(base, '/v1/list_functions', { token: past })).status).toBe(401)
})

it('[http.token-only] whoever has no token is told the same whatever they ask for, and too many of them are told to wait', async () => {
  const { base, addToken } = await serving()
  const token = await addToken('n8n')
  const strangers: readonly (readonly [string, Asked])[] = [
    ['/v1/status', {}], ['/v1/nothing', {}], ['/v1', { method: 'GET' }], ['/v1/status/more', {}], ['/v1/decide_approval', { method: 'DELETE' }],
    ['/v1/status', { headers: { authorization: `Basic ${token}` } }], ['/v1/status', { token: `${token.slice(0, -1)}_` }], ['/v1/status', { token: token.toUpperCase() }],
    [`/v1/status?access_token=${token}`, {}], ['/v1/status', { body: 'no json' }],
  ]
  const answers: Answer[] = []
  for (const [where, asked] of strangers) answers.push(await ask(base, where, asked))
  for (const answer of answers) {
    isClean(answer)
    expect([answer.status, answer.headers['www-authenticate'], answer.text]).toEqual([401, 'Bearer realm="agent-harness"', answers[0]!.text])
  }
  const [crowd, mine] = await Promise.all([
    Promise.all(Array.from({ length: 60 }, () => ask(base, '/v1/status', { token: 'ahk_guess' }))),
    ask(base, '/v1/status', { token, body: { turn_id: 't' } }),
  ])
  expect(new Set(crowd.map(({ status }) => status))).toEqual(new Set([401, 429]))
  expect(crowd.find(({ status }) => status === 429)?.headers['retry-after']).toBe('1')
  expect(mine).toMatchObject({ status: 200, body: null, text: 'null' })
})

it('[http.no-browser] neither a page nor a name that is not loopback gets anything, token or not', async () => {
  const { base, addToken } = await serving()
  const token = await addToken('n8n')
  for (const host of ['evil.example', 'localhost.evil.example:80', '127.0.0.1.evil.example', '10.0.0.1', '127.0.0.2']) {
    const answer = await ask(base, '/v1/list_functions', { token, headers: { host } })
    expect([answer.status, answer.headers['cache-control']]).toEqual([403, 'no-store'])
    expect((await ask(base, '/v1', { token, method: 'GET', headers: { host } })).status).toBe(403)
  }
  for (const origin of ['http://evil.example', 'null', base]) {
    const answer = await ask(base, '/v1/list_functions', { token, headers: { origin } })
    expect([answer.status, errorOf(answer), answer.headers['access-control-allow-origin']]).toEqual([403, 'forbidden', undefined])
    expect((await ask(base, '/v1/list_functions', { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST' } })).status).toBe(403)
  }
  const nameless = connect(Number(new URL(base).port), '127.0.0.1').end(`POST /v1/list_functions HTTP/1.0\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`)
  expect((await textOf(nameless)).split('\r\n')[0]).toBe('HTTP/1.1 403 Forbidden')
  expect((await ask(base.replace('127.0.0.1', 'localhost'), '/v1/list_functions', { token })).status).toBe(200)
})

it('[http.no-body] a request without a body is the empty input', async () => {
  const { base, addToken } = await serving()
  const answer = await fetch(`${base}/v1/list_functions`, { method: 'POST', headers: { authorization: `Bearer ${await addToken('n8n')}` } })
  expect(answer.status).toBe(200)
  expect(await answer.json()).toMatchObject({ functions: expect.any(Array) as unknown })
})

it('[http.bounded] what is too large, no JSON, or asked for in another way is refused each in its own way', async () => {
  const { base, addToken } = await serving()
  const token = await addToken('n8n')
  const large = JSON.stringify({ message: 'x'.repeat(2 * 1024 * 1024) })
  const cases: readonly (readonly [number, string, string, Asked])[] = [
    [413, 'too_large', '/v1/send', { body: large }],
    [413, 'too_large', '/v1/send', { body: large, headers: { 'transfer-encoding': 'chunked' } }],
    [413, 'too_large', '/v1/send', { body: JSON.stringify({ message: 'x'.repeat(1_500_000) }) }],
    [415, 'invalid_input', '/v1/send', { headers: { 'content-type': 'text/plain' } }],
    [415, 'invalid_input', '/v1/send', { headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: 'message=x' }],
    [415, 'invalid_input', '/v1/send', { headers: { 'content-type': 'application/json; charset=latin1' } }],
    [415, 'invalid_input', '/v1/send', { headers: { 'content-encoding': 'gzip' } }],
    [400, 'invalid_input', '/v1/send', { body: '{"message": ' }],
    [400, 'invalid_input', '/v1/send', { body: '' }],
    [400, 'invalid_input', '/v1/send', { body: '{"message": "a", "message": "b"}' }],
    [400, 'invalid_input', '/v1/send', { body: '{"message": "a", "__proto__": {}}' }],
    [400, 'invalid_input', '/v1/send', { body: Buffer.from([0x22, 0xff, 0x22]) }],
    [400, 'invalid_input', '/v1/send', { body: '['.repeat(10_000) + ']'.repeat(10_000) }],
    [400, 'invalid_input', '/v1/send', { body: { message: 1 } }],
    [404, 'not_found', '/v1/nothing', {}],
    [404, 'not_found', '/v1/constructor', {}],
    [404, 'not_found', '/v1/toString', {}],
    [404, 'not_found', '/v1/status/more', {}],
    [404, 'not_found', '/v1/get_approval', { body: { approval_id: 'a_none' } }],
    [405, 'invalid_input', '/v1/status', { method: 'GET' }],
    [405, 'invalid_input', '/v1/status', { method: 'PUT' }],
    [403, 'forbidden', '/v1/verify_audit', {}],
  ]
  for (const [status, code, where, asked] of cases) {
    const answer = await ask(base, where, { token, ...asked })
    expect([where, answer.status, errorOf(answer)]).toEqual([where, status, code])
    expect(Object.keys(answer.body?.['error'] as object)).toEqual(['code', 'message', 'retry', 'data'])
    isClean(answer)
  }
  expect((await ask(base, '/v1/list_functions', { token, headers: { 'content-type': 'Application/JSON; charset=UTF-8' } })).status).toBe(200)
  const { body } = await ask(base, '/v1', { token, method: 'GET' })
  expect((body?.['operations'] as { name: string }[]).map(({ name }) => name)).toEqual(Object.keys(operations))
})

it('[http.narrowed] a token with fewer scopes is refused the rest, in so many words', async () => {
  const { home, base, addToken } = await serving()
  const token = await addToken('reader', '--scopes', 'turns:read,identity:read', '--callback', 'https://n8n.example/a', 'http://box:5678')
  for (const [name, { scope }] of Object.entries(operations)) {
    const answer = await ask(base, `/v1/${name}`, { token })
    if (['turns:read', 'identity:read'].includes(scope)) expect(answer.status).not.toBe(403)
    else expect([answer.status, errorOf(answer), answer.text]).toEqual([403, 'forbidden', expect.stringContaining(scope)])
  }
  expect((await home.run(['tokens'])).stdout).toContain('called back at https://n8n.example/a/, http://box:5678/')
  const nothing = { stdout: '', code: 1 }
  expect(await home.run(['tokens', 'add', 'x', '--scopes', 'everything'])).toMatchObject({ ...nothing, stderr: expect.stringContaining('There is no scope "everything"') })
  expect(await home.run(['tokens', 'add', 'x', '--scopes', 'admin'])).toMatchObject({ ...nothing, stderr: expect.stringContaining('a token only narrows') })
  expect(await home.run(['tokens', 'add', 'x', '--principal', 'nobody'])).toMatchObject({ ...nothing, stderr: expect.stringContaining('no principal nobody') })
  const own = await addToken('own', '--principal', 'local')
  expect((await ask(base, '/v1/verify_audit', { token: own })).status).toBe(200)
})

it('[http.gone-client] two may wait for one turn; who gives up, or is killed, ends only his own waiting', async () => {
  const { base, shop, serve, addToken } = await serving()
  const token = await addToken('n8n')
  shop.hold('/look_up')
  const started = await ask(base, '/v1/trigger', { token, body: lookUp })
  const turn_id = started.body?.['turn_id']
  const wait = { token, body: { turn_id, wait_seconds: 40 } }
  await shop.seen('/look_up', 1)
  const script = `fetch(${JSON.stringify(`${base}/v1/status`)}, { method: 'POST', headers: { authorization: 'Bearer ${token}', 'content-type': 'application/json' }, body: ${JSON.stringify(JSON.stringify(wait.body))} }); setTimeout(() => process.stdout.write('asked'), 200)`
  const killed = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'ignore'] })
  await new Promise((resolve) => killed.stdout.once('data', resolve))
  killed.kill('SIGKILL')
  const abandoned = ask(base, '/v1/status', { ...wait, signal: AbortSignal.timeout(300) }).catch((error: unknown) => (error as Error).name)
  const both = [ask(base, '/v1/status', wait), ask(base, '/v1/status', wait)]
  expect(await abandoned).toBe('AbortError')
  expect((await ask(base, '/v1/status', { token, body: { turn_id } })).body).toMatchObject({ state: 'working' })
  shop.release()
  for (const answer of await Promise.all(both)) expect(answer.body).toMatchObject({ state: 'completed', turn_id })
  expect(shop.count('/look_up')).toBe(1)
  expect(isAlive(serve.pid)).toBe(true)
  expect(serve.stderr()).toBe('')
})

it('[tokens.hash-only] a token stands nowhere but in the answer that made it', async () => {
  const { home, base, serve, addToken } = await serving()
  const token = await addToken('n8n')
  await ask(base, '/v1/trigger', { token, body: lookUp })
  await ask(base, '/v1/nothing', { token })
  await ask(base, '/v1/send', { token, body: 'no json' })
  serve.child.kill('SIGTERM')
  const { code, stdout, stderr } = await serve.ended
  expect(code).toBe(0)
  expect(stdout + stderr).not.toContain(token)
  const files = readdirSync(home.folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  expect(files.length).toBeGreaterThan(3)
  for (const file of files) expect(readFileSync(path.join(file.parentPath, file.name)).includes(token.slice(4))).toBe(false)
})

it('[http.decisions-by-scope] nobody decides over HTTP with a token alone', async () => {
  const { base, shop, addToken } = await serving()
  const [token, reader] = [await addToken('n8n'), await addToken('reader', '--scopes', 'turns:write,turns:read')]
  const held = await ask(base, '/v1/trigger', { token, body: { call: { function_id: 'shop::refund', arguments: {} }, wait_seconds: 20 } })
  expect(held.body).toMatchObject({ state: 'held' })
  const [{ approval_id }] = held.body?.['approvals'] as [{ approval_id: string }]
  const decision = { approval_id, decision: 'approve', approver: 'alice', decided_at: Date.now(), reason: null, channel: 'command_line', signature: 'AAAA' }
  const answer = { approval_id, link_key: 'f'.repeat(64), decision: 'approve', responder: 'Alice', reason: null }
  for (const [name, body] of [['decide_approval', decision], ['open_approval', answer], ['answer_approval', answer]] as const) {
    expect((await ask(base, `/v1/${name}`, { token: reader, body })).status).toBe(403)
    expect((await ask(base, `/v1/${name}`, { token, body })).status).not.toBe(200)
  }
  expect((await ask(base, '/v1/status', { token, body: { turn_id: held.body?.['turn_id'] } })).body).toMatchObject({ state: 'held' })
  expect(shop.count('/refund')).toBe(0)
})
