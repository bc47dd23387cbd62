/* What is written together, who never gets in the way of whom, and one answer for a request that is repeated. */
import { HarnessError } from '../../core/errors'
import type { Connection, Statement } from '../../core/store/sql'
import { makeWorld, type World } from '../property/world'
import { closePlaces, openPlace } from '../support/place'

const worlds: World[] = []
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close()
  await closePlaces()
})

const note = { function_id: 'shop::note', arguments: { text: 'n' } }
const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
const tablesOf = (batch: readonly Statement[]): Set<string> =>
  new Set(batch.flatMap((statement) => /INSERT INTO (\w+)/.exec(statement.text)?.[1] ?? []))

/** Sees every batch that is written, and may refuse one. */
function watched(): { wrap: (plain: Connection) => Connection; batches: (readonly Statement[])[]; refuse: { next: boolean } } {
  const batches: (readonly Statement[])[] = []
  const refuse = { next: false }
  const wrap = (plain: Connection): Connection => ({
    ...plain,
    async atomically(statements) {
      if (refuse.next) throw new HarnessError('store_unavailable', 'The disk is full; nothing was changed.')
      await plain.atomically(statements)
      batches.push(statements)
    },
  })
  return { wrap, batches, refuse }
}

it('[commit.send-is-one] session, execution, turn, message and their record are written in one commit, or not at all', async () => {
  const { wrap, batches, refuse } = watched()
  const place = await openPlace({ worker: false, wrapConnection: wrap })
  batches.length = 0
  const sent = await place.harness.send({ message: 'Hello?', idempotency_key: 'k' }, place.caller)
  expect(batches.map(tablesOf)).toEqual([new Set(['contents', 'executions', 'sessions', 'turns', 'inbox', 'chains', 'audit_events', 'idempotency'])])
  await place.run('shop::look_up', { order: 'A-1' }, 0)
  expect(tablesOf(batches[1]!)).toEqual(new Set(['contents', 'executions', 'sessions', 'turns', 'calls', 'chains', 'audit_events']))
  expect(batches).toHaveLength(2)

  const before = await place.harness.overview()
  refuse.next = true
  await expect(place.harness.send({ message: 'Lost?' }, place.caller)).rejects.toMatchObject({ code: 'store_unavailable' })
  await expect(
    place.harness.send({ message: 'Lost?', session_id: sent.session_id }, place.caller)
  ).rejects.toMatchObject({ code: 'store_unavailable' })
  refuse.next = false
  expect(await place.harness.overview()).toEqual(before)
})

it('[commit.outsiders-never-stale] [commit.settle-same-epoch] sends, stops and decisions fail no step of the worker', async () => {
  const world = await makeWorld((_request, count) => ({ text: `answer ${String(count)}`, calls: count === 0 ? [refund, note] : [] }))
  worlds.push(world)
  const { session_id, turn_id } = await world.harness.send({ message: 'Go.' }, world.caller)
  let posted = 0
  const end = await world.work({
    inside: async () => {
      // one after the other, so that each would make a version that they shared move on
      for (let count = 0; count < 5; count += 1) {
        const more = `more ${String((posted += 1))}`
        expect(await world.harness.send({ message: more, session_id }, world.caller)).toMatchObject({ merged: true })
      }
      await world.harness.trigger({ call: note }, world.caller)
    },
  })
  expect(end).toBe('settled')
  expect(world.sent.map((call) => call.entry.id)).toEqual(['shop::note'])
  expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'held' }, { status: 'succeeded' }])
  // it ran under one lease from its beginning to its park
  expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'awaiting_functions', lease_epoch: 1, claims: 0 })

  await world.decide(String((await world.rows('SELECT approval_id FROM approval_requests'))[0]?.['approval_id']), 'approve')
  let stopped = false
  expect(await world.work({
    inside: async (where) => {
      if (where !== 'function' || stopped) return
      stopped = true
      await world.harness.send({ message: 'the last', session_id }, world.caller)
      await world.harness.stop({ session_id, turn_id }, world.caller)
    },
  })).toBe('settled')
  expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'cancelled', reason: 'stopped', lease_epoch: 2 })
  expect(await world.problems()).toEqual([])
})

