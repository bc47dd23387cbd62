/*
 * The main job, shown by itself: a refund is held, its process is killed; a person decides, the process is killed again, inside the refund
 * or after the rejection; a third one goes on, and a table proves what ran how often. Real processes, real SIGKILLs, the published
 * scripted model, a throw-away home and key. stdout is the story; what fails is told on stderr.
 */
import { readFileSync } from 'node:fs'
import { HarnessError, signDecision, type ApprovalDetail, type Caller, type Decision, type TurnView } from '../core/index'
import { DemoFailure, limitSeconds, startHarnessProcess, type HarnessProcess } from './demo/harness-process'
import { makePlace, type DemoPlace } from './demo/place'
import { approver, functionId, lastWords, request } from './demo/refund'
import { startDemoShop, type DemoShop } from './demo/shop'
import { printProof, short, startStory, type Proof, type Tell } from './demo/story'
import { exitCodes, type ExitCode } from './exit-codes'
import { tell as tellError } from './screen'
import { waitForTurn } from './waiting'

export interface DemoOptions {
  /** Default: approve. */
  readonly decide?: Decision | undefined
  /** Gets the refund and nothing else. Default: a shop of the demo's own. */
  readonly functionUrl?: string | undefined
  /** Keep the record here, and its home in the same folder. Default: a temporary folder. */
  readonly database?: string | undefined
}

/** Exit code 0 only if everything that the demo promises was seen. Throws `invalid_input` or `conflict` before anything happens. */
export async function runDemo({ decide = 'approve', functionUrl, database }: DemoOptions): Promise<ExitCode> {
  if (functionUrl !== undefined && !/^https?:$/.test(URL.parse(functionUrl)?.protocol ?? '')) {
    throw new HarnessError('invalid_input', '--function-url must be a whole http:// or https:// address.')
  }
  // leaving runs what was registered to clean up: the child is killed, the temporary home removed
  for (const [signal, number] of [['SIGHUP', 1], ['SIGINT', 2], ['SIGTERM', 15]] as const) process.once(signal, () => process.exit(128 + number))
  const shop = functionUrl === undefined ? await startDemoShop() : null
  const demo = new Demo(decide, await makePlace(functionUrl ?? shop?.url ?? '', database), shop)
  try {
    const holds = await demo.run(functionUrl)
    return holds ? exitCodes.done : exitCodes.failed
  } catch (error) {
    if (!(error instanceof DemoFailure)) throw error
    tellError('', `The demo failed. ${error.message}`)
    return exitCodes.failed
  } finally {
    await demo.end()
  }
}
