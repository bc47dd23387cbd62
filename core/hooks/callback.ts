/*
 * The port for calling somebody back, and what an answer means. n8n's answers are the measure, since n8n is who waits: it takes the call,
 * is not ready yet, or has nobody waiting any more. What is none of these is taken as "not now": a callback is never given up on a guess.
 */

/** `failed`: there was no answer (refused, cut, timed out). */
export type CallbackAnswer = { readonly status: number; readonly body: string } | { readonly failed: string }

/** Contract: at most one POST with this JSON, no redirect followed; never throws; resolves soon after the signal. */
export type PostCallback = (url: string, body: { readonly await_id: string; readonly status: 'done' | 'timed_out' }, signal: AbortSignal) => Promise<CallbackAnswer>

/**
 * | kind | what it means | then |
 * |---|---|---|
 * | taken | the receiver went on | delivered |
 * | gone | nobody waits there any more | orphaned |
 * | unauthorized | the address is not valid any more | orphaned, and an operator should know |
 * | early | the receiver has not stored its waiting yet, or is at it | again very soon |
 * | ambiguous | it may have been taken | once more; then what the caller asked for decides |
 * | unready | the receiver was there and is not ready, or not there | again, later and later |
 */
export type AnswerKind = 'taken' | 'gone' | 'unauthorized' | 'early' | 'ambiguous' | 'unready'

export function kindOf(answer: CallbackAnswer, awaitId: string): AnswerKind {
  if ('failed' in answer) return 'unready'
  const { status, body } = answer
  switch (status) {
    case 200:
      return isTaken(body, awaitId) ? 'taken' : 'unready'
    case 401:
      return 'unauthorized'
    case 404:
      // another 404 may be a proxy's, before a receiver that starts
      return /does not exist|does not contain a waiting webhook/.test(body) ? 'gone' : 'unready'
    case 409:
      return body.includes('has finished') ? 'gone' : 'early'
    case 500:
      return 'ambiguous'
    default:
      return 'unready'
  }
}

/** Our own words, with the id of this await: anybody else's 200 is no yes. */
function isTaken(body: string, awaitId: string): boolean {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null && 'accepted' in value && value.accepted === true && 'awaitId' in value && value.awaitId === awaitId
  } catch {
    return false
  }
}

const minute = 60_000
/** By answers of the kind in a row; the last one from then on. */
const pauses: Readonly<Record<'early' | 'ambiguous' | 'unready', readonly number[]>> = {
  early: [100, 300, 1_000, 3_000, 10_000, minute, minute, minute, minute, minute, 5 * minute],
  ambiguous: [1_000, minute, minute, minute, minute, 5 * minute],
  unready: [500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, minute, minute, minute, minute, minute, 5 * minute],
}

/** How long to wait after the n-th answer of this kind in a row, from 0. */
export function pauseAfter(kind: keyof typeof pauses, streak: number): number {
  return pauses[kind].at(Math.min(streak, pauses[kind].length - 1)) ?? 5 * minute
}

/** For people and for the next look: the kind, then what was said, short and on one line. */
export function shortAnswer(kind: AnswerKind, answer: CallbackAnswer): string {
  const said = 'failed' in answer ? answer.failed : `${String(answer.status)} ${answer.body}`
  return `${kind}: ${said.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 160)}`
}
