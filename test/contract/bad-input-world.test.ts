/*
 * A world that is not as it should be: a database that is read-only, newer, locked, shared or none; a configuration that is broken; a
 * model server that is down or lies; a passphrase that is wrong. Each is told in a sentence with what to do, nothing is lost, and what comes
 * later works.
 */
import Database from 'better-sqlite3'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { SignedDecision } from '../../core/approvals/approval'
import { signDecision } from '../../core/approvals/decide'
import { makeApproverKey } from '../../core/approvals/key-file'
import { isHarnessError, type HarnessError } from '../../core/errors'
import { silentLog, type Log } from '../../core/log'
import { ollamaModel } from '../../core/model/ollama'
import { openHarness, type OpenOptions } from '../../core/open-harness'
import { sql, type Connection } from '../../core/store/sql'
import { openSqlite } from '../../core/store/sqlite'
import { attack, look, settled, storedRows } from '../support/attacker'
import { startCountingServer, type CountingServer } from '../support/counting-server'
import { closePlaces, openPlace, shopConfig, type Place, type PlaceOptions } from '../support/place'
import { startStrictOllama, type StrictOllama, type StubOptions } from '../support/strict-ollama'

const stubs: (StrictOllama | CountingServer)[] = []
afterEach(async () => {
  await closePlaces()
  for (const stub of stubs.splice(0)) await stub.stop()
})

const refund = { order: 'A-1', amount: 20 }

/** The error of ours; `mayName` for what only who runs the program sees, and needs to know where. */
async function refusal(work: () => Promise<unknown>, mayName = ''): Promise<HarnessError> {
  const error: unknown = await work().then(() => new Error('It was taken.'), (thrown: unknown) => thrown)
  if (!isHarnessError(error)) throw error
  const message = mayName === '' ? error.message : error.message.replaceAll(mayName, 'HOME')
  expect(message).not.toMatch(/\/tmp|node_modules|\.ts\b|\bat \w+ \(|better-sqlite3|SQLITE|SqliteError|undefined/)
  return error
}

/** Opens the folder of a place that is closed. */
async function open(place: Place, more: Partial<OpenOptions> = {}): Promise<Place> {
  return openPlace({ folder: place.folder, key: place.key, functions: place.functions, ...more })
}

/** A turn that is held, in a place that is closed. */
async function heldAndClosed(options: PlaceOptions = {}): Promise<{ place: Place; turn: string; approval: string }> {
  const place = await openPlace(options)
  const held = await place.run('shop::refund', refund)
  await place.close()
  return { place, turn: held.turn_id, approval: held.approvals[0]!.approval_id }
}

/** Shows that the turn was not lost: it is held still, and runs once when it is approved. */
async function goesOn({ place, turn, approval }: { place: Place; turn: string; approval: string }): Promise<void> {
  const again = await open(place)
  expect(await again.turn(turn, 20)).toMatchObject({ state: 'held' })
  await again.decide(approval, 'approve')
  expect(await again.turn(turn)).toMatchObject({ state: 'completed' })
  expect(again.functions.count('shop::refund')).toBe(1)
}

// ------------------------------------------------------------------------------------------------ the database

/** As a user who may not write: root may write everything. */
async function asNobody<T>(work: () => Promise<T>): Promise<T> {
  if (process.getuid?.() !== 0) return work()
  process.seteuid?.(65_534)
  try {
    return await work()
  } finally {
    process.seteuid?.(0)
  }
}

it('[bad.read-only-database] a database file that may not be written is told at the start, and is as it was', async () => {
  const held = await heldAndClosed()
  const { home, folder, model } = held.place
  const before = storedRows(held.place)
  const text = readFileSync(home.databasePath)
  chmodSync(home.databasePath, 0o444)
  chmodSync(folder, 0o555)
  chmodSync(home.configPath, 0o644)
  const error = await refusal(() => asNobody(() => openHarness({ home, env: {}, log: silentLog, program: 'serve', worker: true, model })))
  expect(error.code).toBe('store_unavailable')
  expect(error.message).toMatch(/read-only; nothing was changed. Give this user the right|cannot be opened. Check that its folder .* may be written/)
  chmodSync(folder, 0o700)
  expect(readFileSync(home.databasePath).equals(text)).toBe(true)
  chmodSync(home.databasePath, 0o600)
  expect(storedRows(held.place)).toEqual(before)
  await goesOn(held)
})

it('[bad.read-only-database] a database that becomes read-only refuses what would be stored, can be closed, and goes on when it is not', async () => {
  let connection: Connection | undefined
  const place = await openPlace({ wrapConnection: (plain) => (connection = plain) })
  const held = await place.run('shop::refund', refund)
  await settled(place)
  const before = storedRows(place)
  await connection!.atomically([sql('PRAGMA query_only = ON')])
  const says = 'The database is read-only; nothing was changed. Give this user the right to write the file and its folder.'
  for (const work of [
    () => place.run('shop::note', { text: 'x' }),
    () => place.harness.send({ message: 'Hello.' }, place.caller),
    () => place.harness.stop({ session_id: held.session_id }, place.caller),
    () => place.decide(held.approvals[0]!.approval_id, 'approve'),
  ]) expect(await refusal(work)).toMatchObject({ code: 'store_unavailable', message: says, retry: true })
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'held' })
  expect(storedRows(place)).toEqual(before)
  await place.close()
  attack(place, (db) => db.run('DELETE FROM workers'))
  await goesOn({ place, turn: held.turn_id, approval: held.approvals[0]!.approval_id })
})

