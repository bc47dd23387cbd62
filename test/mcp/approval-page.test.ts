/* The approval page as a browser meets it: real HTTP to a real `serve`, from the link that it prints to the call that runs, or does not. */
import { existsSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import path from 'node:path'
import { openHome } from '../../core/home'
import { startCountingServer, type CountingServer } from '../support/counting-server'
import { endAll, passphrase, testHome, until, type Running, type TestHome } from '../support/mcp-process'

jest.setTimeout(90_000)

const open: { stop(): Promise<void> }[] = []
afterEach(async () => {
  await endAll()
  for (const server of open.splice(0)) await server.stop()
})

interface Answer {
  readonly status: number
  readonly body: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** With headers that fetch does not let one set. */
function ask(url: string, { method = 'GET', headers = {}, body }: { method?: string; headers?: Record<string, string>; body?: string } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => { text += part })
      response.on('end', () => { resolve({ status: response.statusCode ?? 0, body: text, headers: response.headers }) })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

const form = 'application/x-www-form-urlencoded'
const unescaped = (text: string): string => text.replaceAll('&quot;', '"').replaceAll('&amp;', '&')

/** What a browser posts: the hidden fields of the page, and what the person filled in. */
function post(page: { url: string; body: string }, filled: Record<string, string>, headers: Record<string, string> = {}): Promise<Answer> {
  const hidden = [...page.body.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(([, name = '', value = '']) => [name, unescaped(value)] as const)
  const action = unescaped(/<form method="post" action="([^"]*)"/.exec(page.body)?.[1] ?? '')
  const body = new URLSearchParams({ ...Object.fromEntries(hidden), ...filled }).toString()
  return ask(new URL(action, page.url).href, { method: 'POST', headers: { 'content-type': form, ...headers }, body })
}

interface Scene {
  readonly home: TestHome
  readonly shop: CountingServer
  readonly serve: Running
  readonly turn: string
  readonly id: string
  /** As serve printed it. */
  readonly link: string
}

/** A refund that is held, while serve runs. */
async function scene(extra: (pageKey: string) => string = () => ''): Promise<Scene> {
  const shop = await startCountingServer()
  open.push(shop)
  const home = testHome()
  const { pagePublicKey } = await openHome(home.folder)
  home.configure(`
functions:
  shop::refund: { description: Refunds an order., risk: high, schema: { type: object }, http: { url: '${shop.url}/refund' } }
${extra(pagePublicKey)}`)
  await home.init()
  const serve = home.start(['serve', '--port', '0'])
  await serve.says(/is up/)
  const client = await home.client()
  const held = await client.call('run_function', { function_id: 'shop::refund', arguments: { order: 'A-1', note: '</script>\u202e' } })
  const [link = ''] = await serve.says(/http:\/\/127\.0\.0\.1:\d+\/approvals\/a_[0-9a-f]{32}\?key=[0-9a-f]{64}/)
  const key = link.slice(-64)
  for (const [tool, args] of [['get_turn', { turn_id: held.turn_id }], ['list_approvals', {}], ['get_approval', { approval_id: held.approvals[0]!.approval_id }]] as const) {
    expect(JSON.stringify(await client.call(tool, args))).not.toContain(key)
  }
  return { home, shop, serve, turn: held.turn_id, id: held.approvals[0]!.approval_id, link }
}

const pageOf = async (link: string): Promise<Answer & { url: string }> => ({ ...(await ask(link)), url: link })
const runs = (shop: CountingServer): Promise<unknown> => until('the refund', () => shop.count('/refund') > 0)

it('[page.exact] [page.not-for-models] the link that serve prints shows the call; an approver answers there with a passphrase, and it runs once', async () => {
  const { home, shop, id, link, turn } = await scene()
  const page = await pageOf(link)
  expect(page.status).toBe(200)
  expect(page.headers).toMatchObject({
    'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-content-type-options': 'nosniff', 'content-type': 'text/html; charset=utf-8',
    'content-security-policy': expect.stringMatching(/default-src 'none'.*form-action 'self'; frame-ancestors 'none'/) as string,
  })
  expect(page.headers['set-cookie']).toBeUndefined()
  expect(page.body).toContain('&lt;/script&gt;\\u{202e}')
  expect(page.body).toContain('<option>alice</option>')
  expect((await home.run(['approvals', 'show', id])).stderr).toContain(link)
  expect((await home.run(['approvals', 'list'])).stdout).toContain(link)

  const wrong = await post(page, { responder: 'alice', passphrase: 'not this one at all', decision: 'approve', reason: 'as agreed' })
  expect(wrong.status).toBe(403)
  expect(wrong.body).toMatch(/4 tries are left/)
  expect(wrong.body).toContain('as agreed</textarea>')
  expect(wrong.body).not.toContain('not this one')
  expect(shop.count('/refund')).toBe(0)

  // the page that came back is as good as the first
  const right = await post({ url: link, body: wrong.body }, { responder: 'alice', passphrase, decision: 'approve', reason: '' }, { origin: 'null' })
  expect(right.status).toBe(200)
  expect(right.body).toMatch(/Approved[\s\S]*alice/)
  await runs(shop)
  const again = await post(page, { responder: 'alice', passphrase, decision: 'reject', reason: 'no' })
  expect([again.status, again.body.includes('<form')]).toEqual([409, false])
  expect((await pageOf(link)).body).not.toContain('<form')
  await home.run(['status', turn, '--wait', '20'])
  expect(shop.count('/refund')).toBe(1)
  expect(await home.run(['audit', 'verify'])).toMatchObject({ code: 0 })
})

it('[page.post-decides-once] by name, where the home has the channel, of eight posts at once one counts; nothing is decided by looking', async () => {
  const { home, shop, link, turn } = await scene((key) => `channels: { page: { public_key: '${key}' } }`)
  const page = await pageOf(link)
  expect(page.body).toContain('Your name')
  for (const url of [link, `${link}&decision=approve&responder=Ann`]) for (const method of ['GET', 'HEAD']) await ask(url, { method })
  expect((await ask(link, { method: 'PUT' })).status).toBe(404)
  expect((await post(page, { responder: 'Ann', decision: 'reject', reason: ' ' })).status).toBe(400)
  expect(shop.count('/refund')).toBe(0)
  const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => post(page, { responder: `Ann ${String(index)}`, decision: 'approve', reason: '' })))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(409)])
  await runs(shop)
  expect((await home.run(['status', turn, '--wait', '20'])).code).toBe(0)
  expect(shop.count('/refund')).toBe(1)
  expect((await pageOf(link)).body).toMatch(/Ann \d \(by the page, name not verified\)/)
})

