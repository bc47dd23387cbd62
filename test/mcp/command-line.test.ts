/* The command line as a person and a script meet it: exact questions, signed answers, codes that can be relied on, and an orderly end. */
import { chmodSync, copyFileSync, existsSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { startCountingServer } from '../support/counting-server'
import { endAll, environment, isAlive, passphrase, start, testHome, type Finished, type TestHome } from '../support/mcp-process'
import { startStrictOllama } from '../support/strict-ollama'

const open: { stop(): Promise<void> }[] = []

jest.setTimeout(90_000)

afterEach(async () => {
  await endAll()
  for (const server of open.splice(0)) await server.stop()
})

/** A home with an approver and one call that is held, its arguments as given. */
async function heldCall(args: object = { order: 'A-1001', amount: 20 }): Promise<{ home: TestHome; id: string; turn: string; sent: () => number }> {
  const shop = await startCountingServer()
  open.push(shop)
  const home = testHome()
  home.configure(`
functions:
  shop::refund: { description: Refunds an order., risk: high, schema: { type: object }, http: { url: '${shop.url}/refund' } }
  shop::look_up: { description: Looks an order up., risk: low, side_effects: read, schema: { type: object }, http: { url: '${shop.url}/look_up' } }
`)
  await home.init()
  const { code, stderr, stdout } = await home.run(['run', 'shop::refund', JSON.stringify(args)])
  expect([code, stdout]).toEqual([3, ''])
  const id = /a_[0-9a-f]{32}/.exec(stderr)?.[0] ?? ''
  expect(stderr).toContain(`approvals approve ${id}`)
  return { home, id, turn: /t_[0-9a-f]{32}/.exec(stderr)?.[0] ?? '', sent: () => shop.count('/refund') }
}

it('[approvals.exact-arguments] shows the arguments raw and escaped, why it is held, who may decide and what is signed', async () => {
  const { home, id, turn, sent } = await heldCall({ order: 'A-1001', to: 'p\u0430y\u202eoff', note: '\u001b[2J' })
  const listed = await home.run(['approvals'])
  expect(listed.stdout).toMatch(new RegExp(`^${id}  shop::refund  asked by local .* left\\n$`))
  const shown = await home.run(['approvals', 'show', id.slice(0, 8)])
  expect(shown.code).toBe(0)
  expect(shown.stdout).toContain('"to": "p\u0430y\\u{202e}off"')
  expect(shown.stdout).toContain('{"order":"A-1001","to":"p\\u{430}y\\u{202e}off","note":"\\u001b[2J"}')
  expect(shown.stdout).not.toMatch(/[\u202e\u001b]/)
  expect(shown.stdout).toMatch(/Held because +.*High risk always waits.*May decide +approver.*Digest +[0-9a-f]{64}/s)

  expect(await home.run(['approvals', 'show', 'a_000'])).toMatchObject({ code: 1, stderr: expect.stringContaining('no approval a_000') })
  expect(await home.run(['approvals', 'reject', id], { stdin: `${passphrase}\n` })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/--reason/),
  })
  expect(await home.run(['approvals', 'approve', id], { stdin: '' })).toMatchObject({ code: 1, stderr: expect.stringMatching(/No passphrase came/) })
  const decided = await home.decide('approve', id.slice(0, 12))
  expect(decided).toMatchObject({ code: 0, stdout: `${id} is approved by alice.\n` })
  expect(decided.stderr).toContain('"to": "p\u0430y\\u{202e}off"')
  expect(decided.stderr).toContain('Nobody runs turns at the moment')
  expect(sent()).toBe(0)

  // nobody serves: looking with a wait runs it on
  expect(await home.run(['status', turn, '--wait', '30'])).toMatchObject({ code: 0, stdout: expect.stringContaining('"ok": true') })
  expect(sent()).toBe(1)
  expect(await home.decide('reject', id)).toMatchObject({ code: 1, stderr: expect.stringContaining('approved; it cannot be decided any more') })
})

it('[approvals.lockout] [bad.wrong-passphrase] five wrong passphrases lock the approver, on record, even for the right one', async () => {
  const { home, id, sent } = await heldCall()
  const told: string[] = []
  for (let tries = 0; tries < 5; tries += 1) {
    const { code, stderr } = await home.decide('approve', id, 'a wrong passphrase')
    expect(code).toBe(1)
    told.push(stderr)
  }
  expect(told.map((text) => /(\d) (try is|tries are) left/.exec(text)?.[1])).toEqual(['4', '3', '2', '1', undefined])
  expect(told[4]).toMatch(/locked until 20\d\d-.*in 1[45] min/s)
  expect(await home.decide('approve', id)).toMatchObject({ code: 1, stderr: expect.stringMatching(/alice is locked until/) })
  expect((await home.run(['approvals'])).stdout).toContain(id)
  expect(sent()).toBe(0)
  const database = new Database(path.join(home.folder, 'harness.db'), { readonly: true })
  const recorded = database.prepare("SELECT changes FROM audit_events WHERE changes LIKE '%approver.failed%'").all()
  database.close()
  expect(recorded).toHaveLength(5)
})

