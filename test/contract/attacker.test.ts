/*
 * The attacker of design D5: one who may write the database, drop its triggers and recompute what is hashed there, but not the configuration,
 * the keys, the program or its memory. He loses: none of what he does gets a call sent. Each strike is made under a working worker, and
 * again while nothing runs. What becomes of the record of the audit itself is another suite.
 */
import { generateKeyPairSync } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { approvalDigest, functionDigest, type SignedDecision } from '../../core/approvals/approval'
import { signDecision } from '../../core/approvals/decide'
import { canonical, digestOf } from '../../core/digest'
import type { Script } from '../../core/model/scripted'
import { contentDigest } from '../../core/turn/content'
import { attack, copyDatabase, look, settled, tamperingFound, type Attacker, type Row } from '../support/attacker'
import { closePlaces, openPlace, shopConfig, type Place, type PlaceOptions } from '../support/place'

afterEach(closePlaces)

const modes = [['while the worker runs'], ['while nothing runs']] as const
type Mode = (typeof modes)[number][0]

const args = { order: 'A-1', amount: 20 }
const refund = { function_id: 'shop::refund', arguments: args }
const ship = { function_id: 'shop::ship', arguments: args }
const config = (publicKey: string): string => shopConfig(publicKey, `
  shop::ship: { description: Ship an order., risk: low, schema: { type: object }, http: { url: "http://127.0.0.1:1/ship" } }
  shop::export: { description: Export all., risk: high, side_effects: read, schema: { type: object }, http: { url: "http://127.0.0.1:1/export" } }
`)

interface Scene {
  place: Place
  readonly options: PlaceOptions
  readonly turn: string
  readonly session: string
  /** The call that is in question, and its approval. */
  readonly call: string
  readonly approval: string
}

/** A conversation whose model asks for these calls, one a round; the last one is held now, those before it were approved and sent. */
async function heldAfter(calls: readonly { function_id: string; arguments: typeof args }[], more: PlaceOptions = {}): Promise<Scene> {
  const script: Script = [...calls.map((call) => ({ calls: [call] })), { text: 'Done.' }]
  const options = { script, config, ...more }
  const place = await openPlace(options)
  let turn = await place.say('Please do it.')
  for (const _ of calls.slice(1)) {
    await place.decide(turn.approvals.find((approval) => approval.status === 'pending')!.approval_id, 'approve')
    turn = await place.turn(turn.turn_id)
  }
  const approval = turn.approvals.find((candidate) => candidate.status === 'pending')!
  return { place, options, turn: turn.turn_id, session: turn.session_id, call: approval.function_call_id, approval: approval.approval_id }
}

const held = (more: PlaceOptions = {}): Promise<Scene> => heldAfter([refund], more)

/** One call without a model, approved and sent. */
async function done(functionId = 'shop::refund'): Promise<Scene> {
  const options = { config }
  const place = await openPlace(options)
  const asked = await place.run(functionId, functionId === 'shop::note' ? { text: 'x' } : args)
  if (asked.approvals.length > 0) await place.decide(asked.approvals[0]!.approval_id, 'approve')
  expect(await place.turn(asked.turn_id)).toMatchObject({ state: 'completed' })
  return { place, options, turn: asked.turn_id, session: asked.session_id, call: asked.function_call_id, approval: asked.approvals[0]?.approval_id ?? '' }
}

async function reopen(scene: Scene): Promise<void> {
  const { folder, key, functions } = scene.place
  scene.place = await openPlace({ ...scene.options, folder, key, functions })
}

type Strike = (db: Attacker, scene: Scene) => void

/** Strikes and waits until nothing moves any more. */
async function strike(scene: Scene, mode: Mode, work: Strike, now?: () => number): Promise<void> {
  if (mode === 'while nothing runs') await scene.place.close()
  attack(scene.place, (db) => { work(db, scene) })
  if (mode === 'while nothing runs') await reopen(scene)
  await settled(scene.place, now)
}

/** Nothing is sent; the record says `found` (null: nothing was altered that it could see); and the place still works. */
async function getsNothingSent(scene: Scene, mode: Mode, work: Strike, found: RegExp | null, now?: () => number): Promise<void> {
  const before = scene.place.functions.sent.length
  await strike(scene, mode, work, now)
  expect(scene.place.functions.sent.slice(before).map((call) => call.entry.id)).toEqual([])
  if (found === null) expect(tamperingFound(scene.place)).toEqual([])
  else expect(tamperingFound(scene.place).join('\n')).toMatch(found)
  expect(await scene.place.run('shop::look_up', { order: 'A-1' })).toMatchObject({ state: 'completed' })
}

