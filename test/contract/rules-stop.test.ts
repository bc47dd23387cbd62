/* Stop works at any moment, the cut call says so, and what comes late is on record without effect. */
import type { FunctionOutcome } from '../../core/functions/function'
import type { Model, ModelReply } from '../../core/model/model'
import { scriptedModel, type ScriptedReply } from '../../core/model/scripted'
import { makeWorld } from '../property/world'
import { closePlaces, openPlace, type Place } from '../support/place'
import { until } from '../support/until'

afterEach(closePlaces)

const note = { function_id: 'shop::note', arguments: { text: 'n' } }
const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
const lookUp = { function_id: 'shop::look_up', arguments: { order: 'A-1' } }

/** Says something and returns once the model or the function is under way. */
async function begin(place: Place, isUnderWay: () => boolean): Promise<{ session_id: string; turn_id: string }> {
  const { session_id, turn_id } = await place.harness.send({ message: 'Go.' }, place.caller)
  await until(isUnderWay)
  return { session_id, turn_id }
}
const stop = (place: Place, ids: { session_id: string; turn_id: string }): Promise<{ stopping: boolean }> =>
  place.harness.stop({ session_id: ids.session_id, turn_id: ids.turn_id }, place.caller)
const stopped = { state: 'cancelled', status: 'cancelled', reason: 'stopped', detail: 'Stopped by local.' }

/** A function that answers only when it is stopped, as one that takes long. */
const untilStopped = (_call: unknown, signal: AbortSignal): Promise<FunctionOutcome> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve({ kind: 'cut', message: 'The call was stopped.' })))

it('[stop.inside-model] a stop ends the turn inside a model call, which is given up', async () => {
  const place = await openPlace({ script: [{ text: 'Too late.', delay_ms: 60_000 }] })
  const ids = await begin(place, () => place.model.requests.length === 1)
  expect(await stop(place, ids)).toEqual({ stopping: true })
  expect(await place.turn(ids.turn_id)).toMatchObject({ ...stopped, step: 0, calls: [] })
  expect(place.model.requests).toHaveLength(1)
})

it('[stop.inside-model] a stop does not wait for a model server that is slow to say which models it has', async () => {
  let asked = 0
  const scripted = scriptedModel([{ text: 'Never said.' }])
  const slow = { address: 'x', reachable: false, problem: 'Slow.', models: [] }
  const model: Model = {
    ...scripted,
    probe: () => {
      asked += 1
      return new Promise((resolve) => setTimeout(() => resolve(slow), 3_000).unref())
    },
  }
  const place = await openPlace({ model })
  const ids = await begin(place, () => asked === 1)
  const from = performance.now()
  await stop(place, ids)
  expect(await place.turn(ids.turn_id)).toMatchObject(stopped)
  expect(performance.now() - from).toBeLessThan(2_000)
})

it('a process that ends while its model is asked leaves the turn to the next one, whatever the model then says', async () => {
  const reply: ModelReply = {
    kind: 'reply', provider: 'scripted', model: 'm', text: '', thinking: null, calls: [], stop_reason: 'end', native_stop_reason: null, usage: {},
    warnings: [],
  }
  const model: Model & { asked: number } = {
    ...scriptedModel([{}]), asked: 0,
    generate: (_request, signal) => new Promise((resolve) => {
      model.asked += 1
      signal.addEventListener('abort', () => resolve(reply))
    }),
  }
  const place = await openPlace({ model })
  const { turn_id } = await begin(place, () => model.asked === 1)
  const next = await place.reopen({ model: scriptedModel([{ text: 'Here I am.' }]) })
  expect(await next.turn(turn_id)).toMatchObject({ state: 'completed', result: 'Here I am.' })
})

it('[stop.inside-function] [stop.cut-is-interrupted] inside a write the call is interrupted, and told as unknown', async () => {
  const place = await openPlace({ script: [{ calls: [note, note] }, { text: 'Never said.' }] })
  place.functions.answer('shop::note', untilStopped)
  const ids = await begin(place, () => place.functions.count('shop::note') === 1)
  await stop(place, ids)
  const turn = await place.turn(ids.turn_id)
  expect(turn).toMatchObject({ ...stopped, calls: [{ status: 'interrupted', reason: 'unknown_outcome' }, { status: 'denied', reason: 'stopped' }] })
  expect(turn.calls[0]?.result).toMatchObject({ error: 'unknown_outcome' })
  expect(place.functions.count('shop::note')).toBe(1)
  expect(place.model.requests).toHaveLength(1)
})