it('[commit.decide-once] a decision and the end of its turn never both count', async () => {
  const place = await openPlace({ script: [{ calls: [refund] }, { text: 'Done.' }] })
  for (let round = 0; round < 6; round += 1) {
    const held = await place.say('Refund.')
    const sentBefore = place.functions.sent.length
    const [decided] = await Promise.allSettled([
      place.decide(held.approvals[0]!.approval_id, 'approve'),
      place.harness.stop({ session_id: held.session_id, turn_id: held.turn_id }, place.caller),
    ])
    const turn = await place.turn(held.turn_id)
    const status = turn.approvals[0]?.status
    expect(status).toBe(decided.status === 'fulfilled' ? 'approved' : 'cancelled')
    if (status === 'cancelled') expect(place.functions.sent).toHaveLength(sentBefore)
    expect(turn).toMatchObject({ state: 'cancelled', reason: 'stopped' })
  }
})

describe('a request that is repeated', () => {
  it('[commit.idempotency-key] gets its first answer under its key, by send and by trigger, for each principal', async () => {
    const place = await openPlace({ script: [{ text: 'Yes.' }] })
    const { harness, caller } = place
    const message = { message: 'Hello?', idempotency_key: 'k' }
    const first = await harness.send(message, caller)
    expect(await harness.send({ idempotency_key: 'k', message: 'Hello?' }, caller)).toEqual({ ...first, deduplicated: true })
    await expect(harness.send({ ...message, message: 'Other?' }, caller)).rejects.toMatchObject({ code: 'conflict' })
    expect((await harness.send(message, place.callerOf('second'))).turn_id).not.toBe(first.turn_id)

    // a caller's own id of a call counts within its session
    const call = { call: { ...note, id: 'from the client' }, session_id: first.session_id }
    const ran = await harness.trigger({ ...call, wait_seconds: 10 }, caller)
    expect(await harness.trigger({ ...call, wait_seconds: 10 }, caller)).toMatchObject({
      turn_id: ran.turn_id, function_call_id: ran.function_call_id, deduplicated: true, is_error: false,
    })
    expect(place.functions.count('shop::note')).toBe(1)
    const other = { ...call, call: { ...call.call, arguments: { text: 'other' } } }
    await expect(harness.trigger(other, caller)).rejects.toMatchObject({ code: 'conflict' })
    expect(await harness.trigger({ call: call.call }, caller)).toMatchObject({ deduplicated: false })
  })

  it('[commit.idempotency-key] also when both come at once', async () => {
    const place = await openPlace({ script: [{ text: 'Yes.' }] })
    const sends = await Promise.all(Array.from({ length: 10 }, () => place.harness.send({ message: 'Hello?', idempotency_key: 'k' }, place.caller)))
    expect(new Set(sends.map((sent) => sent.turn_id)).size).toBe(1)
    expect(sends.filter((sent) => !sent.deduplicated)).toHaveLength(1)
    const runs = await Promise.all(
      Array.from({ length: 10 }, () => place.harness.trigger({ call: note, idempotency_key: 'k', wait_seconds: 10 }, place.caller))
    )
    expect(new Set(runs.map((ran) => ran.turn_id)).size).toBe(1)
    expect(place.functions.count('shop::note')).toBe(1)
  })

  it('[commit.idempotency-key] a key is forgotten after a day, and one that was refused is no answer', async () => {
    let wall = 0
    const place = await openPlace({
      script: [{ text: 'Yes.' }], clock: { now: () => Date.now() + wall, monotonic: () => Math.floor(performance.now()) },
    })
    await expect(
      place.harness.send({ message: 'Hello?', agent: 'nobody', idempotency_key: 'k' }, place.caller)
    ).rejects.toMatchObject({ code: 'invalid_input' })
    const first = await place.harness.send({ message: 'Hello?', idempotency_key: 'k' }, place.caller)
    expect(first).toMatchObject({ deduplicated: false })
    wall = 24 * 3_600_000 + 1_000
    expect(await place.harness.send({ message: 'Hello?', idempotency_key: 'k' }, place.caller)).toMatchObject({ deduplicated: false })
  })
})