const wake: Strike = (db, { turn }) => {
  db.set('turns', turn, { status: 'queued', park: null, wake_at: null, finished_at: null, reason: null, detail: null, result: null, lease_owner: null })
}
const setCall = (columns: Row): Strike => (db, scene) => {
  db.set('calls', scene.call, { result: null, settled_at: null, ...columns })
  wake(db, scene)
}
const nextEpoch = (db: Attacker, { turn }: Scene): number => Number(db.get('turns', turn)['lease_epoch']) + 1

/** The approval's row says approved by this decision, and its call says allowed. */
function approved(db: Attacker, scene: Scene, decided: SignedDecision | string | null, columns: Row = {}): void {
  const text = typeof decided === 'string' || decided === null ? decided : JSON.stringify(decided)
  db.set('approval_requests', scene.approval, { status: 'approved', decided: text, decided_by: 'alice', decided_at: Date.now(), ...columns })
  setCall({ status: 'allowed' })(db, scene)
}

function signed(scene: Scene, digest: string, more: Partial<SignedDecision> = {}, key = scene.place.key): SignedDecision {
  return signDecision(key, digest, { decision: 'approve', approver: 'alice', decided_at: Date.now(), reason: null, channel: 'command_line', ...more })
}
/** What alice really signed, and the attacker somehow got hold of. */
const really = (db: Attacker, scene: Scene, more: Partial<SignedDecision> = {}): SignedDecision =>
  signed(scene, String(db.get('approval_requests', scene.approval)['approval_digest']), more)

const stranger = generateKeyPairSync('ed25519')
const strangerKey = stranger.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')

type Case = readonly [title: string, work: Strike, found: RegExp | null]

// ------------------------------------------------------------------------------------------------ statuses

const statuses: readonly Case[] = [
  ['held to allowed', setCall({ status: 'allowed' }), /Nobody approved it/],
  ['held to allowed, its approval taken off', setCall({ status: 'allowed', approval_id: null }), null],
  ['held to allowed, under the digest of something else', setCall({ status: 'allowed', function_digest: 'f'.repeat(64) }), /Nobody approved it/],
  ['held to proposed', setCall({ status: 'proposed' }), null],
  ['held to proposed, its approval taken off', setCall({ status: 'proposed', approval_id: null }), null],
  ['held to allowed in a turn that seems to run', (db, scene) => {
    setCall({ status: 'allowed' })(db, scene)
    db.set('turns', scene.turn, { status: 'running', lease_owner: 'w_gone', lease_epoch: 40 })
  }, /Nobody approved it/],
  ['held to started, under the epoch to come', (db, scene) => {
    setCall({ status: 'started', started_epoch: nextEpoch(db, scene) })(db, scene)
  }, /Nobody approved it/],
  ['held to started, under the epoch to come, its approval taken off', (db, scene) => {
    setCall({ status: 'started', approval_id: null, started_epoch: nextEpoch(db, scene) })(db, scene)
  }, null],
  ['held to started, under an epoch that is over', setCall({ status: 'started', started_epoch: 1 }), null],
  ['held to a status that does not exist', setCall({ status: 'granted' }), /./],
  ['held to allowed, with an approval that does not exist', setCall({ status: 'allowed', approval_id: `a_${'0'.repeat(32)}` }), /no such approval/],
  ['approval to approved, unsigned', (db, scene) => {
    db.set('approval_requests', scene.approval, { status: 'approved' })
    wake(db, scene)
  }, /Nobody approved it/],
  ['approval to approved, call to allowed', (db, scene) => { approved(db, scene, null) }, /Nobody approved it/],
]

describe.each(modes)('%s', (mode) => {
  it.each(statuses)('[attacker.status-set] %s gets nothing sent', async (_title, work, found) => {
    await getsNothingSent(await held(), mode, work, found)
  })
})

// ------------------------------------------------------------------------------------------------ approvals

