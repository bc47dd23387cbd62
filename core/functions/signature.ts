/*
 * The signature on every HTTP request to a function, and its check for those who receive one. Made over what decides what happens, so
 * that neither the call id nor an argument can be exchanged on the way. Never compares in a time that tells where it differs.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

/** Names of the request headers; header names are case-insensitive. */
export const callHeaders = {
  idempotencyKey: 'Idempotency-Key',
  callId: 'Harness-Call-Id',
  timestamp: 'Harness-Timestamp',
  signature: 'Harness-Signature',
} as const

export interface SignedParts {
  readonly key: Buffer | string
  /** Upper case, e.g. `POST`. */
  readonly method: string
  /** Path with query as in the request line, e.g. `/refund?dry=1`. */
  readonly path: string
  readonly callId: string
  /** Milliseconds since 1970 UTC, decimal. */
  readonly timestamp: string
  /** The raw body as sent; empty when there is none. */
  readonly body: string | Uint8Array
}

/**
 * `v1=` and the lower-case hex of HMAC-SHA-256 under the key over these five, joined by one line feed each: method, path with query, call
 * id, timestamp, and the lower-case hex SHA-256 of the body.
 */
export function signatureOf(parts: SignedParts): string {
  const body = createHash('sha256').update(parts.body).digest('hex')
  const text = [parts.method, parts.path, parts.callId, parts.timestamp, body].join('\n')
  return `v1=${createHmac('sha256', parts.key).update(text).digest('hex')}`
}

export interface ReceivedRequest {
  readonly key: Buffer | string
  readonly method: string
  /** Path with query as it arrived, before any router changed it. */
  readonly path: string
  /** The raw body, before it is parsed. */
  readonly body: string | Uint8Array
  /** Looks a header up by its name, whatever its case. */
  readonly header: (name: string) => string | null | undefined
  /** Milliseconds since 1970 UTC. */
  readonly now: number
  /** How far the timestamp may be off in either direction, ms; 300,000 if not given. */
  readonly windowMs?: number
}

/** As {@link verifySignature}, for a receiver that has its key apart: the Function Trigger has the home's `callSigningKey`. */
export function verifyCall(request: Omit<ReceivedRequest, 'key'>, key: Buffer | string): SignatureVerdict {
  return verifySignature({ ...request, key })
}

export type SignatureVerdict = { readonly ok: true; readonly callId: string } | { readonly ok: false; readonly problem: string }

/**
 * For the receiver of a call: whether it comes from the holder of the key, unchanged and fresh. Inside the window the same request may
 * arrive again; a receiver that must not act twice remembers call ids. `problem` is one sentence without secrets. Never throws.
 */
export function verifySignature(request: ReceivedRequest): SignatureVerdict {
  const callId = request.header(callHeaders.callId) ?? ''
  const timestamp = request.header(callHeaders.timestamp) ?? ''
  const given = Buffer.from(request.header(callHeaders.signature) ?? '')
  if (callId === '' || timestamp === '' || given.length === 0) return { ok: false, problem: 'The request is not signed.' }
  const { key, method, path, body } = request
  const expected = Buffer.from(signatureOf({ key, method: method.toUpperCase(), path, callId, timestamp, body }))
  if (expected.length !== given.length || !timingSafeEqual(expected, given)) return { ok: false, problem: 'The signature does not fit the request.' }
  const isFresh = /^\d{1,15}$/.test(timestamp) && Math.abs(request.now - Number(timestamp)) <= (request.windowMs ?? 300_000)
  if (!isFresh) return { ok: false, problem: 'The request is too old, or the clocks differ too much.' }
  const idempotencyKey = request.header(callHeaders.idempotencyKey)
  if (idempotencyKey !== undefined && idempotencyKey !== null && idempotencyKey !== callId) {
    return { ok: false, problem: 'The idempotency key is not the call id.' }
  }
  return { ok: true, callId }
}