it('[page.loopback] [page.link-key] strangers, other sites and what is no form get nothing and decide nothing', async () => {
  const { shop, id, link } = await scene((key) => `channels: { page: { public_key: '${key}' } }`)
  const base = link.slice(0, link.indexOf('/approvals'))
  const page = await pageOf(link)
  const approve = { responder: 'Ann', decision: 'approve', reason: '' }
  for (const host of ['evil.example', 'evil.example:4477', '127.0.0.1.evil.example']) {
    expect((await ask(link, { headers: { host } })).status).toBeGreaterThanOrEqual(400)
    expect((await post(page, approve, { host })).status).toBeGreaterThanOrEqual(400)
  }
  for (const origin of ['https://evil.example', 'http://127.0.0.1:1', base.replace('http', 'https')]) expect((await post(page, approve, { origin })).status).toBe(403)
  const [wrong, none, unknown] = await Promise.all([
    ask(`${base}/approvals/${id}?key=${'0'.repeat(64)}`), ask(`${base}/approvals/${id}`), ask(`${base}/approvals/a_${'0'.repeat(32)}?key=${link.slice(-64)}`),
  ])
  expect([wrong.status, none.status, unknown.status]).toEqual([404, 404, 404])
  expect(wrong.body).toBe(unknown.body.replaceAll(`a_${'0'.repeat(32)}`, id))
  expect(wrong.body).not.toContain('shop::')
  expect((await post(page, { ...approve, key: '0'.repeat(64) })).status).toBe(404)
  const action = `${base}/approvals/${id}`
  const body = new URLSearchParams({ ...approve, approval: id, key: link.slice(-64) }).toString()
  expect((await ask(action, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ ...approve, key: link.slice(-64) }) })).status).toBe(400)
  expect((await ask(action, { method: 'POST', headers: { 'content-type': form }, body: `${body}&decision=reject` })).status).toBe(400)
  expect((await ask(action, { method: 'POST', headers: { 'content-type': form }, body: `${body}&more=${'x'.repeat(17_000)}` })).status).toBe(413)
  expect((await ask(action, { method: 'POST', headers: { 'content-type': form }, body: body.replace('approve', 'maybe') })).status).toBe(400)
  expect((await pageOf(link)).body).toContain('value="approve"')
  expect(shop.count('/refund')).toBe(0)
  // its own origin is taken
  expect((await post(page, approve, { origin: base })).status).toBe(200)
  await runs(shop)
})

it('the address of serve is in the home while it runs, and not after', async () => {
  const home = testHome()
  const serve = home.start(['serve', '--port', '0'])
  await serve.says(/is up/)
  const file = path.join(home.folder, 'serve.address')
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ base: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string, pid: expect.any(Number) as number })
  serve.child.kill('SIGTERM')
  await serve.ended
  expect(existsSync(file)).toBe(false)
})