const forged: readonly Case[] = [
  ['random bytes', (db, scene) => { approved(db, scene, { ...really(db, scene), signature: Buffer.alloc(64, 7).toString('base64') }) }, /does not verify/],
  ['no bytes', (db, scene) => { approved(db, scene, { ...really(db, scene), signature: '' }) }, /does not verify/],
  ['something that is no decision', (db, scene) => { approved(db, scene, 'yes') }, /./],
  ['an empty decision', (db, scene) => { approved(db, scene, '{}') }, /./],
  ['the key of somebody else, under the name of alice', (db, scene) => {
    const digest = String(db.get('approval_requests', scene.approval)['approval_digest'])
    approved(db, scene, signed(scene, digest, {}, stranger.privateKey))
  }, /does not verify/],
  ['the key of somebody else, who is named, with his public key in the row', (db, scene) => {
    const digest = String(db.get('approval_requests', scene.approval)['approval_digest'])
    const decided = { ...signed(scene, digest, { approver: 'mallory' }, stranger.privateKey), public_key: strangerKey, roles: ['approver'] }
    approved(db, scene, decided, { approver_roles: '["mallory"]' })
  }, /mallory is not an approver/],
  ['alice, but dated anew', (db, scene) => {
    const decided = really(db, scene)
    approved(db, scene, { ...decided, decided_at: decided.decided_at + 1 })
  }, /does not verify/],
  ['alice, but under another name', (db, scene) => { approved(db, scene, { ...really(db, scene), approver: 'local' }) }, /not an approver/],
  ['alice, who rejected', (db, scene) => {
    approved(db, scene, { ...really(db, scene, { decision: 'reject', reason: 'no' }), decision: 'approve' })
  }, /does not verify/],
  ['alice, who rejected, and the row says so', (db, scene) => {
    approved(db, scene, really(db, scene, { decision: 'reject', reason: 'no' }))
  }, /Nobody approved it/],
  ['alice, over a question whose deadline was moved', (db, scene) => {
    approved(db, scene, really(db, scene), { expires_at: Date.now() + 9e9 })
  }, /not the one that was asked for/],
  ['alice, before the question was there', (db, scene) => {
    approved(db, scene, really(db, scene, { decided_at: 1 }))
  }, /older than the question/],
]

/** Two equal refunds in one turn: the first approved and sent, the second held. */
const twice = (): Promise<Scene> => heldAfter([refund, refund])
const firstApproval = (db: Attacker, { turn }: Scene): Row => db.row(`SELECT * FROM approval_requests WHERE turn_id = ? AND status = 'approved'`, turn)

const replayed: readonly Case[] = [
  ['its call points to the approval of an earlier, equal call', (db, scene) => {
    setCall({ status: 'allowed', approval_id: firstApproval(db, scene)['approval_id']! })(db, scene)
  }, /about another call/],
  ['it got the decision of an earlier, equal call', (db, scene) => { approved(db, scene, String(firstApproval(db, scene)['decided'])) }, /./],
  ['the approval of an earlier, equal call was moved to it', (db, scene) => {
    const first = firstApproval(db, scene)
    db.set('approval_requests', String(first['approval_id']), { call_id: scene.call })
    setCall({ status: 'allowed', approval_id: first['approval_id']! })(db, scene)
  }, /not the one that was asked for/],
  ['the approval of an earlier, equal call was put in its place', (db, scene) => {
    const first = firstApproval(db, scene)
    db.run('DELETE FROM approval_requests WHERE approval_id = ?', scene.approval)
    db.insert('approval_requests', { ...first, approval_id: scene.approval, call_id: scene.call })
    setCall({ status: 'allowed' })(db, scene)
  }, /not the one that was asked for/],
  ['it got digest and decision of an earlier, equal call', (db, scene) => {
    const { decided, approval_digest, created_at, expires_at } = firstApproval(db, scene) as Record<string, string>
    approved(db, scene, decided!, { approval_digest: approval_digest!, created_at: created_at!, expires_at: expires_at! })
  }, /not the one that was asked for/],
]

