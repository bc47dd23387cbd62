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