it('[attacker.edited-argument] arguments that were altered in the database are told as such, and nobody is asked to sign them', async () => {
  const { home, id, sent } = await heldCall({ order: 'A-1001', amount: 9999 })
  const database = new Database(path.join(home.folder, 'harness.db'))
  expect(
    database.prepare('UPDATE contents SET text = \'{"order":"A-1001","amount":1}\' WHERE text LIKE \'{"order":"A-1001"%\'').run().changes,
  ).toBeGreaterThan(0)
  database.close()
  expect(await home.run(['approvals', 'show', id])).toMatchObject({ code: 1, stderr: expect.stringMatching(/altered/) })
  const decided = await home.decide('approve', id)
  expect(decided).toMatchObject({ code: 1, stderr: expect.stringMatching(/altered/) })
  expect(decided.stderr).not.toContain('unlock')
  expect(sent()).toBe(0)
})

it('[words.ended] run ends with a code for each outcome, and prints the result alone on stdout', async () => {
  const { home } = await heldCall()
  const done = await home.run(['run', 'shop::look_up', '{"order":"A-1001"}'])
  expect([done.code, JSON.parse(done.stdout)]).toEqual([0, { ok: true }])
  expect(await home.run(['run', 'shop::nothing', '{}'])).toMatchObject({ code: 5, stderr: expect.stringContaining('cancelled (denied)') })
  expect(await home.run(['run', 'shop::look_up', '{"order":'])).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('not valid JSON'),
  })
  expect(await home.run(['run', 'shop::look_up', '{"a":1,"a":2}'])).toMatchObject({ code: 1, stderr: expect.stringContaining('twice') })
  expect(await home.run(['run'])).toMatchObject({ code: 2 })
  expect(await home.run(['send', 'hello'])).toMatchObject({
    code: 5,
    stdout: '',
    stderr: expect.stringMatching(/model_unavailable.*127\.0\.0\.1:1/s),
  })
  expect(await home.run(['status'])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /Turns +1 awaiting_functions, 1 completed, 1 failed, 1 cancelled\nHolds +1 waits for a person; the oldest since .*shop::refund/,
    ),
  })
  expect((await home.run(['functions'])).stdout).toMatch(/^shop::refund .*waits for a person/)
  for (const { stderr, stdout } of [await home.run(['stop', 't_unknown']), await home.run(['status', 't_unknown'])])
    expect(`${stdout}${stderr}`).toMatch(/There is no turn .*t_unknown/)
})

it('[stop.any-moment] stop ends a held turn, and its approval can no longer be given', async () => {
  const { home, id, turn, sent } = await heldCall()
  expect(await home.run(['stop', turn])).toMatchObject({ code: 0, stdout: `${turn} is being stopped.\n` })
  expect(await home.run(['status', turn, '--wait', '20'])).toMatchObject({ code: 5, stderr: expect.stringMatching(/cancelled \(stopped\)/) })
  expect((await home.decide('approve', id)).code).toBe(1)
  expect(sent()).toBe(0)
})

it('[home.precedence] the home is --home, else $AGENT_HARNESS_HOME, else ~/.agent-harness; --database names the folder of its file', async () => {
  const [given, named, own] = [testHome().folder, testHome().folder, testHome().folder]
  const env = { HOME: own, AGENT_HARNESS_HOME: named }
  const home = async (words: readonly string[], more: Record<string, string>): Promise<string | undefined> => {
    const { stdout } = await start(['status', ...words], { stdin: '', env: more }).ended
    return /Home +(.*)/.exec(stdout)?.[1]
  }
  expect(await home(['--home', given], env)).toBe(given)
  expect(await home([], env)).toBe(named)
  expect(await home([], { HOME: own })).toBe(path.join('~', '.agent-harness'))
  expect(existsSync(path.join(own, '.agent-harness', 'harness.db'))).toBe(true)
  expect(await home(['--database', path.join(named, 'other.db'), '--home', given], env)).toBe(named)
  expect(existsSync(path.join(named, 'other.db'))).toBe(true)
})

it('[home.private] init makes a key only its owner can read, once, and a configuration that explains itself', async () => {
  const home = testHome()
  const short = await home.run(['init', '--approver', 'alice'], { stdin: 'short\n' })
  expect(short).toMatchObject({ code: 1, stderr: expect.stringMatching(/at least 12 characters/) })
  await home.init()
  const key = path.join(home.folder, 'approvers', 'alice.key')
  expect(statSync(key).mode & 0o777).toBe(0o600)
  expect(statSync(home.folder).mode & 0o777).toBe(0o700)
  const before = readFileSync(key, 'utf8')
  expect(await home.run(['init', '--approver', 'alice'], { stdin: `${passphrase}\n` })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/already has a key|already has an approver/),
  })
  expect(readFileSync(key, 'utf8')).toBe(before)
  expect((await home.run(['init', '--approver', 'bob'], { stdin: `${passphrase}\n` })).code).toBe(0)
  const text = readFileSync(path.join(home.folder, 'harness.yaml'), 'utf8')
  expect(text).toMatch(/#.*\n/)
  expect(text).toMatch(/name: alice[\s\S]*name: bob/)
  expect(await home.decide('approve', 'a_unknown')).toMatchObject({ code: 1 })
})

