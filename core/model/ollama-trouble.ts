/* What can go wrong between us and Ollama, as one shape of error, so that nobody has to guess from the wording of somebody else's. */

/**
 * - `aborted` our own signal · `not_local` the address leaves the local network · `no_connection` nobody there (`code`) · `not_http` what is there
 *   speaks something else (`code`) · `first_byte`, `idle` our time limits · `redirect` refused (`text`: the origin it pointed to)
 * - `status` an error answer (`status`, `text`: its body) · `error_line` an error inside the stream (`text`) · `bad_line`, `bad_answer` unreadable
 * - `cut` the connection was lost · `no_done` the stream ended without its end · `too_large`
 * - `remote_model` the server said, with a chunk, that the model is not local
 */
export type TroubleKind =
  | 'aborted' | 'not_local' | 'no_connection' | 'not_http' | 'first_byte' | 'idle' | 'redirect' | 'status' | 'error_line' | 'bad_line'
  | 'bad_answer' | 'cut' | 'no_done' | 'too_large' | 'remote_model'

export interface CallTrouble extends Error {
  readonly trouble: TroubleKind
  readonly status: number | null
  /** An error code of the system, e.g. `ECONNREFUSED`; empty when there is none. */
  readonly code: string
  /** What the server said, as it said it: not safe to show. */
  readonly text: string
}

export function callTrouble(trouble: TroubleKind, facts: { status?: number; code?: string; text?: string } = {}): CallTrouble {
  return Object.assign(new Error(`ollama call: ${trouble}`), {
    trouble, status: facts.status ?? null, code: facts.code ?? '', text: facts.text ?? '',
  })
}

export function isCallTrouble(error: unknown): error is CallTrouble {
  return error instanceof Error && typeof (error as Partial<CallTrouble>).trouble === 'string'
}