it.each([
  ['a folder', (path: string) => { mkdirSync(path) }, /cannot be opened|is not a file/],
  ['a text', (path: string) => { writeFileSync(path, 'No database. '.repeat(200), { mode: 0o600 }) }, /not a database of this program.* Restore it/],
])('what stands in the place of the database and is none is told, and left alone: %s', async (_title, put, says) => {
  const held = await heldAndClosed()
  const { home } = held.place
  for (const suffix of ['-wal', '-shm']) rmSync(`${home.databasePath}${suffix}`, { force: true })
  renameSync(home.databasePath, `${home.databasePath}.kept`)
  put(home.databasePath)
  const { size } = statSync(home.databasePath)
  const error = await refusal(() => open(held.place), held.place.folder)
  expect(error.message).toMatch(says)
  expect(statSync(home.databasePath).size).toBe(size)
  rmSync(home.databasePath, { recursive: true })
  renameSync(`${home.databasePath}.kept`, home.databasePath)
  await goesOn(held)
})

it('[bad.newer-schema] a database of a newer version is refused by name, and left alone', async () => {
  const held = await heldAndClosed()
  attack(held.place, (db) => { db.insert('migrations', { number: 9_000, applied_at: 1 }) })
  const before = storedRows(held.place)
  const error = await refusal(() => open(held.place))
  expect(error.code).toBe('schema_too_new')
  expect(error.message).toMatch(/^The database has schema 9000, this version .* knows up to \d+. Install the newer version again/)
  expect(storedRows(held.place)).toEqual(before)
  attack(held.place, (db) => { db.run('DELETE FROM migrations WHERE number = 9000') })
  await goesOn(held)
})

it('a sent.log that cannot be opened is told at the start, and leaves nothing open', async () => {
  const held = await heldAndClosed()
  const { home } = held.place
  renameSync(home.sentLogPath, `${home.sentLogPath}.kept`)
  mkdirSync(home.sentLogPath)
  const error = await refusal(() => open(held.place))
  expect([error.code, error.message]).toEqual(['store_unavailable', expect.stringMatching(/^sent.log cannot be opened, so no write could be sent/)])
  rmSync(home.sentLogPath, { recursive: true })
  renameSync(`${home.sentLogPath}.kept`, home.sentLogPath)
  await goesOn(held)
})

/** Longest time, ms, in which the process did nothing else, while `work` ran. */
async function longestPause<T>(work: () => Promise<T>): Promise<{ pause: number; result: T }> {
  let last = performance.now()
  let pause = 0
  const beat = (): void => {
    pause = Math.max(pause, performance.now() - last)
    last = performance.now()
  }
  const timer = setInterval(beat, 5)
  try {
    const result = await work()
    beat()
    return { pause, result }
  } finally {
    clearInterval(timer)
  }
}

function lock(place: Place): () => void {
  const other = new Database(place.home.databasePath)
  other.exec('BEGIN EXCLUSIVE')
  return () => {
    if (other.open) other.exec('ROLLBACK')
    other.close()
  }
}