describe('serve', () => {
  it.each([
    ['SIGTERM', 0],
    ['SIGINT', 130],
  ] as const)('[start.leaves-nothing] ends on %s in order with code %d, and leaves no process', async (signal, code) => {
    const stub = await startStrictOllama({ models: [{ name: 'qwen3:8b' }] })
    open.push(stub)
    const home = testHome()
    const serve = home.start(['serve', '--sample', '--port', '0'], { env: { OLLAMA_HOST: stub.url } })
    const [, address = ''] = await serve.says(/Health +(http:\S+)\n/)
    expect(serve.stdout()).toMatch(
      new RegExp(`Home +${home.folder}.*Model +qwen3:8b at ${stub.url}.*Decide +nobody can yet.*Next, in another terminal`, 's'),
    )
    expect(serve.stdout().split('\n').length).toBeLessThan(25)
    expect(await (await fetch(address)).json()).toMatchObject({ status: 'ok', worker: { state: 'working' }, turns: {} })
    expect((await home.run(['run', 'shop::refund', '{"order":"A-1001","amount":20,"reason":"damaged"}'])).code).toBe(3)
    await serve.says(/held: shop::refund, asked by local, .*approvals approve a_/)
    serve.child.kill(signal)
    expect((await serve.ended).code).toBe(code)
    expect(isAlive(serve.pid)).toBe(false)
    await expect(fetch(address)).rejects.toThrow()
  })

  it('[home.one-worker] a second one stands by and says so; a model server that is away is named with what to do', async () => {
    const home = testHome()
    const first = home.start(['serve', '--port', '0'])
    await first.says(/is up/)
    expect(first.stdout()).toMatch(
      /Model +none: Ollama is not answering at http:\/\/127\.0\.0\.1:1 .*Start it with "ollama serve".*host\.docker\.internal/s,
    )
    const second = home.start(['serve', '--port', '0'])
    await second.says(/Worker +standing by.*serve, pid/)
    expect(second.stdout()).toMatch(new RegExp(`pid ${String(first.pid)}`))
  })

  it('[bad.broken-configuration] [home.no-key-holds] says what is wrong in one message without a stack', async () => {
    const home = testHome()
    home.configure('functions: { nonsense }\n')
    const { code, stdout, stderr } = await home.run(['serve'])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/harness\.yaml line 1/)
    expect(stderr).not.toMatch(/\n\s+at /)
  })
})

describe('audit verify', () => {
  const verify = (file: string, more: readonly string[] = []): Promise<Finished> =>
    start(['audit', 'verify', '--database', file, ...more], { stdin: '', env: environment() }).ended

  it('[verify.good] [verify.broken] [verify.could-not-tell] [verify.key-and-checkpoints] ends with 0, 1 or 2, and makes nothing', async () => {
    const home = testHome()
    const file = path.join(home.folder, 'harness.db')
    expect(await verify(file)).toMatchObject({ code: 2, stdout: expect.stringMatching(/^could not tell/) })
    expect(existsSync(file)).toBe(false)
    await home.run(['run', 'shop::nothing', '{}'])
    chmodSync(file, 0o400)
    expect(await verify(file)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^good: .*\n\d+ rows in \d+ chains/) })
    expect(await verify(file, ['--key', path.join(home.folder, 'nothing.pub')])).toMatchObject({ code: 2 })
    expect(await verify(file, ['--checkpoints', path.join(home.folder, 'nothing.jsonl')])).toMatchObject({ code: 2 })
    chmodSync(file, 0o600)

    // a copy without its home lacks the witnesses, unless they are named
    const copy = path.join(testHome().folder, 'copy.db')
    copyFileSync(file, copy)
    expect(await verify(copy)).toMatchObject({ code: 2, stdout: expect.stringMatching(/^could not tell/) })
    const witnesses = ['--key', path.join(home.folder, 'checkpoint.pub'), '--checkpoints', path.join(home.folder, 'checkpoints.jsonl')]
    expect(await verify(copy, witnesses)).toMatchObject({ code: 0 })

    const database = new Database(file)
    database.exec("DROP TRIGGER audit_is_append_only; UPDATE audit_events SET actor = 'somebody' WHERE seq = 1")
    database.close()
    expect(await verify(file)).toMatchObject({ code: 1, stdout: expect.stringMatching(/^broken: [\s\S]*problem  row_changed/) })
  })
})
