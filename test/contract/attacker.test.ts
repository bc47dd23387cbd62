import { setTimeout as wait } from 'node:timers/promises'
import { attack, settled, tamperingFound, look } from '../support/attacker'
import { closePlaces, openPlace } from '../support/place'
afterEach(closePlaces)

const refund = { order: 'A-1', amount: 20 }

it('replay: started under the next epoch', async () => {
  const place = await openPlace()
  const held = await place.run('shop::refund', refund)
  await place.decide(held.approvals[0]!.approval_id, 'approve')
  await place.turn(held.turn_id)
  expect(place.functions.count('shop::refund')).toBe(1)
  attack(place, (a) => {
    const turn = a.row('SELECT * FROM turns WHERE turn_id = ?', held.turn_id)
    a.run(`UPDATE turns SET status='queued', finished_at=NULL, reason=NULL, result=NULL WHERE turn_id=?`, held.turn_id)
    a.run(`UPDATE calls SET status='started', result=NULL, settled_at=NULL, started_epoch=? WHERE turn_id=?`, Number(turn['lease_epoch']) + 1, held.turn_id)
  })
  await settled(place)
  console.log(look(place, r => r.rows('SELECT status, reason, detail FROM turns')), look(place, r => r.rows('SELECT status, reason FROM calls')), tamperingFound(place))
  expect(place.functions.count('shop::refund')).toBe(1)
})

it('spin: inbox_posted bumped during a run', async () => {
  const place = await openPlace({ script: [{ text: 'slow', delay_ms: 800 }] })
  const sent = await place.harness.send({ message: 'hi' }, place.caller)
  await wait(400)
  attack(place, (a) => a.run('UPDATE turns SET inbox_posted = inbox_posted + 1'))
  await wait(1000)
  console.log(look(place, r => r.rows('SELECT status, reason, inbox_posted, inbox_seen FROM turns')))
  expect((await place.turn(sent.turn_id, 1)).state).toBe('completed')
})

it('freeze: lease_epoch is not a number', async () => {
  const place = await openPlace({ script: [{ text: 'slow' }] })
  const held = await place.run('shop::refund', refund)
  attack(place, (a) => a.run(`UPDATE turns SET lease_epoch = 9007199254740992, status = 'queued'`))
  await wait(1000)
  console.log(look(place, r => r.rows('SELECT status, reason, lease_epoch FROM turns')))
  console.log(await place.run('shop::look_up', { order: 'x' }, 5))
})
