/* The port to whatever runs a function. An answer, an error answer, a failure before anything was sent and a cut are four different things. */
import type { Json } from '../digest'
import type { FunctionEntry } from '../policy/policy'

export interface FunctionCall {
  /** Our `c_` id; sent along as the idempotency key. The same on every repetition. */
  readonly call_id: string
  readonly turn_id: string
  readonly session_id: string
  readonly entry: FunctionEntry
  readonly arguments: { readonly [key: string]: Json }
}

/**
 * - `answered`: the function said how it went; `is_error` is its own verdict.
 * - `not_sent`: nothing reached it (refused connection, bad address); it did not run.
 * - `not_live`: nobody is there to run it at the moment (a workflow that is not active), and that is certain; it did not run.
 * - `cut`: the request may have reached it, the answer did not come whole (time-out, lost connection, our stop): outcome unknown.
 */
export type FunctionOutcome =
  | { readonly kind: 'answered'; readonly value: Json; readonly is_error: boolean }
  | { readonly kind: 'not_sent'; readonly message: string }
  | { readonly kind: 'not_live'; readonly message: string }
  | { readonly kind: 'cut'; readonly message: string }

export interface FunctionSource {
  /**
   * Sends the call once.
   * Contract: never throws; sends at most one request and follows no redirect; settles within 250 ms after `signal` aborts; `message`
   * is safe to show; keeps at most 256 KiB of an answer (a longer one is cut with a note).
   */
  call(call: FunctionCall, signal: AbortSignal): Promise<FunctionOutcome>
}