describe.each(modes)('%s', (mode) => {
  it.each(forged)('[attacker.forged-approval] an approval signed by %s gets nothing sent', async (_title, work, found) => {
    await getsNothingSent(await held(), mode, work, found)
  })

  it.each(replayed)('[attacker.replayed-approval] an approval gets one call sent: not when %s', async (_title, work, found) => {
    await getsNothingSent(await twice(), mode, work, found)
  })

  it('[attacker.replayed-approval] an approval of another turn, moved whole, gets nothing sent', async () => {
    const scene = await held()
    const other = await scene.place.run('shop::refund', args)
    await scene.place.decide(other.approvals[0]!.approval_id, 'approve')
    await scene.place.turn(other.turn_id)
    await getsNothingSent(scene, mode, (db) => {
      const { turn_id, session_id, execution_id, call_id } = db.get('approval_requests', scene.approval) as Record<string, string>
      db.set('approval_requests', other.approvals[0]!.approval_id, { turn_id: turn_id!, session_id: session_id!, execution_id: execution_id!, call_id: call_id! })
      setCall({ status: 'allowed', approval_id: other.approvals[0]!.approval_id })(db, scene)
    }, /not the one that was asked for/)
  })

  it('[attacker.forged-approval] an answer that came too late gets nothing sent, whatever its deadline is made to say', async () => {
    let offset = 0
    const clock = { now: () => Date.now() + offset, monotonic: () => performance.now() }
    const now = clock.now
    const scene = await held({ clock })
    offset = 25 * 3_600_000
    await settled(scene.place, now)
    expect(look(scene.place, (reader) => reader.get('calls', scene.call))).toMatchObject({ status: 'expired' })
    await getsNothingSent(scene, mode, (db) => {
      approved(db, scene, really(db, scene, { decided_at: now() }), { expires_at: now() + 3_600_000 })
    }, /not the one that was asked for/, now)
    await getsNothingSent(scene, mode, (db) => {
      const late = really(db, scene, { decided_at: now() })
      const row = { ...db.get('approval_requests', scene.approval), expires_at: now() + 3_600_000 } as unknown as Parameters<typeof approvalDigest>[1]
      approved(db, scene, late, { expires_at: row.expires_at, approval_digest: approvalDigest(scene.place.harness.authority().deployment, row) })
    }, /does not verify/, now)
  })

  it('[attacker.forged-approval] a decision put into the inbox by hand gets nothing sent', async () => {
    const scene = await held()
    await getsNothingSent(scene, mode, (db) => {
      const posted = Number(db.get('turns', scene.turn)['inbox_posted']) + 1
      db.insert('inbox', {
        inbox_id: `i_${'1'.repeat(32)}`, session_id: scene.session, turn_id: scene.turn, seq: posted, kind: 'decision', principal: 'approver:alice',
        approval_id: scene.approval, seal: '0'.repeat(64), posted_at: Date.now(),
      })
      db.set('turns', scene.turn, { inbox_posted: posted })
      db.set('approval_requests', scene.approval, { status: 'approved', decided: JSON.stringify({ ...really(db, scene), signature: 'AAAA' }) })
    }, /an inbox item .*Nobody|an inbox item [\s\S]*does not verify/)
  })
})

// ------------------------------------------------------------------------------------------------ sent once

/** A call that was sent and answered, set back. */
const rewinds: readonly (readonly [title: string, columns: (db: Attacker, scene: Scene) => Row])[] = [
  ['proposed', () => ({ status: 'proposed', approval_id: null })],
  ['held', () => ({ status: 'held' })],
  ['allowed', () => ({ status: 'allowed', started_epoch: null, attempts: 0 })],
  ['started, under the epoch to come', (db, scene) => ({ status: 'started', started_epoch: nextEpoch(db, scene) })],
  ['started, under an epoch that is over', () => ({ status: 'started', started_epoch: 1 })],
]

describe.each(modes)('%s', (mode) => {
  it.each(rewinds)('[attacker.replayed-approval] a refund that was sent and set back to %s is not sent again', async (title, columns) => {
    const scene = await done()
    const found = title === 'proposed' || title.endsWith('over') ? null : /was handed out before/
    await getsNothingSent(scene, mode, (db) => { setCall(columns(db, scene))(db, scene) }, found)
    expect(scene.place.functions.count('shop::refund')).toBe(1)
  })

  it.each(rewinds)('[write.at-most-once] a write that needed nobody, was sent and set back to %s is not sent again', async (title, columns) => {
    const scene = await done('shop::note')
    const found = title.endsWith('over') ? null : title === 'held' ? /./ : /was handed out before/
    await getsNothingSent(scene, mode, (db) => { setCall(columns(db, scene))(db, scene) }, title === 'held' ? null : found)
    expect(scene.place.functions.count('shop::note')).toBe(1)
  })

  it('[attacker.replayed-approval] a database set back to before its refund was sent does not send it again', async () => {
    const options = { config }
    const first = await openPlace(options)
    const asked = await first.run('shop::refund', args)
    await first.close()
    const second = await openPlace({ ...options, folder: first.folder, key: first.key, functions: first.functions, worker: false })
    await second.decide(asked.approvals[0]!.approval_id, 'approve')
    const older = copyDatabase(second)
    await second.close()
    const scene: Scene = { place: second, options, turn: asked.turn_id, session: asked.session_id, call: asked.function_call_id, approval: asked.approvals[0]!.approval_id }
    await reopen(scene)
    expect(await scene.place.turn(scene.turn)).toMatchObject({ state: 'completed' })
    expect(scene.place.functions.count('shop::refund')).toBe(1)

    if (mode === 'while the worker runs') older.restoreRows()
    else {
      await scene.place.close()
      older.restoreFile()
      await reopen(scene)
    }
    await settled(scene.place)
    expect(scene.place.functions.count('shop::refund')).toBe(1)
    expect(tamperingFound(scene.place).join()).toMatch(/was handed out before/)
    expect(await scene.place.turn(scene.turn)).toMatchObject({ state: 'cancelled', reason: 'denied' })
  })
})

