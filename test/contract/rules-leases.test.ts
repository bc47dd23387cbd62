/* Whose turn it is to run a turn: one process at a time, for as long as its own clock says, never twice, and not for ever. */
import Database from 'better-sqlite3'
import type { Clock } from '../../core/clock'
import type { FunctionOutcome } from '../../core/functions/function'
import { thisProcess } from '../../core/host-process'
import { makeWorld } from '../property/world'
import { closePlaces, openPlace, shopConfig, type Place } from '../support/place'
import { until } from '../support/until'

afterEach(closePlaces)

const note = { function_id: 'shop::note', arguments: { text: 'n' } }
const script = [{ calls: [note] }, { text: 'Done.' }]
/** Changes rows behind the harness's back, as another process or a crash leaves them. */
function edit(place: Pick<Place, 'folder'>, text: string, ...values: readonly unknown[]): unknown[] {
  const database = new Database(`${place.folder}/harness.db`, { timeout: 5_000 })
  try {
    const statement = database.prepare(text)
    return statement.reader ? statement.all(...values) : [statement.run(...values)]
  } finally {
    database.close()
  }
}
const claimsOf = (place: Place, turnId: string): number =>
  edit(place, `SELECT 1 FROM audit_events WHERE changes LIKE '%"turn.claimed"%' AND changes LIKE ?`, `%${turnId}%`).length

/** A clock whose two hands the test moves. */
function ownClock(): Clock & { wall: number; steady: number } {
  const clock = { wall: 0, steady: 0, now: () => Date.now() + clock.wall, monotonic: () => Math.floor(performance.now()) + clock.steady }
  return clock
}

describe('one process at a time', () => {
  it('[home.one-worker] of two on one folder one runs the turns; the other writes and reads rows, says so, and takes over when it may', async () => {
    const first = await openPlace({ script })
    const second = await openPlace({ folder: first.folder, key: first.key, script: [{ text: 'From the second.' }] })
    await until(() => first.harness.workerState().state === 'working')
    await until(() => second.harness.workerState().text.includes('Another process'))
    expect(second.harness.workerState()).toMatchObject({ state: 'standing_by', text: expect.stringContaining(`serve, pid ${String(process.pid)}`) })

    const sent = await second.harness.send({ message: 'Note it.' }, second.caller)
    expect(await second.turn(sent.turn_id)).toMatchObject({
      state: 'completed', result: 'Done.', worker: expect.stringContaining('writes and reads rows only'),
    })
    expect([second.model.requests.length, second.functions.sent.length]).toEqual([0, 0])

    await first.close()
    expect(await second.say('Now you.')).toMatchObject({ state: 'completed', result: 'From the second.', worker: 'This process runs the turns.' })
  })

  it('[authority.fingerprint-guards] one with another configuration claims nothing while the first one lives', async () => {
    const first = await openPlace({ script: [{ text: 'From the first.' }] })
    await until(() => first.harness.workerState().state === 'working')
    const overlay = [...first.harness.authority().functions.values()].slice(0, 1).map((entry) => ({ ...entry, id: 'extra::one' }))
    const second = await openPlace({ folder: first.folder, overlay, script: [{ text: 'From the second.' }] })
    expect(second.harness.authority().fingerprint).not.toBe(first.harness.authority().fingerprint)
    expect(await second.say('Who answers?')).toMatchObject({ result: 'From the first.' })
    expect(second.harness.workerState().state).toBe('standing_by')
    expect(second.model.requests).toEqual([])
  })

  it('[lease.dead-owner-replaced] a process that is gone is replaced at once, however long its lease would have lasted', async () => {
    const { pid, pidStart, host } = thisProcess()
    const place = await openPlace({ worker: false })
    const [boot, space] = (pidStart ?? '').split(' ')
    const gone = [pid, `${boot ?? ''} ${space ?? ''} 1`, host, Date.now() + 1e9]
    edit(place, `INSERT INTO workers VALUES ('worker', 'w_gone', ?, ?, ?, 'f', 'serve', 0, ?)`, ...gone)
    const next = await place.reopen({ worker: true })
    expect(await next.say('Hello?')).toMatchObject({ state: 'completed' })
  })

  it('one that lives on this host is not replaced before its lease is over', async () => {
    const { pid, pidStart, host } = thisProcess()
    const place = await openPlace({ worker: false })
    edit(place, `INSERT INTO workers VALUES ('worker', 'w_alive', ?, ?, ?, 'f', 'serve', 0, ?)`, pid, pidStart, host, Date.now() + 1_500)
    const next = await place.reopen({ worker: true })
    const sent = await next.harness.send({ message: 'Hello?' }, next.caller)
    expect(await next.turn(sent.turn_id, 0.5)).toMatchObject({ state: 'working' })
    expect(await next.turn(sent.turn_id)).toMatchObject({ state: 'completed' })
  })
})

