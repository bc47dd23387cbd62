/*
 * The outbox: calls back who waits. An await is made due in the commit that ends what it waits for, so nothing that happens to this process
 * loses a callback; here it is looked at again and called until it is taken. At least once: the receiver asks how it stands and goes on
 * once. Only the process that runs the turns calls; hints of the store wake it, deadlines and pauses by a timer.
 */
import type { Clock } from '../clock'
import { isHarnessError, toHarnessError } from '../errors'
import type { Log } from '../log'
import type { Store } from '../store/store'
import { answeredSeal, awaitHolds, callbackOf, outcomeOf, wasAnswered, type Await, type AwaitOutcome } from '../turn/await'
import type { AwaitClosed, Change } from '../turn/changes'
import { kindOf, pauseAfter, shortAnswer, type CallbackAnswer, type PostCallback } from './callback'

const maxCalls = 16
/** Rows looked at in one go: more than are called at once, so that the next pause is known. */
const mostRows = 64
/** Longest sleep: the wall clock may be set. */
const longestMs = 60_000
/** Shortest time between two looks: one for many commits. */
const quietMs = 5
/** Somebody who was not reached for so long does not wait any more. */
const giveUpMs = 7 * 24 * 3_600_000
/** After a row that could not be seen to: this doubled each time, up to the longest. */
const troubleMs = 20
const longestTroubleMs = 30_000

export interface OutboxParts {
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  readonly sealKey: Buffer
  readonly post: PostCallback
  /** Whether this process runs the turns. */
  isWorking(): boolean
  /** Whether what it waits for is so at this moment. */
  isDone(row: Await): Promise<boolean>
  /** Whether this principal may still be told anything. */
  mayBeCalled(owner: string): boolean
}

export interface Outbox {
  /** Ends calls that are under way; they are made again at the next start. */
  stop(): Promise<void>
}

export function startOutbox(parts: OutboxParts): Outbox {
  const { store, clock, log } = parts
  const calling = new Map<string, Promise<void>>()
  /** Rows that were changed by somebody else at the same moment, or make no sense: none of them may spin. */
  const troubled = new Map<string, { readonly times: number; readonly until: number }>()
  const ending = new AbortController()
  let timer: NodeJS.Timeout | null = null
  let timerAt = Infinity
  let looking: Promise<void> | null = null
  let isWoken = false

  /** At the latest in so many milliseconds. Never keeps the process alive. */
  function lookIn(ms: number): void {
    const at = clock.monotonic() + ms
    if (ending.signal.aborted || !(at < timerAt)) return
    if (timer !== null) clearTimeout(timer)
    timerAt = at
    timer = setTimeout(() => {
      timer = null
      timerAt = Infinity
      wake()
    }, ms)
    timer.unref()
  }

  function wake(): void {
    if (looking !== null) {
      isWoken = true
      return
    }
    looking = look()
      .catch((error: unknown) => {
        log.error({ error: toHarnessError(error).message, cause: error }, 'looking for callbacks failed')
        lookIn(longestTroubleMs)
      })
      .finally(() => {
        looking = null
        if (isWoken) lookIn(quietMs)
        isWoken = false
      })
  }

  async function look(): Promise<void> {
    if (ending.signal.aborted || !parts.isWorking()) return
    const now = clock.now()
    const deadline = await store.nextAwaitDeadline()
    if (deadline !== null && deadline <= now) await store.timeOutAwaits(now)
    else if (deadline !== null) lookIn(Math.min(deadline - now, longestMs))
    for (const row of await store.dueAwaits(mostRows)) {
      if (calling.size >= maxCalls) return
      const key = JSON.stringify([row.owner, row.await_id])
      if (calling.has(key)) continue
      const wait = Math.max(Number.isFinite(row.next_at) ? (row.next_at ?? 0) : 0, troubled.get(key)?.until ?? 0) - now
      if (wait > 0) lookIn(Math.min(wait, longestMs))
      else calling.set(key, call(row, key))
    }
  }

  async function call(row: Await, key: string): Promise<void> {
    try {
      if (await deliver(row, parts, ending.signal)) troubled.delete(key)
      else trouble(key)
    } catch (error) {
      trouble(key)
      // else somebody was quicker: what it is now is looked at again
      if (!isHarnessError(error) || error.code !== 'conflict') log.error({ await_id: row.await_id, error: toHarnessError(error).message, cause: error }, 'a callback could not be seen to')
    } finally {
      calling.delete(key)
      lookIn(quietMs)
    }
  }

  function trouble(key: string): void {
    const times = (troubled.get(key)?.times ?? 0) + 1
    troubled.set(key, { times, until: clock.now() + Math.min(troubleMs * 2 ** times, longestTroubleMs) })
  }

  const stopHints = store.onHint(() => { lookIn(quietMs) })
  wake()
  return {
    async stop() {
      ending.abort()
      stopHints()
      if (timer !== null) clearTimeout(timer)
      await looking
      await Promise.all(calling.values())
    },
  }
}