it('[bad.locked-database] a locked database is waited for without holding the process up', async () => {
  const place = await openPlace()
  const held = await place.run('shop::refund', refund)
  const unlock = lock(place)
  setTimeout(unlock, 2_000)
  const started = performance.now()
  const { pause, result } = await longestPause(() => Promise.all([
    place.harness.send({ message: 'Hello.' }, place.caller),
    place.decide(held.approvals[0]!.approval_id, 'approve'),
  ]))
  expect(performance.now() - started).toBeGreaterThan(1_900)
  // inside SQLite it waits 50 ms at a time; what is above that is a busy machine
  expect(pause).toBeLessThan(1_000)
  expect(await place.turn(result[0].turn_id)).toMatchObject({ state: 'completed' })
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed' })
  expect(place.functions.count('shop::refund')).toBe(1)
})

it('[bad.locked-database] one that stays locked is told after a while; nothing was changed, and it goes on when it is free', async () => {
  const patient = await openPlace()
  await patient.close()
  const place = await open(patient, {
    wrapConnection: (plain) => {
      void plain.close()
      return openSqlite({ file: patient.home.databasePath, patienceMs: 400 })
    },
  })
  const held = await place.run('shop::refund', refund)
  await settled(place)
  const before = storedRows(place)
  const unlock = lock(place)
  for (const work of [() => place.harness.send({ message: 'Hello.' }, place.caller), () => place.decide(held.approvals[0]!.approval_id, 'approve')]) {
    const says = 'The database is locked by another program; nothing was changed. Close what holds it and try again.'
    expect(await refusal(work)).toMatchObject({ code: 'store_unavailable', retry: true, message: says })
  }
  unlock()
  expect(storedRows(place)).toEqual(before)
  await place.decide(held.approvals[0]!.approval_id, 'approve')
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed' })
})

it('[bad.locked-database] a place that is opened while its database is locked takes its turns up when it is free', async () => {
  const held = await heldAndClosed()
  const unlock = lock(held.place)
  const again = await open(held.place)
  expect(again.harness.workerState().state).toBe('standing_by')
  setTimeout(unlock, 400)
  await again.decide(held.approval, 'approve')
  expect(await again.turn(held.turn)).toMatchObject({ state: 'completed' })
})

it('[bad.second-process] [home.one-worker] a second one on the database stands by, says so, writes rows, and takes over later', async () => {
  const first = await openPlace({ script: [{ text: 'Of the first.' }] })
  const held = await first.run('shop::refund', refund)
  const second = await openPlace({ folder: first.folder, key: first.key, script: [{ text: 'Of the second.' }] })
  expect(second.harness.workerState().state).toBe('standing_by')
  await wait(50)
  const says = /^Another process \(serve, pid \d+\) holds the database and runs the turns; this one writes and reads rows only\.$/
  expect(second.harness.workerState().text).toMatch(says)
  expect(await second.say('Hello.')).toMatchObject({ state: 'completed', result: 'Of the first.', worker: expect.stringMatching(/Another process/) })
  expect(second.model.requests).toEqual([])

  await second.decide(held.approvals[0]!.approval_id, 'approve')
  expect(await second.turn(held.turn_id)).toMatchObject({ state: 'completed' })
  expect([first.functions.count('shop::refund'), second.functions.count('shop::refund')]).toEqual([1, 0])

  await first.close()
  expect(await second.say('And now?')).toMatchObject({ state: 'completed', result: 'Of the second.' })
  expect(second.harness.workerState().state).toBe('working')
})

// ------------------------------------------------------------------------------------------------ the model server

async function stub(options: Partial<StubOptions> = {}): Promise<StrictOllama> {
  const started = await startStrictOllama({ models: [{ name: 'qwen3:8b' }], ...options })
  stubs.push(started)
  return started
}

const modelAt = (url: string): ReturnType<typeof ollamaModel> => ollamaModel({ url, num_ctx: 8_192, first_byte_ms: 5_000, idle_ms: 5_000 })

