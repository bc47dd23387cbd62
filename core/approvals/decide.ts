/*
 * Who may decide, and whether an answer holds. Used twice: when a decision is taken, and again when the call starts, then from
 * configuration and the call itself, whatever the rows say.
 */
import { createPublicKey, sign, verify, type KeyObject } from 'node:crypto'
import { approvalDigest, signedBytes, type Approval, type SignedDecision } from './approval'

/** A person who may decide, as configuration names them. */
export interface Approver {
  readonly name: string
  readonly roles: readonly string[]
  /** Ed25519 public key, SPKI DER in base64. */
  readonly public_key: string
  readonly active: boolean
}

/** What the call really is now, computed from configuration and its arguments. */
export interface DecisionSubject {
  readonly deployment: string
  readonly approvers: readonly Approver[]
  /** From the function's entry, not from the row. */
  readonly approver_roles: readonly string[]
  readonly function_digest: string
  /** With four eyes on, the owner's own approver name may not decide. Null when off. */
  readonly excluded: string | null
}

export type Holds = { readonly holds: true } | { readonly holds: false; readonly why: string }

const no = (why: string): Holds => ({ holds: false, why })

/** Whether this signed decision is a valid answer to this approval about this call. Never throws. */
export function decisionHolds(approval: Approval, decision: SignedDecision | null, subject: DecisionSubject): Holds {
  if (decision === null) return no('There is no signed decision.')
  if (approval.function_digest !== subject.function_digest) return no('The function, its definition or its arguments changed since the approval was asked for.')
  if (approval.approval_digest !== approvalDigest(subject.deployment, approval)) return no('The approval is not the one that was asked for.')
  const approver = subject.approvers.find((candidate) => candidate.name === decision.approver)
  if (approver === undefined || !approver.active) return no(`${decision.approver} is not an approver in the configuration.`)
  if (decision.approver === subject.excluded) return no('Four eyes: whoever asked may not decide.')
  if (!subject.approver_roles.some((role) => approver.roles.includes(role))) {
    return no(`${decision.approver} has none of the roles that may decide: ${subject.approver_roles.join(', ')}.`)
  }
  if (decision.decided_at > approval.expires_at) return no('The decision came after the approval had expired.')
  if (decision.decided_at < approval.created_at) return no('The decision is older than the question.')
  return signatureHolds(approval.approval_digest, decision, approver.public_key) ? { holds: true } : no('The signature does not verify.')
}

function signatureHolds(digest: string, decision: SignedDecision, publicKey: string): boolean {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
    return verify(null, signedBytes(digest, decision), key, Buffer.from(decision.signature, 'base64'))
  } catch {
    return false // a key or signature that cannot be read verifies nothing
  }
}

/** Signs a decision with an unlocked key. */
export function signDecision(key: KeyObject, digest: string, decision: Omit<SignedDecision, 'signature'>): SignedDecision {
  return { ...decision, signature: sign(null, signedBytes(digest, decision), key).toString('base64') }
}
