/* What the suites on awaits share: a place whose callers may await, and a host of workflows. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Caller } from '../../core/identity/principal'
import type { OutputOf } from '../../core/protocol/operations'
import { look, type Row } from './attacker'
import { openPlace, shopConfig, type Place, type PlaceOptions } from './place'
import { until } from './until'
import { startWaitingHost, type WaitingHost } from './waiting-host'

export const awaitConfig = (publicKey: string): string => shopConfig(publicKey).replace('"identity:read"', '"identity:read", awaits')

export interface AwaitScene {
  place: Place
  readonly host: WaitingHost
  /** May be called back below the host's base only. */
  caller: Caller
}

export async function awaitScene(options: PlaceOptions = {}): Promise<AwaitScene> {
  const [place, host] = await Promise.all([openPlace({ config: awaitConfig, ...options }), startWaitingHost()])
  return { place, host, caller: { ...place.caller, callbacks: [host.base] } }
}

export async function restart(scene: AwaitScene, options: PlaceOptions = {}): Promise<void> {
  scene.place = await scene.place.reopen(options)
  scene.caller = { ...scene.place.caller, callbacks: [scene.host.base] }
}

let number = 0
/** Deterministic for a workflow, as a node makes them; here each its own. */
export const newAwaitId = (): string => `await_${String((number += 1)).padStart(12, '0')}`

export type Answer = OutputOf<'await'>

/** A refund that waits for a person. */
export async function heldTurn(scene: AwaitScene): Promise<{ turn_id: string; session_id: string; approval_id: string }> {
  const asked = await scene.place.run('shop::refund', { order: 'A-1', amount: 20 })
  return { turn_id: asked.turn_id, session_id: asked.session_id, approval_id: asked.approvals[0]!.approval_id }
}

/** An execution of the host that waits for these turns and goes on when the harness says so. */
export async function waitingExecution(
  scene: AwaitScene, execution: string, turns: readonly string[], more: { until?: 'ended'; deadline?: number; state?: 'running' | 'waiting' } = {},
): Promise<{ await_id: string; first: Answer; ask: () => Promise<Answer> }> {
  const { state = 'waiting', ...options } = more
  const await_id = newAwaitId()
  const ask = (): Promise<Answer> => scene.place.harness.await({ await_id, turn_ids: [...turns] }, scene.caller)
  scene.host.asks(execution, async () => (await ask()).status)
  scene.host.set(execution, state)
  const first = await scene.place.harness.await({ await_id, turn_ids: [...turns], callback: { url: scene.host.resumeUrl(execution) }, ...options }, scene.caller)
  return { await_id, first, ask }
}

export const rowOf = (scene: AwaitScene, awaitId: string): Row => look(scene.place, (db) => db.row('SELECT * FROM awaits WHERE await_id = ?', awaitId))

/** Long enough for what must not come. */
export const quiet = (): Promise<void> => wait(250)

export const statusIs = (scene: AwaitScene, awaitId: string, status: string): Promise<void> =>
  until(() => rowOf(scene, awaitId)['status'] === status)