/** A turn that ends for this reason, with these words; then one that is answered by another server on the same address, or the same server. */
async function endsThenWorks(ill: StrictOllama | CountingServer | null, reason: string, says: RegExp): Promise<void> {
  const port = ill?.port ?? await freePort()
  const place = await openPlace({ model: modelAt(`http://127.0.0.1:${String(port)}`) })
  const turn = await place.say('Look up A-1.')
  expect(turn).toMatchObject({ state: 'failed', reason, result_error: expect.stringMatching(says) })
  expect(turn.detail).not.toMatch(/\/tmp|node_modules|\bat \w+ \(|undefined|fetch failed/)
  expect(place.functions.sent).toEqual([])
  expect(turn.calls.filter((call) => call.result === undefined)).toEqual([])

  if (ill !== null) {
    stubs.splice(stubs.indexOf(ill), 1)
    await ill.stop()
  }
  const well = await stub({ port, script: [{ tool_calls: [{ name: 'shop__look_up', arguments: { order: 'A-1' } }] }, { text: 'It was shipped.' }] })
  const later = await place.say('Look up A-1.', { session_id: turn.session_id })
  expect(later).toMatchObject({ state: 'completed', result: 'It was shipped.', calls: [{ status: 'succeeded' }] })
  expect(place.functions.count('shop::look_up')).toBe(1)
  expect(well.violations).toEqual([])
  // the message of the turn that failed is part of the conversation still
  const said = (well.chats.at(-1)?.messages ?? []).filter((message) => message.role === 'user')
  expect(said.map((message) => message.content)).toEqual(['Look up A-1.', 'Look up A-1.'])
}

async function freePort(): Promise<number> {
  const server = await startCountingServer()
  await server.stop()
  return server.port
}

it('[bad.ollama-down] a turn whose model server does not answer ends with the address and what to do; a later one works', async () => {
  await endsThenWorks(null, 'model_unavailable', /127\.0\.0\.1:\d+/)
})

it('[bad.ollama-without-model] a turn whose model is not there ends with its name; a later one works', async () => {
  const ill = await stub({ models: [] })
  await endsThenWorks(ill, 'model_unavailable', /no local model that can call functions.*ollama pull/)
  const named = await stub({ models: [{ name: 'other:1b', capabilities: ['completion'] }] })
  const place = await openPlace({ model: modelAt(named.url) })
  const sent = await place.harness.send({ message: 'Hello.', model: 'gone:8b' }, place.caller)
  expect(await place.turn(sent.turn_id)).toMatchObject({ state: 'failed', reason: 'model_unavailable', detail: expect.stringMatching(/gone:8b/) })
})

it('[bad.ollama-cut] a turn whose answer is cut ends so, and nothing of the half answer runs; a later one works', async () => {
  const call = { name: 'shop__look_up', arguments: { order: 'A-1' } }
  const ill = await stub({ script: [{ text: 'I will look it up.', tool_calls: [call], calls_in_final: true, fault: { kind: 'cut', bytes: 200 } }] })
  await endsThenWorks(ill, 'model_unavailable', /./)
})

it('[bad.ollama-redirects] a turn whose model server redirects ends so, and nobody else is asked; a later one works', async () => {
  const elsewhere = await startCountingServer()
  stubs.push(elsewhere)
  const ill = await stub({ script: [{ fault: { kind: 'redirect', location: `${elsewhere.url}/api/chat` } }] })
  await endsThenWorks(ill, 'model_failed', /redirect/i)
  expect(elsewhere.requests).toEqual([])
})

it('[bad.tool-not-offered] a tool that was not offered is no call: the model is told, and goes on', async () => {
  const asked = [{ name: 'shop__secret_drop', arguments: {} }, { name: 'rm', arguments: { path: '/' } }]
  const server = await stub({ script: [{ tool_calls: asked }, { text: 'Then not.' }] })
  const place = await openPlace({ model: modelAt(server.url) })
  const turn = await place.say('Drop it.')
  expect(turn).toMatchObject({ state: 'completed', result: 'Then not.' })
  expect(turn.calls.map((call) => [call.status, call.reason, call.result])).toEqual(turn.calls.map(() => [
    'denied', 'not_available', { error: 'denied', code: 'not_available', message: 'No such function is available here.' },
  ]))
  expect(turn.calls).toHaveLength(2)
  expect(place.functions.sent).toEqual([])
  expect(server.violations).toEqual([])
})

it.each([
  ['transient', 'other', 'model_unavailable'],
  ['rate_limited', 'other', 'model_unavailable'],
  ['permanent', 'model_missing', 'model_unavailable'],
  ['permanent', 'other', 'model_failed'],
  ['auth_expired', 'other', 'model_failed'],
  ['context_overflow', 'other', 'context_overflow'],
] as const)('a model that fails (%s, %s) ends its turn with reason and words; the session goes on', async (error_kind, cause, reason) => {
  const failing = { fail: { error_kind, cause, message: 'It has no room.' } }
  const place = await openPlace({ script: ({ messages }) => (JSON.stringify(messages.at(-1)).includes('Again') ? { text: 'Yes.' } : failing) })
  const turn = await place.say('Hello.')
  expect(turn).toMatchObject({ state: 'failed', reason, detail: 'It has no room.' })
  expect(await place.say('Again.', { session_id: turn.session_id })).toMatchObject({ state: 'completed', result: 'Yes.' })
})

// ------------------------------------------------------------------------------------------------ passphrase and decisions

const otherKey = generateKeyPairSync('ed25519').privateKey
type Signed = SignedDecision & { readonly channel: 'command_line' }
const approvalBy = (key: KeyObject, digest: string): Signed =>
  signDecision(key, digest, { decision: 'approve', approver: 'alice', decided_at: Date.now(), reason: null, channel: 'command_line' })

it('[bad.wrong-passphrase] a wrong passphrase is told with the tries left and nothing of itself; the right one still decides', async () => {
  const { publicKey, file } = await makeApproverKey('correct horse battery')
  const place = await openPlace({ config: () => shopConfig(publicKey) })
  await place.home.writeApproverKey('alice', file)
  const held = await place.run('shop::refund', refund)
  const error = await refusal(() => place.harness.unlock('alice', 'a wrong passphrase, all of it'))
  expect(error.code).toBe('wrong_passphrase')
  expect(error.message).toBe('The passphrase does not open the key of approver alice. 4 tries are left before it is locked.')
  expect(JSON.stringify(error.data)).not.toContain('all of it')
  expect(JSON.stringify(storedRows(place))).not.toContain('all of it')
  const none = await refusal(() => place.harness.unlock('nobody', 'correct horse battery'))
  expect([none.code, none.message]).toEqual(['not_found', 'Approver nobody has no key here. agent-harness init makes one.'])

  const key = await place.harness.unlock('alice', 'correct horse battery')
  const { approval_id, approval_digest } = await place.harness.get_approval({ approval_id: held.approvals[0]!.approval_id }, place.caller)
  const signed = approvalBy(key, approval_digest)
  await place.harness.decide_approval({ approval_id, ...signed }, place.caller)
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed' })
})

it.each([
  ['signed with another key', (_: Signed, digest: string) => approvalBy(otherKey, digest), /The signature does not verify/],
  ['signed over something else', (decided: Signed) => ({ ...decided, reason: 'Because.' }), /The signature does not verify/],
  ['with a signature that is none', (decided: Signed) => ({ ...decided, signature: '\u0000 not base64' }), /The signature does not verify/],
  ['by somebody who may not', (decided: Signed) => ({ ...decided, approver: 'mallory' }), /mallory is not an approver in the configuration/],
  ['dated in the future', (decided: Signed) => ({ ...decided, decided_at: Date.now() + 600_000 }), /dated in the future/],
  ['dated before the question', (decided: Signed) => ({ ...decided, decided_at: 1 }), /older than the question/],
])('a decision %s does not count, is on record, and the question stays open', async (_title, change, says) => {
  const place = await openPlace()
  const held = await place.run('shop::refund', refund)
  const { approval_id, approval_digest } = await place.harness.get_approval({ approval_id: held.approvals[0]!.approval_id }, place.caller)
  const decided = approvalBy(place.key, approval_digest)
  const error = await refusal(() => place.harness.decide_approval({ approval_id, ...change(decided, approval_digest) }, place.caller))
  expect([error.code, error.message]).toEqual(['forbidden', expect.stringMatching(says)])
  expect(error.message).toContain(approval_id)
  const record = look(place, (reader) => reader.rows(`SELECT changes FROM audit_events WHERE chain = 'deployment'`))
  expect(JSON.stringify(record)).toContain('decision.refused')
  expect(place.functions.sent).toEqual([])
  await place.decide(approval_id, 'approve')
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed' })
  const late = await refusal(() => place.decide(approval_id, 'reject'))
  expect([late.code, late.message]).toEqual(['approval_closed', `Approval ${approval_id} is approved by alice; it cannot be decided any more.`])
})

// ------------------------------------------------------------------------------------------------ the configuration

const withPattern = (text: string, pattern: string): string =>
  text.replace('text: { type: string }', () => `text: { type: string, pattern: '${pattern}' }`)
const withSecret = (text: string): string => text.replace('/refund" }', '/refund", headers: { authorization: "${SHOP_TOKEN}" } }')
const withoutKey = (text: string): string => text.replace(/public_key: "[^"]{20}/, 'public_key: "AAAA')

