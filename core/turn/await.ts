/*
 * An await: somebody wants to be called back when turns end or need a person, or when approvals are decided. Its facts are sealed, and its
 * address encrypted under the same facts, so that a row made or edited by hand is never called and gives nobody's results away.
 */
import { conceal, reveal, seal, sealHolds, type Json } from '../digest'
import { newContent, type Content } from './content'
import type { Ids } from '../ids'

/**
 * | status | what is true |
 * |---|---|
 * | waiting | nothing to tell yet |
 * | due | there is something to tell; the outbox looks again and calls |
 * | answered | the caller was told when it asked; it is not called |
 * | delivered | the address took the call |
 * | orphaned | nobody is there any more who could be called |
 * | cancelled | given up by its owner |
 */
export const awaitStatuses = ['waiting', 'due', 'answered', 'delivered', 'orphaned', 'cancelled'] as const
export type AwaitStatus = (typeof awaitStatuses)[number]
export type AwaitOutcome = 'done' | 'timed_out'

/** What was asked for; never changes. */
export interface AwaitFacts {
  readonly await_id: string
  /** With `await_id` its name: another principal's await of the same id is another await. */
  readonly owner: string
  readonly kind: 'turn' | 'approval'
  readonly until: 'held_or_ended' | 'ended'
  /** Ids of turns or approvals, each once, in the order asked for. */
  readonly subjects: readonly string[]
  readonly deadline: number | null
  readonly created_at: number
}

export interface Await extends AwaitFacts {
  readonly seal: string
  /** Its text is the encrypted address. Null: nobody is called. */
  readonly callback: Content | null
  readonly status: AwaitStatus
  /** Believed only as far as {@link outcomeOf} says. */
  readonly outcome: AwaitOutcome | null
  /** HMAC over facts and outcome, once the caller was told: from then on the outcome stays. */
  readonly answered: string | null
  /** Rises whenever there is something to look at, so that none is overlooked while another is looked at. */
  readonly news: number
  /** Calls made, counted before each. */
  readonly attempts: number
  /** Answers of the same kind as the last one, in a row. */
  readonly streak: number
  readonly due_at: number | null
  readonly next_at: number | null
  /** Kind and text of the last answer, for people. */
  readonly last_answer: string | null
}

export const isOpenAwait = (row: Await): boolean => row.status === 'waiting' || row.status === 'due'

function factsOf(row: AwaitFacts): Json {
  const { await_id, owner, kind, until, subjects, deadline, created_at } = row
  return { await_id, owner, kind, until, subjects, deadline, created_at }
}

export function sealAwait(facts: AwaitFacts, sealKey: Buffer): string {
  return seal(sealKey, 'await', factsOf(facts))
}

/** Whether this row is one that we wrote, for what it says. */
export function awaitHolds(row: Await, sealKey: Buffer): boolean {
  return sealHolds(sealKey, 'await', factsOf(row), row.seal)
}

/** The address is a capability, so it is encrypted; bound to the facts, so that it opens for nothing else. */
export function sealedCallback(url: string, facts: AwaitFacts, from: { readonly ids: Ids; readonly sealKey: Buffer }): Content {
  return newContent(from.ids, conceal(from.sealKey, 'await_callback', { bound: factsOf(facts), text: url, nonce: from.ids.hex(12) }))
}

/** The address; null when there is none that we wrote for this await. */
export function callbackOf(row: Await, sealKey: Buffer): string | null {
  const { callback } = row
  if (callback === null || callback.text === null) return null
  return reveal(sealKey, 'await_callback', { bound: factsOf(row), hidden: callback.text })
}

export function answeredSeal(row: AwaitFacts, outcome: AwaitOutcome, sealKey: Buffer): string {
  return seal(sealKey, 'await_answered', { await: factsOf(row), outcome })
}

/** Whether the caller was told this outcome. */
export function wasAnswered(row: Await, sealKey: Buffer): boolean {
  return row.outcome !== null && sealHolds(sealKey, 'await_answered', { await: factsOf(row), outcome: row.outcome }, row.answered)
}

/**
 * How it stands; null while it is pending. What was told stays, and so does a deadline that passed first: a row that is still `waiting`
 * then has missed it, since whatever ends in time makes it `due` in the same commit.
 */
export function outcomeOf(row: Await, isDone: boolean, now: number, sealKey: Buffer): AwaitOutcome | null {
  if (wasAnswered(row, sealKey)) return row.outcome
  const isOver = row.deadline !== null && row.deadline <= now
  // a deadline that is still to come cannot have been missed, whatever the row says
  if (isOver && (row.outcome === 'timed_out' || row.status === 'waiting' || !isDone)) return 'timed_out'
  return isDone ? 'done' : null
}
