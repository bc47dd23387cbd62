/* One function call and its states. The table of moves is the only statement of what may follow what; the store repeats it in guards. */
import type { Mode, Reason } from '../policy/policy'
import type { Content } from './content'

/**
 * | status | what is true | who moves it on |
 * |---|---|---|
 * | proposed | asked for by the model or a caller | the engine judges it |
 * | denied | will never run: policy, or the turn ended first | – |
 * | held | waits for a person | a decision, the clock, the end of the turn |
 * | allowed | may start, if it is judged so again at that moment | the engine |
 * | started | a write was about to be sent; committed before it was | its outcome, or recovery |
 * | succeeded, failed | the function answered | – |
 * | interrupted | it was cut after it may have been sent: outcome unknown | – |
 * | rejected, expired | a person said no, or nobody answered in time | – |
 * | pending, timed_out | handed to somebody who answers later (deferred functions) | their answer, the clock |
 */
export const callStatuses = [
  'proposed', 'denied', 'held', 'allowed', 'started', 'succeeded', 'failed', 'interrupted', 'rejected', 'expired', 'pending', 'timed_out',
] as const
export type CallStatus = (typeof callStatuses)[number]

export const callMoves: Readonly<Record<CallStatus, readonly CallStatus[]>> = {
  proposed: ['denied', 'held', 'allowed'],
  // held again: the function was changed in configuration, and the question is asked anew
  held: ['allowed', 'held', 'rejected', 'expired', 'denied'],
  // a read is answered straight from allowed; denied and held when the second judging is stricter than the first
  allowed: ['started', 'succeeded', 'failed', 'denied', 'held'],
  // started again: an idempotent function under a new lease
  started: ['started', 'succeeded', 'failed', 'interrupted', 'pending'],
  pending: ['succeeded', 'failed', 'timed_out'],
  denied: [], succeeded: [], failed: [], interrupted: [], rejected: [], expired: [], timed_out: [],
}

/** A status put in by hand that does not exist goes nowhere. */
export function isSettled(status: CallStatus): boolean {
  return !Object.hasOwn(callMoves, status) || callMoves[status].length === 0
}

export interface Call {
  readonly call_id: string
  readonly turn_id: string
  /** The round that asked for it, from 1; 0 for a call given by a caller. */
  readonly step: number
  /** Its place among the calls of that round, from 0. */
  readonly ordinal: number
  /** As asked for; possibly of no function at all. */
  readonly function_id: string
  /** JSON text of the arguments. */
  readonly arguments: Content
  /** HMAC over the call's identity: a call put into the database by hand has none. */
  readonly seal: string
  readonly status: CallStatus
  /** Why it is where it is, as a code: a deny code, `stopped`, `policy`, … */
  readonly reason: string | null
  readonly reasons: readonly Reason[]
  /** Null until judged, and for functions that do not exist. */
  readonly function_digest: string | null
  readonly approval_id: string | null
  /** The lease epoch under which it was last started. */
  readonly started_epoch: number | null
  /** How often it was started. */
  readonly attempts: number
  readonly result: Content | null
  readonly proposed_at: number
  readonly started_at: number | null
  readonly settled_at: number | null
}

/** What the engine needs to know of a function to plan a call; from configuration at the moment of planning. */
export interface CallTraits {
  readonly side_effects: 'none' | 'read' | 'write'
  readonly idempotent: boolean
  /** From when it can be called; null when nobody is there to run it at the moment. Absent: always. */
  readonly live_at?: number | null
  /** Whether the function is still what a person was asked about. Absent: yes. */
  isCurrent?(call: Call): boolean
}

export type { Mode }
