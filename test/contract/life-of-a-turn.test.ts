/* The walk of core/README.md, as a test: the first one to read. */
import { closePlaces, openPlace } from '../support/place'

afterEach(closePlaces)

const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }

it('a risky call waits for a person, runs once when approved, and the turn goes on to its end', async () => {
  const place = await openPlace({ script: [{ text: 'I will refund it.', calls: [refund] }, { text: 'Refunded.' }] })
  const held = await place.say('Please refund order A-1.')
  expect(held).toMatchObject({ state: 'held', calls: [{ function_id: 'shop::refund', status: 'held' }] })
  expect(place.functions.count('shop::refund')).toBe(0)

  await place.decide(held.approvals[0]?.approval_id ?? '', 'approve')
  const done = await place.turn(held.turn_id)
  expect(done).toMatchObject({ state: 'completed', reason: 'done', result: 'Refunded.', calls: [{ status: 'succeeded', result: { ok: true } }] })
  expect(place.functions.count('shop::refund')).toBe(1)
  expect(await place.harness.verify_audit({}, place.caller)).toMatchObject({ problems: [] })
})

it('a rejected call never runs, and the model is told why', async () => {
  const place = await openPlace({ script: [{ calls: [refund] }, { text: 'It was rejected.' }] })
  const held = await place.say('Please refund order A-1.')
  await place.decide(held.approvals[0]?.approval_id ?? '', 'reject', 'Not without a receipt')
  const done = await place.turn(held.turn_id)
  expect(done).toMatchObject({ state: 'completed', result: 'It was rejected.', calls: [{ status: 'rejected' }] })
  expect(place.functions.count('shop::refund')).toBe(0)
  expect(JSON.stringify(place.model.requests.at(-1)?.messages)).toContain('Not without a receipt')
})

it('one function runs without a model, under the same rules', async () => {
  const place = await openPlace()
  expect(await place.run('shop::look_up', { order: 'A-1' })).toMatchObject({ state: 'completed', is_error: false, details: { ok: true } })
  const held = await place.run('shop::refund', { order: 'A-1', amount: 5 })
  expect(held).toMatchObject({ state: 'held', pending: true })
  await place.decide(held.approvals[0]?.approval_id ?? '', 'approve')
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed', result: { ok: true } })
  expect(await place.run('shop::secret_drop', {})).toMatchObject({ state: 'cancelled', reason: 'denied' })
  expect(place.functions.sent.map((call) => call.entry.id)).toEqual(['shop::look_up', 'shop::refund'])
})
