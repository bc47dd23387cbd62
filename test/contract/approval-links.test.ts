/*
 * Who is told the key of an approval's link: nobody who was not let decide, and nobody by what rows say, whoever may write them. With a
 * key and a name a call is released where the page takes names, so the key is guarded as the decision is.
 */
import { approvalDigest, functionDigest } from '../../core/approvals/approval'
import type { Caller } from '../../core/identity/principal'
import { attack, look, settled } from '../support/attacker'
import { newAwaitId } from '../support/await-scene'
import { openPagePlace, type PagePlace } from '../support/page-place'
import { closePlaces } from '../support/place'

afterEach(closePlaces)

const narrow = (scene: PagePlace, principal: string, scopes: Caller['principal']['scopes']): Caller => ({ ...scene.place.callerOf(principal, scopes), callbacks: [] })

it('[page.key-by-right] who may await and not decide is told everything of an approval but the key of its link', async () => {
  const scene = await openPagePlace()
  const { approval_id, turn_id } = await scene.held()
  const caller = narrow(scene, 'local', ['turns:write', 'turns:read', 'awaits'])
  for (const asked of [{ turn_ids: [turn_id] }, { approval_ids: [approval_id] }]) {
    const { approvals } = await scene.place.harness.await({ await_id: newAwaitId(), ...asked }, caller)
    expect(approvals).toMatchObject([{ approval_id, arguments: { order: 'A-1', amount: 20 }, link_key: null }])
  }
})

it('[page.key-by-right] a row that names another owner, or another role that may decide, tells nobody the key', async () => {
  for (const columns of [{ owner: 'second' }, { approver_roles: '["owner"]' }]) {
    const scene = await openPagePlace()
    const { approval_id } = await scene.held()
    attack(scene.place, (db) => { db.set('approval_requests', approval_id, columns) })
    const told = await scene.place.harness.await({ await_id: newAwaitId(), approval_ids: [approval_id] }, narrow(scene, 'second', ['awaits', 'approvals:decide'])).catch((error: unknown) => error)
    expect(JSON.stringify(told)).not.toContain(await scene.place.harness.linkKey(approval_id))
  }
})

it('[page.key-by-right] [page.link-key] a key told while the row named a call of whoever asked opens nothing once it is set back', async () => {
  const scene = await openPagePlace()
  const { harness } = scene.place
  const wanted = await scene.held('shop::refund', { order: 'A-1', amount: 9_999 })
  const second = narrow(scene, 'second', ['turns:write', 'turns:read', 'awaits', 'approvals:decide'])
  const own = await harness.trigger({ call: { function_id: 'shop::refund', arguments: { order: 'B-1', amount: 1 } }, wait_seconds: 10 }, second)
  const { deployment, functions } = harness.authority()
  const before = look(scene.place, (db) => db.get('approval_requests', wanted.approval_id))
  attack(scene.place, (db) => {
    const moved = {
      approval_id: wanted.approval_id, call_id: own.approvals[0]!.function_call_id, turn_id: own.turn_id, expires_at: Number(before['expires_at']),
      function_digest: functionDigest(functions.get('shop::refund')!, { order: 'B-1', amount: 1 }),
    }
    const { approval_id, ...columns } = moved
    db.set('approval_requests', approval_id, { ...columns, owner: 'second', session_id: own.session_id, approval_digest: approvalDigest(deployment, moved) })
  })
  const { approvals } = await harness.await({ await_id: newAwaitId(), approval_ids: [wanted.approval_id] }, second)
  const key = approvals[0]!.link_key ?? ''
  attack(scene.place, (db) => { db.set('approval_requests', wanted.approval_id, before) })
  await expect(scene.answer(wanted.approval_id, { link_key: key })).rejects.toMatchObject({ code: 'not_found' })
  await settled(scene.place)
  expect(scene.place.functions.sent).toEqual([])
})
