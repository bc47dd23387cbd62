/*
 * A question to a person, and the two digests that bind an answer to it. The function digest says *what* would be done; the approval
 * digest says *which* question about it, and is what gets signed.
 */
import { digestOf, type Json } from '../digest'
import type { Assurance, FunctionEntry } from '../policy/policy'

export type ApprovalStatus = 'pending' | 'approved' | 'rejected' | 'expired' | 'cancelled'
export type Decision = 'approve' | 'reject'

/** Where an answer came from. */
export type Channel = 'command_line' | 'page'

/** Larger arguments are not shown whole on the page, and what is not shown whole is not approved there. */
export const pageShowsBytes = 64 * 1024

/** A signed answer. Worth nothing until `decide.ts` has verified it against configuration. */
export interface SignedDecision {
  readonly decision: Decision
  /** Name of the approver in configuration; `channel:page` where the page signed for somebody who gave a name. */
  readonly approver: string
  /** The name that was given on the page; nobody verified it. Absent, as null: the approver answered. */
  readonly responder?: string | null
  readonly decided_at: number
  readonly reason: string | null
  readonly channel: Channel
  /** Ed25519 over {@link signedBytes}, base64. */
  readonly signature: string
}

export interface Approval {
  readonly approval_id: string
  readonly execution_id: string
  readonly session_id: string
  readonly turn_id: string
  readonly call_id: string
  readonly owner: string
  readonly function_id: string
  readonly function_digest: string
  readonly approval_digest: string
  readonly assurance: Assurance
  readonly approver_roles: readonly string[]
  readonly status: ApprovalStatus
  readonly created_at: number
  readonly expires_at: number
  readonly decided: SignedDecision | null
}

/** SHA-256 over how a function is reached and what it promises: any change of it needs a new approval. */
export function definitionDigest(entry: FunctionEntry): string {
  const known = definitionDigests.get(entry)
  if (known !== undefined) return known
  const { id, schema, target, risk, side_effects, idempotent, unattended } = entry
  const limits = unattended.length === 0 ? {} : { unattended }
  const digest = digestOf('definition', { id, schema, target, risk, side_effects, idempotent, ...limits })
  definitionDigests.set(entry, digest)
  return digest
}

/** Asked for at each judging; an entry never changes, a reload makes new ones. */
const definitionDigests = new WeakMap<FunctionEntry, string>()

/** What would be done: function, definition and canonical arguments. Equal digests mean equal deeds. */
export function functionDigest(entry: FunctionEntry, args: Json): string {
  return digestOf('function', { definition: definitionDigest(entry), arguments: args })
}

/** Which question: the function digest in this deployment, approval, call and turn, until this moment. */
export function approvalDigest(deployment: string, approval: Pick<Approval, 'approval_id' | 'call_id' | 'turn_id' | 'function_digest' | 'expires_at'>): string {
  const { approval_id, call_id, turn_id, function_digest, expires_at } = approval
  return digestOf('approval', { deployment, approval_id, call_id, turn_id, function_digest, expires_at })
}

/** The exact bytes an approver signs. */
export function signedBytes(digest: string, decision: Omit<SignedDecision, 'signature'>): Buffer {
  const { approver, responder, channel, decided_at, reason } = decision
  // a responder that is null or absent is left out, so that decisions from before there was one still verify
  const given = responder === null || responder === undefined ? {} : { responder }
  return Buffer.from(digestOf('decision', { approval_digest: digest, decision: decision.decision, approver, ...given, channel, decided_at, reason }))
}

/** What the page shows of the arguments, and how large that is. */
export function shownArguments(args: Json): { readonly text: string; readonly fits: boolean } {
  const text = JSON.stringify(args, null, 2)
  return { text, fits: Buffer.byteLength(text) <= pageShowsBytes }
}
