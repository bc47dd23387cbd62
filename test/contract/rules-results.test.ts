/* Every call that was asked for gets one result, right behind it, whatever it was and however the turn ended. */
import type { ModelRequest } from '../../core/model/model'
import type { FunctionOutcome } from '../../core/functions/function'
import { isSettled, type CallStatus } from '../../core/turn/call'
import { makeWorld, type World } from '../property/world'
import { closePlaces, openPlace, type Place } from '../support/place'
import { until } from '../support/until'

const worlds: World[] = []
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close()
  await closePlaces()
})

const lookUp = { function_id: 'shop::look_up', arguments: { order: 'A-1' } }
const note = { function_id: 'shop::note', arguments: { text: 'n' } }
const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
/** One call for each way a call may go. */
const calls = [
  lookUp, note, refund, { function_id: 'shop::secret_drop', arguments: {} }, { function_id: 'made_up', arguments: {} },
  { function_id: 'shop::look_up', arguments: {} }, { function_id: 'shop::note', arguments: null }, lookUp, lookUp,
]

/** The results that stand behind each answer of the model, or null where they do not stand as they must. */
function resultsOf(request: ModelRequest): readonly string[] | null {
  const results: string[] = []
  const rest = [...request.messages]
  for (let message = rest.shift(); message !== undefined; message = rest.shift()) {
    if (message.role === 'function_result') return null // behind no call
    if (message.role !== 'assistant') continue
    for (const call of message.calls) {
      const result = rest.shift()
      if (result?.role !== 'function_result' || result.call_id !== call.call_id) return null
      results.push(result.text)
    }
  }
  return results
}
const settled = (turn: { calls: readonly { status: string; result?: unknown }[] }): boolean =>
  turn.calls.every((call) => isSettled(call.status as CallStatus) && call.result !== undefined)

/** Goes on with the session: what the model then sees of the turn before. */
async function seenLater(place: Place, sessionId: string): Promise<readonly string[] | null> {
  await place.say('And now?', { session_id: sessionId })
  return resultsOf(place.model.requests.at(-1)!)
}

it('[result.exactly-one] succeeded, failed, denied, rejected, unknown and malformed calls each have one, in the order asked', async () => {
  const place = await openPlace({ script: [{ text: 'All of it.', calls }, { text: 'Done.' }] })
  place.functions.answer('shop::look_up', (call) => ({ kind: 'answered', value: { call: call.call_id }, is_error: true }))
  const held = await place.say('Go.')
  await place.decide(held.approvals[0]!.approval_id, 'reject', 'Not today')
  const turn = await place.turn(held.turn_id)
  expect(turn.calls.map((call) => call.status)).toEqual(
    ['failed', 'succeeded', 'rejected', 'denied', 'denied', 'denied', 'denied', 'failed', 'failed']
  )
  expect(settled(turn)).toBe(true)
  const results = resultsOf(place.model.requests[1]!)
  expect(results).toHaveLength(calls.length)
  expect(new Set(turn.calls.map((call) => call.function_call_id)).size).toBe(calls.length)
  // the model is told the same as who looks at the turn
  expect(results!.map((text) => JSON.parse(text) as unknown)).toEqual(turn.calls.map((call) => call.result))
})

it('[result.exactly-one] what was told once is told the same way in every later call of the model', async () => {
  const place = await openPlace({
    script: (_request, count) => (count < 3 ? { text: `round ${String(count)}`, calls: [lookUp, note] } : { text: 'Done.' }),
  })
  const { session_id } = await place.say('Go.')
  await place.say('Again.', { session_id })
  const prefixes = place.model.requests.map((request) => request.messages.slice(1))
  for (const [index, earlier] of prefixes.slice(0, -1).entries()) {
    expect(prefixes[index + 1]!.slice(0, earlier.length)).toEqual(earlier)
    expect(resultsOf(place.model.requests[index]!)).not.toBeNull()
  }
})

it('[result.after-cancel] after a stop in the middle of a call, each of the calls has one', async () => {
  const script = [{ text: 'All of it.', calls: [note, note, refund, lookUp] }]
  const place = await openPlace({ script: (request, count) => (
    request.messages.at(-1)?.role === 'user' && count === 0 && request.messages.length > 3 ? { text: 'Yes.' } : (script[0] ?? {})
  ) })
  place.functions.answer('shop::note', (_call, signal) => new Promise<FunctionOutcome>((resolve) => {
    signal.addEventListener('abort', () => resolve({ kind: 'cut', message: 'Stopped.' }))
  }))
  const sent = await place.harness.send({ message: 'Go.' }, place.caller)
  await until(() => place.functions.count('shop::note') === 1)
  await place.harness.stop({ session_id: sent.session_id, turn_id: sent.turn_id }, place.caller)
  const turn = await place.turn(sent.turn_id)
  expect(turn.calls.map((call) => call.status)).toEqual(['interrupted', 'denied', 'denied', 'succeeded'])
  expect(settled(turn)).toBe(true)
  expect(await seenLater(place, sent.session_id)).toHaveLength(4)
})

