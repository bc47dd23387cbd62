/*
 * Who may decide, and whether an answer holds. Used twice: when a decision is taken, and again when the call starts, then from
 * configuration and the call itself, whatever the rows say.
 */
import { createPublicKey, sign, verify, type KeyObject } from 'node:crypto'
import { suffices, type Assurance } from '../policy/policy'
import { approvalDigest, signedBytes, type Approval, type SignedDecision } from './approval'

/** A person who may decide, as configuration names them. */
export interface Approver {
  readonly name: string
  readonly roles: readonly string[]
  /** Ed25519 public key, SPKI DER in base64. */
  readonly public_key: string
  readonly active: boolean
}

/** A way to answer that signs with its own key for whoever gave a name there, as configuration names it. */
export interface ApprovalChannel {
  /** `page` is the only one there is. */
  readonly name: string
  readonly roles: readonly string[]
  /** Ed25519 public key, SPKI DER in base64. */
  readonly public_key: string
  readonly active: boolean
}

/** Who a decision that a channel signed is by, in place of an approver's name; no approver can be called so. */
export const pageApprover = 'channel:page'

/** What the call really is now, computed from configuration and its arguments. */
export interface DecisionSubject {
  readonly deployment: string
  readonly approvers: readonly Approver[]
  readonly channels: readonly ApprovalChannel[]
  /** The least that counts here, from profile and risk, not from the row. */
  readonly assurance: Assurance
  /** From the function's entry, not from the row. */
  readonly approver_roles: readonly string[]
  readonly function_digest: string
  /** With four eyes on, who asked and so may not decide. Null when off. */
  readonly excluded: { readonly id: string; readonly name: string } | null
}

export type Holds = { readonly holds: true } | { readonly holds: false; readonly why: string }

const no = (why: string): Holds => ({ holds: false, why })

/** Whether this signed decision is a valid answer to this approval about this call. Never throws. */
export function decisionHolds(approval: Approval, decision: SignedDecision | null, subject: DecisionSubject): Holds {
  if (decision === null) return no('There is no signed decision.')
  if (approval.function_digest !== subject.function_digest) return no('The function, its definition or its arguments changed since the approval was asked for.')
  if (approval.approval_digest !== approvalDigest(subject.deployment, approval)) return no('The approval is not the one that was asked for.')
  const approver = signerOf(decision, subject)
  if (approver === undefined || !approver.active) return no(`${decision.approver} is not an approver in the configuration.`)
  if (!suffices(approver.assurance, subject.assurance)) return no('At this risk a name does not suffice: an approver decides, with a passphrase.')
  if (approver.assurance === 'channel-asserted' && !namesSomebody(decision)) return no('The decision of the page does not say by whom it is.')
  if (subject.excluded !== null && isExcluded(decision, subject.excluded)) return no('Four eyes: whoever asked may not decide.')
  if (!subject.approver_roles.some((role) => approver.roles.includes(role))) {
    return no(`${decision.approver} has none of the roles that may decide: ${subject.approver_roles.join(', ')}.`)
  }
  if (decision.decided_at > approval.expires_at) return no('The decision came after the approval had expired.')
  if (decision.decided_at < approval.created_at) return no('The decision is older than the question.')
  return signatureHolds(approval.approval_digest, decision, approver.public_key) ? { holds: true } : no('The signature does not verify.')
}

interface Signer {
  readonly roles: readonly string[]
  readonly public_key: string
  readonly active: boolean
  readonly assurance: Assurance
}

function signerOf(decision: SignedDecision, subject: DecisionSubject): Signer | undefined {
  if (decision.approver !== pageApprover) {
    const approver = subject.approvers.find((candidate) => candidate.name === decision.approver)
    return approver === undefined ? undefined : { ...approver, assurance: 'human-verified' }
  }
  const page = subject.channels.find((channel) => channel.name === 'page')
  return page === undefined ? undefined : { ...page, assurance: 'channel-asserted' }
}

/** From a row, so it may be anything. */
function namesSomebody({ channel, responder }: SignedDecision): boolean {
  return channel === 'page' && typeof responder === 'string' && responder.trim() !== ''
}

/** A name proves nothing: one who asked and gives another name passes. Only the obvious is caught. */
function isExcluded({ approver, responder }: SignedDecision, excluded: NonNullable<DecisionSubject['excluded']>): boolean {
  if (approver !== pageApprover) return approver === excluded.id
  return [excluded.id, excluded.name].map(plainName).includes(plainName(responder ?? ''))
}

function plainName(name: string): string {
  return name.normalize('NFKC').replace(/\s+/g, ' ').trim().toLowerCase()
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
export function signDecision<D extends Omit<SignedDecision, 'signature'>>(key: KeyObject, digest: string, decision: D): D & Pick<SignedDecision, 'signature'> {
  return { ...decision, signature: sign(null, signedBytes(digest, decision), key).toString('base64') }
}
