/*
 * Waiting for a turn, for those who may stop waiting at any moment: what they stop is the waiting, never the turn. Looks again and again,
 * because who runs the turn may be another process.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Caller, OpenHarness, TurnView } from '../core/index'

export interface Waiting {
  readonly seconds: number
  /** Stop when a person must decide, rather than wait for the decision too. */
  readonly untilHeld: boolean
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined
  /** Called with the first look, with every change, and now and then between. */
  readonly onLook?: (view: TurnView, changed: boolean) => void
}

/** One look of ours lasts at most so long, so that changes inside a turn are seen too. */
const lookSeconds = 1
const heldPauseMs = 250

/** The turn as it is when it is over, or when the waiting is; null when there is no such turn for this caller. */
export async function waitForTurn(harness: Pick<OpenHarness, 'status'>, turnId: string, caller: Caller, waiting: Waiting): Promise<TurnView | null> {
  const { seconds, untilHeld, signal, onLook } = waiting
  const end = performance.now() + seconds * 1000
  let seen = ''
  for (let first = true; ; first = false) {
    const left = Math.max(0, end - performance.now())
    // a status that waits comes back early when the turn is held or over
    const view = await harness.status({ turn_id: turnId, wait_seconds: first ? 0 : Math.min(lookSeconds, left / 1000) }, caller, signal)
    if (view === null) return null
    const look = JSON.stringify([view.state, view.step, view.calls.map((call) => call.status), view.approvals.map((approval) => approval.status)])
    onLook?.(view, look !== seen)
    seen = look
    if (isOver(view) || (untilHeld && view.state === 'held') || left <= 0 || signal?.aborted === true) return view
    if (view.state === 'held') await sleep(Math.min(heldPauseMs, left), undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
  }
}

export function isOver(view: Pick<TurnView, 'state'>): boolean {
  return view.state === 'completed' || view.state === 'failed' || view.state === 'cancelled'
}

/** Who runs turns is known a moment after opening; waits for that, not for long. */
export async function workerIsKnown(harness: Pick<OpenHarness, 'workerState'>): Promise<void> {
  const { text } = harness.workerState()
  for (let tries = 0; tries < 40 && harness.workerState().state === 'standing_by' && harness.workerState().text === text; tries += 1) await sleep(25)
}