it('[result.after-cancel] after a stop while a call was held, each of the calls has one', async () => {
  const place = await openPlace({ script: (request) => (request.messages.length > 3 ? { text: 'Yes.' } : { calls: [refund, lookUp] }) })
  const held = await place.say('Go.')
  await place.harness.stop({ session_id: held.session_id, turn_id: held.turn_id }, place.caller)
  expect(settled(await place.turn(held.turn_id))).toBe(true)
  expect(await seenLater(place, held.session_id)).toHaveLength(2)
})

it('[result.after-failure] after the model failed, or the limit or the time ran out, each of the calls has one', async () => {
  const failing = await openPlace({ script: (request, count) => (request.messages.at(-1)?.role === 'user' && request.messages.length > 3 ? {
    text: 'Yes.',
  } : count === 0 ? { calls: [lookUp, note] } : { fail: { error_kind: 'permanent' } }) })
  const failed = await failing.say('Go.')
  expect(failed).toMatchObject({ state: 'failed', reason: 'model_failed' })
  expect(settled(failed)).toBe(true)
  expect(await seenLater(failing, failed.session_id)).toHaveLength(2)

  const world = await makeWorld((_request, count) => ({ text: 'x', calls: count < 2 ? [refund, note] : [] }))
  worlds.push(world)
  const limited = await world.harness.send({ message: 'Go.', options: { max_turns: 1 } }, world.caller)
  await world.work({})
  await world.decide(String((await world.rows('SELECT approval_id FROM approval_requests'))[0]?.['approval_id']), 'approve')
  await world.work({})
  expect(await world.store.findTurn(limited.turn_id)).toMatchObject({ status: 'failed', reason: 'max_turns' })

  const late = await world.harness.send({ message: 'Go.' }, world.caller)
  await world.work({ inside: async (where) => { if (where === 'function') world.pass(8 * 24 * 3_600_000) } })
  await world.work({})
  expect(await world.store.findTurn(late.turn_id)).toMatchObject({ status: 'failed', reason: 'deadline' })
  for (const { turn_id } of [limited, late]) {
    const rows = await world.store.callsOf(turn_id)
    expect(rows).toHaveLength(2)
    for (const call of rows) expect([isSettled(call.status), call.result === null]).toEqual([true, false])
  }
})

it('[result.after-failure] after the death of a worker in the middle of a write, each of the calls has one', async () => {
  const world = await makeWorld((_request, count) => ({ text: 'x', calls: count === 0 ? [note, lookUp, note] : [] }))
  worlds.push(world)
  const { turn_id } = await world.harness.send({ message: 'Go.' }, world.caller)
  // deliver · answer and judged · read and started · outcome
  expect(await world.work({ fault: { kind: 'before', commit: 4 } })).toBe('crashed')
  await world.work({})
  // the other call is equal to the one whose outcome is unknown: it waits for a person
  expect((await world.store.callsOf(turn_id)).map((call) => call.status)).toEqual(['interrupted', 'succeeded', 'held'])
  world.pass(25 * 3_600_000)
  await world.work({})
  expect((await world.store.callsOf(turn_id)).map((call) => call.status)).toEqual(['interrupted', 'succeeded', 'expired'])
  expect(resultsOf(world.requests.at(-1)!)).toHaveLength(3)
  expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'completed' })
})

it('[write.cut-is-told] whoever asked for a write that was cut is told that its outcome is unknown', async () => {
  const place = await openPlace({ script: [{ calls: [note] }, { text: 'I do not know.' }] })
  place.functions.answer('shop::note', () => ({ kind: 'cut', message: 'shop::note: the connection was lost.' }))
  const turn = await place.say('Note it.')
  expect(turn).toMatchObject({ state: 'completed', calls: [{ status: 'interrupted', result: { error: 'unknown_outcome' } }] })
  expect(resultsOf(place.model.requests[1]!)![0]).toContain('was not and will not be sent again')
  expect(place.functions.count('shop::note')).toBe(1)
  const direct = await place.run('shop::note', { text: 'm' })
  expect(direct).toMatchObject({ state: 'failed', reason: 'interrupted', is_error: true, details: { error: 'unknown_outcome' } })
})