describe('the clock of a lease', () => {
  it('[lease.monotonic] a wall clock set forth and back takes no lease away', async () => {
    const clock = ownClock()
    const place = await openPlace({ script, clock })
    place.functions.answer('shop::note', () => {
      clock.wall += clock.wall === 0 ? 3_600_000 : -7_200_000
      return { kind: 'answered', value: { ok: true }, is_error: false }
    })
    for (let count = 0; count < 2; count += 1) {
      expect(await place.say('Note it.')).toMatchObject({ state: 'completed', calls: [{ status: 'succeeded' }] })
    }
    expect(place.functions.sent).toHaveLength(2)
  })

  it('[lease.monotonic] once its lease is over by the clock that never goes back, a worker begins nothing new before it was renewed', async () => {
    const clock = ownClock()
    const place = await openPlace({ script, clock })
    let asked = 0
    place.functions.answer('shop::note', () => {
      clock.steady += 11_000
      asked = place.model.requests.length
      return { kind: 'answered', value: { ok: true }, is_error: false }
    })
    const turn = await place.say('Note it.')
    expect(turn).toMatchObject({ state: 'completed', result: 'Done.', calls: [{ status: 'succeeded' }] })
    expect([asked, place.functions.sent.length]).toEqual([1, 1])
    // it looked again, but did not claim the same turn over and over while it could do nothing for it
    expect(claimsOf(place, turn.turn_id)).toBeLessThanOrEqual(3)
  })
})

describe('a turn that is still run', () => {
  it('[lease.never-own-twice] is not claimed by the process that runs it, even after that lost the place and took it again', async () => {
    const place = await openPlace({ script })
    let answer: (outcome: FunctionOutcome) => void = () => undefined
    // deaf to the stop, as a function may be for a moment
    place.functions.answer('shop::note', () => new Promise((resolve) => { answer = resolve }))
    const { turn_id } = await place.harness.send({ message: 'Note it.' }, place.caller)
    await until(() => place.functions.sent.length === 1)
    edit(place, `UPDATE workers SET worker_id = 'w_other', lease_until = 0`)
    await until(() => (edit(place, 'SELECT worker_id FROM workers')[0] as { worker_id: string }).worker_id !== 'w_other')
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect([place.functions.sent.length, claimsOf(place, turn_id)]).toEqual([1, 1])
    answer({ kind: 'answered', value: { ok: true }, is_error: false })
    expect(await place.turn(turn_id)).toMatchObject({ state: 'completed', calls: [{ status: 'succeeded' }] })
    expect(place.functions.sent).toHaveLength(1)
  })
})

describe('a turn that kills its worker', () => {
  const reply = (): { text: string; calls: [] } => ({ text: 'Never said.', calls: [] })

  it('[crash-loop.fails] fails with crash_loop after three deaths without a commit, and the model is not asked a fourth time', async () => {
    const world = await makeWorld(reply)
    const { turn_id } = await world.harness.send({ message: 'Hello?' }, world.caller)
    // the first commit delivers the message; the process dies in the model call
    for (let death = 0; death < 3; death += 1) expect(await world.work({ fault: { kind: 'before', commit: 1 } })).toBe('crashed')
    expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'running', claims: 3 })
    expect(await world.work({})).toBe('settled')
    expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'failed', reason: 'crash_loop' })
    expect(world.requests).toEqual([])
    // what kills workers is not tried again by another turn
    expect(await world.work({})).toBeNull()
    expect(await world.rows('SELECT turn_id FROM turns')).toEqual([{ turn_id }])
    expect(await world.problems()).toEqual([])
    await world.close()
  })

  it('[crash-loop.fails] a commit in between begins the count anew', async () => {
    const world = await makeWorld(reply)
    const { turn_id } = await world.harness.send({ message: 'Hello?' }, world.caller)
    for (const commit of [1, 1, 2, 1, 1]) expect(await world.work({ fault: { kind: 'before', commit } })).toBe('crashed')
    expect(await world.work({})).toBe('settled')
    expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'completed' })
    await world.close()
  })
})

it('[commit.fenced] [write.at-most-once] a worker whose lease was taken changes nothing more, whatever it had under way', async () => {
  const world = await makeWorld((_request, count) => ({ text: 'x', calls: count === 0 ? [note] : [] }))
  const { turn_id } = await world.harness.send({ message: 'Note it.' }, world.caller)
  expect(await world.work({ fault: { kind: 'lease', commit: 3 } })).toBe('lost')
  expect(world.sent).toHaveLength(1)
  expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'running', lease_epoch: 2 })
  expect(await world.work({})).toBe('settled')
  expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'interrupted' }])
  expect(world.sent).toHaveLength(1)
  await world.close()
})

it('[home.one-worker] a program that runs no turns says who does, or what to start', async () => {
  const place = await openPlace({ worker: false, config: shopConfig })
  expect(place.harness.workerState()).toMatchObject({ state: 'none' })
  expect(await place.run('shop::look_up', { order: 'A-1' }, 0)).toMatchObject({
    state: 'working', worker: expect.stringContaining('agent-harness serve'),
  })
  const other = await openPlace({ folder: place.folder })
  await until(() => other.harness.workerState().state === 'working')
  expect(await place.run('shop::look_up', { order: 'A-1' })).toMatchObject({
    state: 'completed', worker: `Turns are run by serve (pid ${String(process.pid)}).`,
  })
})
