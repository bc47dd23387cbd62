/* What the operations share: what they work with, looking again when somebody was quicker, and waiting. */
import type { KeyObject } from 'node:crypto'
import type { AuditReport } from './audit/report'
import type { Engine } from './engine/engine'
import { isHarnessError } from './errors'
import { stateOf } from './harness-views'
import type { TurnRow } from './turn/turn'

/** What answers on the page are signed with; outside the database. */
export interface DecidingKeys {
  /** As configuration names it: SPKI DER in base64. */
  readonly pagePublicKey: string
  pageKey(): KeyObject
  /** Whether the approver of this name has a key file here. */
  hasKey(approver: string): Promise<boolean>
  /** Counts wrong tries: see core/unlock.ts. */
  unlock(approver: string, passphrase: string): Promise<KeyObject>
}

/** What the operations need beyond the engine. */
export interface HarnessParts {
  readonly engine: Engine
  readonly deciding: DecidingKeys
  /** One sentence on who runs the turns. */
  workerText(): Promise<string>
  verifyAudit(): Promise<AuditReport>
  /** How a person decides, with the command to type. */
  howToDecide(approvalId: string | null): string
}

/**
 * Runs `attempt` until nobody was in the way: again after every `conflict`, which the store throws when a row moved under it, at most so
 * many times. A conflict that trying again cannot mend says `final` in its data, and is thrown at once, as every other error is.
 */
export async function untilUndisturbed<T>(mostTries: number, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await attempt()
    } catch (error) {
      if (!isHarnessError(error) || error.code !== 'conflict' || error.data['final'] === true || tries >= mostTries) throw error
    }
  }
}

/** Waits until the turn is held or over, at most so many seconds; the end of the waiting never touches the turn. */
export async function waitWhileWorking(turn: TurnRow, seconds: number, engine: Engine, signal: AbortSignal | undefined): Promise<TurnRow> {
  const until = performance.now() + seconds * 1_000
  let now = turn
  while (stateOf(now) === 'working' && performance.now() < until && signal?.aborted !== true) {
    await hintOrDelay(engine, Math.min(250, until - performance.now()))
    now = (await engine.store.findTurn(turn.turn_id)) ?? now
  }
  return now
}

function hintOrDelay(engine: Engine, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      unsubscribe()
      resolve()
    }
    const timer = setTimeout(done, Math.max(1, ms))
    const unsubscribe = engine.store.onHint(done)
  })
}