const broken: readonly (readonly [title: string, change: (text: string) => string, says: RegExp])[] = [
  ['a line that is no YAML', (text) => text.replace('policy:', 'policy: {{{'), /^harness.yaml line \d+, column \d+: /],
  ['a name that stands twice', (text) => `${text}\npolicy: {}\n`, /line \d+, column 1: This name stands twice/],
  ['a setting that is none', (text) => text.replace('policy:', 'polici:'), /polici is not a setting. Known here: .*policy/],
  ['a value of the wrong type', (text) => text.replace('risk: high', 'risk: extreme'), /shop::refund.risk must be one of low, medium, high/],
  ['a secret that is not set', withSecret, /environment variable SHOP_TOKEN, which is not set/],
  ['an approver whose key is none', withoutKey, /approvers\[0\].public_key must be an Ed25519 public key/],
  ['a pattern that looks behind', (text) => withPattern(text, '(?<=a)(a+)+$'), /functions.shop::note.schema cannot be used: .*linear time/],
  ['a pattern that refers back', (text) => withPattern(text, '(a*)*\\1$'), /functions.shop::note.schema cannot be used: .*linear time/],
]

it.each(broken)('[bad.broken-configuration] one with %s is refused at the start with its line, and nothing is lost', async (_title, change, says) => {
  const held = await heldAndClosed()
  const text = readFileSync(held.place.home.configPath, 'utf8')
  writeFileSync(held.place.home.configPath, change(text), { mode: 0o600 })
  const before = storedRows(held.place)
  const error = await refusal(() => open(held.place))
  expect([error.code, error.message]).toEqual(['bad_config', expect.stringMatching(says)])
  expect(error.message).toMatch(/^harness.yaml line \d+, column \d+: /)
  expect(storedRows(held.place)).toEqual(before)
  writeFileSync(held.place.home.configPath, text, { mode: 0o600 })
  await goesOn(held)
})