it('[stop.inside-function] inside reads the turn ends, and nothing after them runs', async () => {
  const place = await openPlace({ script: [{ calls: [lookUp, lookUp, note] }] })
  place.functions.answer('shop::look_up', untilStopped)
  const ids = await begin(place, () => place.functions.count('shop::look_up') === 2)
  await stop(place, ids)
  expect(await place.turn(ids.turn_id)).toMatchObject({ ...stopped, calls: [{ status: 'denied' }, { status: 'denied' }, { status: 'denied' }] })
  expect(place.functions.count('shop::note')).toBe(0)
})

it('an outcome that came before the stop was heard stands', async () => {
  const place = await openPlace({ script: [{ calls: [note] }, { text: 'Never said.' }] })
  place.functions.answer('shop::note', (_call, signal) => new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve({ kind: 'answered', value: { written: true }, is_error: false }))
  }))
  const ids = await begin(place, () => place.functions.count('shop::note') === 1)
  await stop(place, ids)
  expect(await place.turn(ids.turn_id)).toMatchObject({ ...stopped, calls: [{ status: 'succeeded', result: { written: true } }] })
})

it('[stop.any-moment] [approval.cancelled] a held turn is stopped, its question withdrawn, and the call never runs', async () => {
  const place = await openPlace({ script: [{ calls: [refund] }] })
  const held = await place.say('Refund.')
  await stop(place, held)
  const turn = await place.turn(held.turn_id)
  expect(turn).toMatchObject({ ...stopped, calls: [{ status: 'denied', reason: 'stopped' }], approvals: [{ status: 'cancelled' }] })
  await expect(place.decide(held.approvals[0]!.approval_id, 'approve')).rejects.toMatchObject({ code: 'approval_closed' })
  expect(place.functions.sent).toEqual([])
})

it('[stop.any-moment] a function turn is stopped while it is held', async () => {
  const place = await openPlace()
  const held = await place.run('shop::refund', refund.arguments)
  await stop(place, held)
  expect(await place.turn(held.turn_id)).toMatchObject({ ...stopped, calls: [{ status: 'denied', reason: 'stopped' }] })
})

it('[stop.any-moment] a turn that waits behind one that is held is stopped at once, and the other goes on', async () => {
  const place = await openPlace({ script: [{ calls: [refund] }, { text: 'Done.' }] })
  const held = await place.say('Refund.')
  const waiting = await place.harness.send({ message: 'Plan.', session_id: held.session_id, options: { mode: 'plan' } }, place.caller)
  expect(waiting).toMatchObject({ merged: false })
  await stop(place, { ...waiting, session_id: held.session_id })
  expect(await place.turn(waiting.turn_id, 5)).toMatchObject(stopped)
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'held' })
  await place.decide(held.approvals[0]!.approval_id, 'approve')
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed', result: 'Done.' })
})

it('[stop.any-moment] a turn that waits behind one that runs is stopped at once, and the other goes on', async () => {
  const place = await openPlace({ script: [{ calls: [note] }, { text: 'Done.' }] })
  let answer: (outcome: FunctionOutcome) => void = () => undefined
  place.functions.answer('shop::note', (_call, signal) => new Promise((resolve) => {
    answer = resolve
    signal.addEventListener('abort', () => resolve({ kind: 'cut', message: 'The test ended.' }))
  }))
  const running = await begin(place, () => place.functions.count('shop::note') === 1)
  const waiting = await place.harness.send({ message: 'Plan.', session_id: running.session_id, options: { mode: 'plan' } }, place.caller)
  await stop(place, { ...waiting, session_id: running.session_id })
  expect(await place.turn(waiting.turn_id, 5)).toMatchObject(stopped)
  answer({ kind: 'answered', value: { ok: true }, is_error: false })
  expect(await place.turn(running.turn_id)).toMatchObject({ state: 'completed', result: 'Done.', calls: [{ status: 'succeeded' }] })
})

