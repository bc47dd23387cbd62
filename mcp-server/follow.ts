/*
 * Follows a turn from the command line: says for whom it waits, prints the outcome, ends with its code. Ctrl-C ends the waiting; where
 * this process runs the turn itself, that pauses it.
 */
import type { Caller, OpenHarness } from '../core/index'
import { exitCodes, type ExitCode } from './exit-codes'
import type { Invocation } from './invocation'
import { exitCodeOf, print, resultText, tell, turnLines } from './screen'
import { waitForTurn } from './waiting'

/** Default of `--wait`, in seconds. */
export const defaultWait = 60

export interface Follow {
  readonly turnId: string
  readonly seconds: number
  /** Stop when a person must decide. */
  readonly untilHeld: boolean
  /** What is waited for, as the object of "Waiting for". */
  readonly what: string
}

/** Waits and prints. The result goes to stdout, everything else to stderr. */
export async function follow(
  harness: OpenHarness,
  caller: Caller,
  command: Invocation,
  { turnId, seconds, untilHeld, what }: Follow,
): Promise<ExitCode> {
  const stop = new AbortController()
  const onSignal = (): void => {
    stop.abort()
  }
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  let looks = 0
  const view = await waitForTurn(harness, turnId, caller, {
    seconds,
    untilHeld,
    signal: stop.signal,
    onLook: (now) => {
      // what is over at once needs no word about waiting
      if (now.state !== 'working' || (looks += 1) !== 2) return
      const runsHere = harness.workerState().state === 'working'
      tell(`Waiting up to ${String(seconds)} s for ${what} (turn ${turnId} in session ${now.session_id}). ${now.worker}`)
      tell(`Ctrl-C ends the waiting${runsHere ? ' and pauses the turn; it goes on when a harness runs on this home again' : ', not the turn'}.`)
    },
  })
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  if (view === null) {
    tell(`There is no turn ${turnId} that you may see.`)
    return exitCodes.failed
  }
  tell(...turnLines(view, command))
  const result = resultText(view)
  if (result !== null) print(result)
  return stop.signal.aborted ? exitCodes.interrupted : exitCodeOf(view)
}