it.each(broken)('[bad.broken-configuration] one with %s changes nothing at a reload: the last good one is in force', async (_title, change, says) => {
  const told: string[] = []
  const log: Log = { ...silentLog, error: (fields) => void told.push(String(fields['error'])) }
  const place = await openPlace({ log })
  const held = await place.run('shop::refund', refund)
  const { fingerprint } = place.harness.authority()
  const text = readFileSync(place.home.configPath, 'utf8')
  const write = (content: string): void => { writeFileSync(place.home.configPath, content, { mode: 0o600 }) }
  write(change(text))
  expect(await place.run('shop::note', { text: 'x' })).toMatchObject({ state: 'completed' })
  await place.decide(held.approvals[0]!.approval_id, 'approve')
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed' })
  expect(place.harness.authority().fingerprint).toBe(fingerprint)
  expect(told.join()).toMatch(says)
  await wait(10)
  write(text.replace('deny: ["shop::secret*"]', 'deny: ["shop::secret*", "shop::note"]'))
  expect(await place.run('shop::note', { text: 'x' })).toMatchObject({ state: 'cancelled', reason: 'denied' })
  expect(place.harness.authority().fingerprint).not.toBe(fingerprint)
})

it('[bad.broken-configuration] one that is gone while it runs changes nothing either', async () => {
  const place = await openPlace()
  rmSync(place.home.configPath)
  expect(await place.run('shop::note', { text: 'x' })).toMatchObject({ state: 'completed' })
})

it.each([
  ['(a+)+$', `${'a'.repeat(50_000)}!`],
  ['^(([a-z])+.)+[A-Z]([a-z])+$', 'a'.repeat(50_000)],
  ['(x+x+)+y', 'x'.repeat(50_000)],
])('[bad.hostile-pattern] a pattern that others never finish is done at once: %s', async (pattern, text) => {
  const place = await openPlace({ config: (key) => withPattern(shopConfig(key), pattern) })
  const { pause, result } = await longestPause(() => place.run('shop::note', { text }))
  expect(result).toMatchObject({ state: 'cancelled', reason: 'denied', details: { code: 'invalid_arguments' } })
  expect(pause).toBeLessThan(2_000)
  expect(place.functions.sent).toEqual([])
  expect(await place.run('shop::look_up', { order: 'A-1' })).toMatchObject({ state: 'completed' })
})