// ------------------------------------------------------------------------------------------------ what was approved

/** Arguments that mean the same function with more money. */
const more = JSON.stringify({ order: 'A-1', amount: 2000 })
const contentOf = (db: Attacker, { call }: Scene): Row => db.get('contents', String(db.get('calls', call)['arguments']))
/** With the approval really signed by alice, over what she was asked. */
const afterSigning = (work: Strike): Strike => (db, scene) => {
  approved(db, scene, really(db, scene))
  work(db, scene)
}
const otherContent = (db: Attacker, text: string): string => {
  const content_id = `k_${'2'.repeat(32)}`
  db.insert('contents', { content_id, salt: 'aa', digest: contentDigest('aa', text), text, created_at: 1 })
  return content_id
}

const edited: readonly Case[] = [
  ['its text', (db, scene) => { db.set('contents', String(contentOf(db, scene)['content_id']), { text: more }) }, /does not carry its seal/],
  ['its text and digest', (db, scene) => {
    const { content_id, salt } = contentOf(db, scene) as Record<string, string>
    db.set('contents', content_id!, { text: more, digest: contentDigest(salt!, more) })
  }, /does not carry its seal/],
  ['its text, digest and salt', (db, scene) => {
    db.set('contents', String(contentOf(db, scene)['content_id']), { text: more, salt: 'bb', digest: contentDigest('bb', more) })
  }, /does not carry its seal/],
  ['a letter of its text, between salt and text', (db, scene) => {
    const { content_id, salt, text } = contentOf(db, scene) as Record<string, string>
    db.set('contents', content_id!, { salt: `${salt!}\0`, text: text! })
  }, /does not carry its seal/],
  ['the text it points to', (db, scene) => { db.set('calls', scene.call, { arguments: otherContent(db, more) }) }, /does not carry its seal/],
  ['the text it points to, to none at all', (db, scene) => { db.set('calls', scene.call, { arguments: `k_${'9'.repeat(32)}` }) }, /./],
  ['its text, to nothing', (db, scene) => { db.set('contents', String(contentOf(db, scene)['content_id']), { text: null }) }, null],
  ['its text, with every digest made to fit', (db, scene) => {
    const { content_id, salt } = contentOf(db, scene) as Record<string, string>
    db.set('contents', content_id!, { text: more, digest: contentDigest(salt!, more) })
    const { deployment, functions } = scene.place.harness.authority()
    const function_digest = functionDigest(functions.get('shop::refund')!, JSON.parse(more))
    const row = { ...db.get('approval_requests', scene.approval), function_digest } as unknown as Parameters<typeof approvalDigest>[1]
    db.set('approval_requests', scene.approval, { function_digest, approval_digest: approvalDigest(deployment, row) })
    db.set('calls', scene.call, { function_digest })
  }, /does not carry its seal/],
]

/** A shipment approved and sent in the same turn, with the same arguments; a refund held. */
const shippedThenHeld = (): Promise<Scene> => heldAfter([ship, refund])

const otherFunction: readonly Case[] = [
  ['its call points to it', (db, scene) => {
    setCall({ status: 'allowed', approval_id: firstApproval(db, scene)['approval_id']! })(db, scene)
  }, /about another call/],
  ['it was moved to the call', (db, scene) => {
    const { approval_id } = firstApproval(db, scene) as Record<string, string>
    db.set('approval_requests', approval_id!, { call_id: scene.call, function_id: 'shop::refund' })
    setCall({ status: 'allowed', approval_id: approval_id! })(db, scene)
  }, /function, its definition or its arguments changed/],
  ['it was moved to the call, digests and all', (db, scene) => {
    const { approval_id } = firstApproval(db, scene) as Record<string, string>
    const { function_digest, approval_digest } = db.get('approval_requests', scene.approval) as Record<string, string>
    db.set('approval_requests', approval_id!, { call_id: scene.call, function_id: 'shop::refund', function_digest: function_digest!, approval_digest: approval_digest! })
    setCall({ status: 'allowed', approval_id: approval_id! })(db, scene)
  }, /not the one that was asked for/],
  ['its decision was copied', (db, scene) => { approved(db, scene, String(firstApproval(db, scene)['decided'])) }, /./],
]

