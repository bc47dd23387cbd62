/*
 * One who may write the database against the approval page: he has no key. Whatever he writes of a decision by the page, no call is sent,
 * and nobody signs one thing while another was shown.
 */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { approvalDigest, functionDigest, type SignedDecision } from '../../core/approvals/approval'
import { signDecision } from '../../core/approvals/decide'
import { attack, settled, tamperingFound, type Attacker, type Row } from '../support/attacker'
import { openPagePlace, type PagePlace } from '../support/page-place'
import { closePlaces } from '../support/place'

afterEach(closePlaces)

const stranger = generateKeyPairSync('ed25519')
const strangerKey = stranger.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')

function byName(db: Attacker, approvalId: string, key: KeyObject, more: Partial<SignedDecision> = {}): SignedDecision {
  const digest = String(db.get('approval_requests', approvalId)['approval_digest'])
  return signDecision(key, digest, { decision: 'approve', approver: 'channel:page', responder: 'Ann', decided_at: Date.now(), reason: null, channel: 'page', ...more })
}

/** Writes the decision into the row and lets the turn go on. */
function approved(db: Attacker, asked: { approval_id: string; turn_id: string }, decided: SignedDecision, columns: Row = {}): void {
  db.set('approval_requests', asked.approval_id, { status: 'approved', decided: JSON.stringify(decided), decided_by: decided.approver, decided_at: decided.decided_at, ...columns })
  db.run(`UPDATE calls SET status = 'allowed', result = NULL, settled_at = NULL WHERE turn_id = ?`, asked.turn_id)
  db.set('turns', asked.turn_id, { status: 'queued', park: null, wake_at: null, lease_owner: null })
}

async function refusedAtStart({ place }: PagePlace, turnId: string, found: RegExp): Promise<void> {
  await settled(place)
  expect(place.functions.sent).toEqual([])
  expect(await place.turn(turnId)).toMatchObject({ calls: [{ status: 'denied', reason: 'approval_invalid' }] })
  expect(tamperingFound(place).join('\n')).toMatch(found)
}

it('[page.signed] [attacker.forged-approval] a decision of the page that another key signed releases nothing', async () => {
  const scene = await openPagePlace()
  const asked = await scene.held()
  attack(scene.place, (db) => { approved(db, asked, byName(db, asked.approval_id, stranger.privateKey)) })
  await refusedAtStart(scene, asked.turn_id, /The signature does not verify/)
})

it('[page.signed] nor one of an approver who answers for the page, or of the page that answers for an approver', async () => {
  for (const change of [{ key: 'alice', approver: 'channel:page' }, { key: 'page', approver: 'alice' }]) {
    const scene = await openPagePlace()
    const asked = await scene.held()
    const key = change.key === 'alice' ? scene.place.key : scene.pageKey
    attack(scene.place, (db) => { approved(db, asked, byName(db, asked.approval_id, key, { approver: change.approver })) })
    await refusedAtStart(scene, asked.turn_id, /The signature does not verify/)
  }
})

it('[page.signed] nor one under a key that stands in the database alone', async () => {
  const scene = await openPagePlace()
  const asked = await scene.held()
  attack(scene.place, (db) => {
    db.run('CREATE TABLE channels_page (name TEXT, public_key TEXT, roles TEXT, active INTEGER)')
    db.insert('channels_page', { name: 'page', public_key: strangerKey, roles: '["approver"]', active: 1 })
    approved(db, asked, { ...byName(db, asked.approval_id, stranger.privateKey), public_key: strangerKey } as SignedDecision)
  })
  await refusedAtStart(scene, asked.turn_id, /The signature does not verify/)
})

it('[page.signed] [attacker.replayed-approval] a decision that the page really signed releases no other call', async () => {
  const scene = await openPagePlace()
  const first = await scene.held('shop::ship')
  await scene.answer(first.approval_id)
  await scene.place.turn(first.turn_id)
  expect(scene.place.functions.count('shop::ship')).toBe(1)
  const second = await scene.held('shop::ship')
  attack(scene.place, (db) => {
    const { decided, approval_digest, created_at, expires_at } = db.get('approval_requests', first.approval_id) as Record<string, string>
    approved(db, second, JSON.parse(decided!) as SignedDecision, { approval_digest: approval_digest!, created_at: created_at!, expires_at: expires_at! })
  })
  await settled(scene.place)
  expect(scene.place.functions.count('shop::ship')).toBe(1)
  expect(tamperingFound(scene.place).join('\n')).toMatch(/not the one that was asked for/)
})

it('[page.assurance] [authority.verified-at-start] on a server a high-risk call is not released by a name, though the page itself signed', async () => {
  const scene = await openPagePlace({ profile: 'server' })
  const asked = await scene.held()
  attack(scene.place, (db) => { approved(db, asked, byName(db, asked.approval_id, scene.pageKey), { assurance: 'channel-asserted' }) })
  await refusedAtStart(scene, asked.turn_id, /a name does not suffice/)
})

it('[page.assurance] [authority.verified-at-start] nor once the page was taken out of the configuration', async () => {
  const scene = await openPagePlace()
  const asked = await scene.held()
  scene.change(/channels: .*\n/, '')
  attack(scene.place, (db) => { approved(db, asked, byName(db, asked.approval_id, scene.pageKey)) })
  await refusedAtStart(scene, asked.turn_id, /channel:page is not an approver/)
})

it('[page.signed] nor by a rejection that was made an approval, or under another name', async () => {
  for (const change of [{ decision: 'approve' as const, reason: null }, { responder: 'Bob' }]) {
    const scene = await openPagePlace()
    const asked = await scene.held()
    attack(scene.place, (db) => {
      const really = byName(db, asked.approval_id, scene.pageKey, 'responder' in change ? {} : { decision: 'reject', reason: 'no' })
      approved(db, asked, { ...really, ...change })
    })
    await refusedAtStart(scene, asked.turn_id, /The signature does not verify/)
  }
})

it('[page.shown-is-signed] an approval that is moved to another call after it was shown is not signed for that one', async () => {
  const scene = await openPagePlace()
  const [harmless, wanted] = [await scene.held('shop::ship', { order: 'A-1' }), await scene.held('shop::refund', { order: 'A-1', amount: 9_999 })]
  const { approval_digest } = await scene.open(harmless.approval_id)
  const { deployment, functions } = scene.place.harness.authority()
  attack(scene.place, (db) => {
    const row = db.get('approval_requests', harmless.approval_id)
    const moved = {
      approval_id: harmless.approval_id, call_id: wanted.function_call_id, turn_id: wanted.turn_id, expires_at: Number(row['expires_at']),
      function_digest: functionDigest(functions.get('shop::refund')!, { order: 'A-1', amount: 9_999 }),
    }
    const { approval_id: _same, ...columns } = moved
    db.set('approval_requests', harmless.approval_id, { ...columns, function_id: 'shop::refund', approval_digest: approvalDigest(deployment, moved) })
    db.set('calls', wanted.function_call_id, { approval_id: harmless.approval_id })
  })
  await expect(scene.answer(harmless.approval_id, { approval_digest })).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining('not what was shown') as string })
  await settled(scene.place)
  expect(scene.place.functions.sent).toEqual([])
})

it('an approval whose row names another function than its call is not shown at all', async () => {
  const scene = await openPagePlace()
  const asked = await scene.held()
  attack(scene.place, (db) => { db.set('approval_requests', asked.approval_id, { function_id: 'shop::ship' }) })
  await expect(scene.open(asked.approval_id)).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining('altered') as string })
  await expect(scene.answer(asked.approval_id)).rejects.toMatchObject({ code: 'conflict' })
})