it('[stop.any-moment] a turn that waits because very many run is stopped at once', async () => {
  const place = await openPlace({ script: [{ text: 'Too late.', delay_ms: 60_000 }] })
  for (let count = 0; count < 16; count += 1) await place.harness.send({ message: 'Go.' }, place.caller)
  await until(() => place.model.requests.length === 16)
  const waiting = await place.harness.send({ message: 'Go.' }, place.caller)
  await stop(place, waiting)
  expect(await place.turn(waiting.turn_id, 5)).toMatchObject(stopped)
})

it('[turn.terminal-absorbs] a turn that is over is not stopped, and stays as it is', async () => {
  const place = await openPlace()
  const done = await place.say('Hello?')
  expect(await stop(place, done)).toEqual({ stopping: false })
  expect(await place.harness.stop({ session_id: done.session_id }, place.caller)).toEqual({ stopping: false })
  expect(await place.turn(done.turn_id, 0)).toEqual(done)
})

it('a stop without a turn stops the first of the session that is not over', async () => {
  const place = await openPlace({ script: [{ calls: [refund] }] })
  const held = await place.say('Refund.')
  expect(await place.harness.stop({ session_id: held.session_id }, place.caller)).toEqual({ stopping: true })
  expect(await place.turn(held.turn_id)).toMatchObject(stopped)
})

it('an operator may stop what is not its own, and the record says who did', async () => {
  const place = await openPlace({ script: [{ calls: [refund] }] })
  const held = await place.say('Refund.')
  await place.harness.stop({ session_id: held.session_id, turn_id: held.turn_id }, place.callerOf('watcher', ['turns:write']))
  expect(await place.turn(held.turn_id)).toMatchObject({ reason: 'stopped', detail: 'Stopped by watcher.' })
})

describe('an outcome that comes late', () => {
  const reply = (_request: unknown, count: number): ScriptedReply & { text: string; calls: (typeof note)[] } =>
    ({ text: `answer ${String(count)}`, calls: count === 0 ? [note] : [] })
  const messagesAndCall = async (world: Awaited<ReturnType<typeof makeWorld>>, turnId: string): Promise<unknown> => ({
    messages: (await world.rows('SELECT message_id FROM messages')).length, turn: (await world.store.findTurn(turnId))?.status,
    call: (await world.store.callsOf(turnId))[0],
  })

  it('[late.recorded] [late.no-message] is on the call after somebody else gave it up, and changes nothing else', async () => {
    const world = await makeWorld(reply)
    const { turn_id } = await world.harness.send({ message: 'Note it.' }, world.caller)
    let before: unknown = null
    const end = await world.work({
      inside: async (where) => {
        if (where === 'model' || before !== null) return
        before = 'soon'
        await world.stealLease(turn_id)
        expect(await world.work({})).toBe('settled')
        before = await messagesAndCall(world, turn_id)
      },
    })
    expect(end).toBe('lost')
    expect(before).toMatchObject({ turn: 'completed', messages: 3, call: { status: 'interrupted' } })
    expect(await messagesAndCall(world, turn_id)).toEqual(before)
    const late = await world.rows(`SELECT k.text AS text FROM calls c JOIN contents k ON k.content_id = c.late_result WHERE c.turn_id = '${turn_id}'`)
    expect(late).toEqual([{ text: '{"ok":true}' }])
    expect(world.sent).toHaveLength(1)
    expect(await world.problems()).toEqual([])
    await world.close()
  })

  it('[late.recorded] is on the call also when it comes before anybody gave it up', async () => {
    const world = await makeWorld(reply)
    const { turn_id } = await world.harness.send({ message: 'Note it.' }, world.caller)
    expect(await world.work({ inside: async (where) => { if (where === 'function') await world.stealLease(turn_id) } })).toBe('lost')
    expect(await world.work({})).toBe('settled')
    expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'interrupted' }])
    expect(await world.rows(`SELECT k.text AS text FROM calls c JOIN contents k ON k.content_id = c.late_result`)).toEqual([{ text: '{"ok":true}' }])
    expect(await world.problems()).toEqual([])
    await world.close()
  })
})
