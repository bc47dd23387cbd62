/*
 * The one error class and the one table of codes. Outcomes (denied, rejected, expired, a failed function) are not errors: they are
 * statuses with a reason. Edges translate an error in one file each and never show a path, a stack or a secret.
 */

/** Whose fault an error is: the caller's, the operator's, the world's (a server that is down), or ours. */
export type Fault = 'caller' | 'operator' | 'world' | 'us'

interface CodeRow {
  readonly fault: Fault
  /** May the same request succeed later, unchanged? */
  readonly retry: boolean
  /** HTTP status for the HTTP edge. */
  readonly http: number
}

/** Every code that can leave the core. `stale_inbox` and `lease_lost` never do: the engine handles them. */
export const errorCodes = {
  invalid_input: { fault: 'caller', retry: false, http: 400 },
  unauthenticated: { fault: 'caller', retry: false, http: 401 },
  forbidden: { fault: 'caller', retry: false, http: 403 },
  not_found: { fault: 'caller', retry: false, http: 404 },
  conflict: { fault: 'caller', retry: false, http: 409 },
  approval_closed: { fault: 'caller', retry: false, http: 409 },
  approver_locked: { fault: 'caller', retry: true, http: 429 },
  wrong_passphrase: { fault: 'caller', retry: false, http: 403 },
  too_large: { fault: 'caller', retry: false, http: 413 },
  limit_reached: { fault: 'caller', retry: true, http: 429 },
  model_unavailable: { fault: 'world', retry: true, http: 503 },
  store_unavailable: { fault: 'world', retry: true, http: 503 },
  /** Only of a client: no harness answered at the address it was given. */
  harness_unreachable: { fault: 'world', retry: true, http: 503 },
  bad_config: { fault: 'operator', retry: false, http: 500 },
  schema_too_new: { fault: 'operator', retry: false, http: 500 },
  wrong_runtime: { fault: 'operator', retry: false, http: 500 },
  invariant_broken: { fault: 'us', retry: false, http: 500 },
  lease_lost: { fault: 'us', retry: false, http: 500 },
  stale_inbox: { fault: 'us', retry: true, http: 500 },
} as const satisfies Record<string, CodeRow>

export type ErrorCode = keyof typeof errorCodes

const brand = Symbol.for('n8n-nodes-agent-harness.error')

/**
 * An error with a code from {@link errorCodes}. The message says what happened, the ids, and what to do; it is safe to show to the
 * caller. `cause` is for the log only. Recognise it with {@link isHarnessError}: two copies of this package may be loaded at once.
 */
export class HarnessError extends Error {
  readonly code: ErrorCode
  readonly data: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: { data?: Record<string, unknown>; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'HarnessError'
    this.code = code
    this.data = options.data ?? {}
    Object.defineProperty(this, brand, { value: true })
  }

  get retry(): boolean {
    return errorCodes[this.code].retry
  }
}

export function isHarnessError(error: unknown): error is HarnessError {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[brand] === true
}

/** Turns anything thrown into a HarnessError; what we do not know is our own fault and keeps its cause for the log. */
export function toHarnessError(error: unknown): HarnessError {
  if (isHarnessError(error)) return error
  return new HarnessError('invariant_broken', 'An unexpected error happened; the log has the details.', { cause: error })
}

/** For the end of a `switch` over a union: the compiler proves it is never reached. */
export function unreachable(value: never): never {
  throw new HarnessError('invariant_broken', `Unexpected value ${JSON.stringify(value)}.`)
}