describe.each(modes)('%s', (mode) => {
  it.each(edited)('[attacker.edited-argument] a call approved, then changed in %s, is not sent', async (_title, work, found) => {
    await getsNothingSent(await held(), mode, afterSigning(work), found)
  })

  it.each(otherFunction)('[attacker.other-function] the approval of another function gets nothing sent when %s', async (_title, work, found) => {
    await getsNothingSent(await shippedThenHeld(), mode, work, found)
  })

  it('[attacker.other-function] a call approved, then turned into one of another function, is not sent', async () => {
    const scene = await heldAfter([ship])
    await getsNothingSent(scene, mode, afterSigning((db) => { db.set('calls', scene.call, { function_id: 'shop::refund' }) }), /does not carry its seal/)
  })

  it('[attacker.other-function] nor when call and approval are turned together, every digest made to fit', async () => {
    const scene = await heldAfter([ship])
    await getsNothingSent(scene, mode, (db) => {
      const { deployment, functions } = scene.place.harness.authority()
      const function_digest = functionDigest(functions.get('shop::refund')!, args)
      const decided = really(db, scene)
      const row = { ...db.get('approval_requests', scene.approval), function_digest } as unknown as Parameters<typeof approvalDigest>[1]
      approved(db, scene, decided, { function_id: 'shop::refund', function_digest, approval_digest: approvalDigest(deployment, row) })
      db.set('calls', scene.call, { function_id: 'shop::refund', function_digest })
    }, /does not carry its seal/)
  })
})

// ------------------------------------------------------------------------------------------------ what was refused

describe.each(modes)('%s', (mode) => {
  it('[attacker.status-set] a rejected call set to allowed is not sent, whatever its approval is made to say', async () => {
    const scene = await held()
    await scene.place.decide(scene.approval, 'reject')
    await scene.place.turn(scene.turn)
    await getsNothingSent(scene, mode, setCall({ status: 'allowed' }), /Nobody approved it/)
    await getsNothingSent(scene, mode, (db) => {
      const decided = JSON.parse(String(db.get('approval_requests', scene.approval)['decided'])) as SignedDecision
      approved(db, scene, { ...decided, decision: 'approve' })
    }, /does not verify/)
  })

  it.each([
    ['one that policy denies', 'shop::secret_drop', {}],
    ['one with bad arguments', 'shop::refund', { order: 'A-1' }],
    ['one that does not exist', 'shop::nothing', {}],
  ] as const)('[attacker.status-set] a denied call set to allowed is not sent: %s', async (_title, function_id, given) => {
    const place = await openPlace({ config })
    const turn = await place.run(function_id, given)
    expect(turn).toMatchObject({ state: 'cancelled', reason: 'denied' })
    const scene: Scene = { place, options: { config }, turn: turn.turn_id, session: turn.session_id, call: turn.function_call_id, approval: '' }
    await getsNothingSent(scene, mode, setCall({ status: 'allowed' }), null)
  })

  it.each([
    ['a mode that lets nothing through', { mode: 'plan' as const }],
    ['globs that let nothing through', { functions: { allow: [], deny: [] } }],
  ])('[authority.judged-at-start] what %s refused is not sent after the erasure of what was asked for', async (_title, given) => {
    const options = { config, script: [{ calls: [{ function_id: 'shop::note', arguments: { text: 'x' } }] }, { text: 'No.' }] }
    const place = await openPlace(options)
    const sent = await place.harness.send({ message: 'Note it.', options: given }, place.caller)
    const turn = await place.turn(sent.turn_id)
    expect(turn.calls).toMatchObject([{ status: 'denied' }])
    const scene: Scene = { place, options, turn: turn.turn_id, session: turn.session_id, call: turn.calls[0]!.function_call_id, approval: '' }
    await strike(scene, mode, (db) => {
      db.set('contents', String(db.get('turns', scene.turn)['spec']), { text: null })
      setCall({ status: 'allowed' })(db, scene)
    })
    expect(scene.place.functions.sent).toEqual([])
  })
})
