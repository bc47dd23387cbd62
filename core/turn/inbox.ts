/*
 * Whoever is not the turn's worker says what it wants through the inbox: a message, a stop, or "look again" after a decision. The worker
 * folds it in at its next commit, so that outsiders never make a step stale.
 */
import type { Content } from './content'

export interface InboxMessage {
  readonly kind: 'message'
  readonly content: Content
}
export interface InboxStop {
  readonly kind: 'stop'
}
/** An approval of this turn was decided; its row says how. */
export interface InboxDecision {
  readonly kind: 'decision'
  readonly approval_id: string
}

export type InboxBody = InboxMessage | InboxStop | InboxDecision

export type InboxItem = {
  readonly inbox_id: string
  readonly session_id: string
  readonly turn_id: string
  /** Place in the turn's inbox, from 1, without holes. */
  readonly seq: number
  readonly principal: string
  readonly posted_at: number
  /** HMAC over the item: one put in by hand is dropped and audited. */
  readonly seal: string
} & InboxBody

/** `owner`: of the turn, as its row said when the item was posted; one that was changed for a moment lets nobody else in. */
export function inboxSealFacts(
  item: Pick<InboxItem, 'inbox_id' | 'turn_id' | 'seq' | 'kind' | 'principal'> & { readonly content_digest: string | null; readonly owner: string },
): Record<string, string | number | null> {
  const { inbox_id, turn_id, seq, kind, principal, content_digest, owner } = item
  return { inbox_id, turn_id, seq, kind, principal, content_digest, owner }
}