/** One look at a row that is due. False when it was not as it was read any more, and nothing was done. */
async function deliver(row: Await, parts: OutboxParts, signal: AbortSignal): Promise<boolean> {
  const { store, clock, log, sealKey } = parts
  const url = awaitHolds(row, sealKey) ? callbackOf(row, sealKey) : null
  if (url === null) {
    log.error({ await_id: row.await_id }, 'an await was altered outside the harness; nobody is called')
    const what = `await ${row.await_id} or its address does not carry its seal`
    return close(row, { status: 'orphaned', outcome: null, answer: 'altered outside the harness' }, parts, [{ type: 'tampering.found', object: row.await_id, what }])
  }
  if (!parts.mayBeCalled(row.owner)) return close(row, { status: 'orphaned', outcome: null, answer: `${row.owner} is not active` }, parts)
  const outcome = outcomeOf(row, await parts.isDone(row), clock.now(), sealKey)
  // a deadline that was missed while it was due for something else is put on its row first, so that it stays missed
  if (outcome === null || (outcome === 'timed_out' && row.outcome === null)) return store.noteAwait(row, { note: 'not_yet' })
  if (row.due_at !== null && row.due_at + giveUpMs <= clock.now()) {
    log.error({ await_id: row.await_id, answer: row.last_answer }, 'nobody took a callback in seven days; it is given up')
    return close(row, { status: 'orphaned', outcome, answer: row.last_answer }, parts)
  }
  // before it goes out: one that was given up since is not called, and who asks meanwhile is known to be called
  if (isCut(signal) || !(await store.noteAwait(row, { note: 'calling' }))) return false
  const answer = await parts.post(url, { await_id: row.await_id, status: outcome }, signal)
  // cut by the end of this process: as if it had not been made
  if ('failed' in answer && isCut(signal)) return false
  return take(answer, { ...row, attempts: row.attempts + 1 }, outcome, parts)
}

const isCut = (signal: AbortSignal): boolean => signal.aborted

/** What the receiver said becomes what is done next. */
async function take(answer: CallbackAnswer, row: Await, outcome: AwaitOutcome, parts: OutboxParts): Promise<boolean> {
  const { store, clock, log, sealKey } = parts
  const kind = kindOf(answer, row.await_id)
  const said = shortAnswer(kind, answer)
  const streak = row.last_answer?.startsWith(`${kind}:`) === true ? row.streak + 1 : 0
  switch (kind) {
    case 'taken':
      return close(row, { status: 'delivered', outcome, answer: said }, parts)
    case 'gone':
      return close(row, { status: 'orphaned', outcome, answer: said }, parts)
    case 'unauthorized':
      log.error({ await_id: row.await_id, answer: said }, 'a callback was refused: the address is not valid any more')
      return close(row, { status: 'orphaned', outcome, answer: said }, parts)
    case 'ambiguous': {
      const now = await store.findAwait(row.owner, row.await_id)
      if (streak > 0 && now !== null && wasAnswered(now, sealKey)) return close(row, { status: 'delivered', outcome, answer: said }, parts)
      break
    }
    default:
  }
  return store.noteAwait(row, { note: 'again', next_at: clock.now() + pauseAfter(kind, streak), streak, answer: said })
}

async function close(row: Await, end: Pick<AwaitClosed, 'status' | 'outcome' | 'answer'>, parts: OutboxParts, found: readonly Change[] = []): Promise<boolean> {
  const { await_id, owner, attempts } = row
  const answered = end.outcome === null ? null : answeredSeal(row, end.outcome, parts.sealKey)
  await parts.store.commit({
    actor: 'outbox', at: parts.clock.now(), session_id: null,
    changes: [...found, { type: 'await.closed', owner, await_id, attempts, answered, ...end }],
  })
  return true
}
