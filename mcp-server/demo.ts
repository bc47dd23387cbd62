/*
 * The main job, shown by itself: a refund is held and its process killed; a person decides and the process is killed again, inside the
 * refund or after the rejection; a third one goes on, and a table proves what ran how often. Real processes and SIGKILLs, the published
 * scripted model, a throw-away home and key. stdout is the story; what goes wrong is told on stderr.
 */
import { HarnessError, isHarnessError, signDecision, type Caller, type Decision, type TurnView } from '../core/index'
import { DemoFailure, limitSeconds, startHarnessProcess, type HarnessProcess } from './demo/harness-process'
import { makePlace, refuseUsed, type DemoPlace } from './demo/place'
import { proofsOf } from './demo/proof'
import { approver, request } from './demo/refund'
import { startDemoShop, type DemoShop } from './demo/shop'
import { printProof, short, startStory, type Say } from './demo/story'
import { exitCodes, type ExitCode } from './exit-codes'
import { invocationFor } from './invocation'
import { print, tell } from './screen'
import { waitForTurn } from './waiting'

export interface DemoOptions {
  /** Default: approve. */
  readonly decide?: Decision | undefined
  /** Gets the refund and nothing else. Default: a shop of the demo's own. */
  readonly functionUrl?: string | undefined
  /** Keep the record here, and its home in the same folder. Default: a temporary folder. */
  readonly database?: string | undefined
}

interface Stage {
  readonly decision: Decision
  readonly place: DemoPlace
  readonly caller: Caller
  readonly shop: DemoShop | null
  readonly processes: HarnessProcess[]
  readonly say: Say
  /** A signal came, and this process is about to exit. */
  isLeaving(): boolean
}

/** Answers 0 only if all that the demo promises was seen. Throws `invalid_input` or `conflict` before anything was made. */
export async function runDemo({ decide: decision = 'approve', functionUrl, database }: DemoOptions): Promise<ExitCode> {
  if (functionUrl !== undefined && !isPlainUrl(functionUrl)) {
    throw new HarnessError('invalid_input', '--function-url must be a whole http:// or https:// address without user name and password.')
  }
  if (database !== undefined) refuseUsed(database)
  const processes: HarnessProcess[] = []
  const isLeaving = leaveOnSignals(processes)
  const say = startStory(`agent-harness demo: a refund is held, killed, decided (${decision}) and killed again.`)
  const shop = functionUrl === undefined ? await startDemoShop() : null
  try {
    const place = await makePlace(functionUrl ?? shop?.url ?? '', database)
    say(`Home ${place.folder}, ${place.kept ? 'kept' : 'removed at the end'}. Approver "${approver}" with a new key. The model: a script.`)
    say(`The shop: ${functionUrl ?? `${shop?.url ?? ''}, a little server of this demo`}`)
    return await perform({ decision, place, caller: place.harness.localCaller('demo'), shop, processes, say, isLeaving })
  } finally {
    await shop?.stop()
  }
}

async function perform(stage: Stage): Promise<ExitCode> {
  const { processes, place: { folder, databasePath, kept, harness } } = stage
  try {
    const holds = await play(stage)
    print('', holds ? 'All of it holds.' : 'Not all of it holds.')
    if (kept) print(`Look for yourself: ${invocationFor({ folder, database: databasePath })('audit verify')}`)
    return holds ? exitCodes.done : exitCodes.failed
  } catch (error) {
    if (stage.isLeaving()) return await new Promise<never>(() => undefined)
    if (!(error instanceof DemoFailure) && !isHarnessError(error)) throw error
    tell(`The demo failed. ${error.message}`, ...(kept ? [`${folder} is kept as it is; for another try name a file in another folder.`] : []))
    return exitCodes.failed
  } finally {
    await Promise.all(processes.map((one) => one.kill()))
    await harness.close()
  }
}

/** At a signal: first the child is gone, then this process, and with it the temporary home. */
function leaveOnSignals(processes: readonly HarnessProcess[]): () => boolean {
  let leaving = false
  for (const [signal, code] of [['SIGHUP', 129], ['SIGINT', 130], ['SIGTERM', 143]] as const) {
    process.once(signal, () => {
      leaving = true
      void Promise.all(processes.map((one) => one.kill())).then(() => process.exit(code))
    })
  }
  return () => leaving
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text) || /[#\s]|\$\{/.test(text)) return false
  const { protocol, username, password } = new URL(text)
  return (protocol === 'http:' || protocol === 'https:') && username === '' && password === ''
}

async function play(stage: Stage): Promise<boolean> {
  const { decision, place: { harness }, caller, say, processes } = stage

  const first = await nextProcess(stage, 'runs the turns')
  const { turn_id } = await harness.send({ message: request }, caller)
  say(`A user says: "${request}" Turn ${short(turn_id)}.`)
  const { approval_id } = await heldCall(first, turn_id, stage)
  const { function_id, arguments: args, why, risk } = await harness.get_approval({ approval_id }, caller)
  say(`The model asks for ${function_id} ${JSON.stringify(args)}: a write, not idempotent, ${risk} risk.`)
  say(`Policy holds it: ${why.at(-1) ?? ''}`)
  await first.kill()
  say(`SIGKILL to process ${String(first.pid)} while approval ${short(approval_id)} waits. Nothing was sent.`)

  const second = await nextProcess(stage, 'opens the same database')
  const again = await heldCall(second, turn_id, stage)
  if (again.approval_id !== approval_id) throw new DemoFailure(`The approval is another one now: ${again.approval_id}.`)
  say(`The refund is still held, by the same approval ${short(approval_id)}.`)
  await decide(approval_id, stage)
  if (decision === 'approve') await killInside(second, stage)
  else await second.kill()
  const afterKill = (await harness.status({ turn_id }, caller))?.calls[0]?.status ?? 'gone'
  say(decision === 'approve'
    ? `SIGKILL to process ${String(second.pid)} inside the refund. On record the call is ${afterKill}, without an outcome.`
    : `SIGKILL to process ${String(second.pid)} after the rejection, which is on record. The call is ${afterKill}.`)

  const third = await nextProcess(stage, 'opens the same database')
  const end = await look(third, turn_id, stage)
  say(`The call is ${end.calls[0]?.status ?? 'gone'}${decision === 'approve' ? ': its outcome is unknown, and it is not sent again' : ''}.`)
  say(`The model, told so, says: "${typeof end.result === 'string' ? end.result : ''}"`)
  await third.close()
  say(`Process ${String(third.pid)} ends in good order.`)
  return printProof(await proofsOf({ ...stage, processes, turnId: turn_id, afterKill }))
}

async function nextProcess({ place, processes, say }: Stage, does: string): Promise<HarnessProcess> {
  const started = startHarnessProcess(place.databasePath)
  processes.push(started)
  await started.unlessItFails('The harness starts', started.ready)
  say(`Harness process ${String(started.pid)} ${does}.`)
  return started
}

/** The turn when it is held or over. */
async function look(by: HarnessProcess, turnId: string, { place, caller }: Stage): Promise<TurnView> {
  const waiting = waitForTurn(place.harness, turnId, caller, { seconds: limitSeconds, untilHeld: true })
  const view = await by.unlessItFails('The turn goes on', waiting)
  if (view === null || view.state === 'working') throw new DemoFailure(`The turn got nowhere within ${String(limitSeconds)} s.`)
  return view
}

async function heldCall(by: HarnessProcess, turnId: string, stage: Stage): Promise<TurnView['approvals'][number]> {
  const { state, reason, detail, approvals } = await look(by, turnId, stage)
  const [approval] = approvals
  if (state === 'held' && approval !== undefined) return approval
  throw new DemoFailure(`The refund should be held, but the turn is ${state} (${reason ?? 'no reason'}). ${detail ?? ''}`)
}

/** As `approvals approve` and `approvals reject` do it. */
async function decide(approvalId: string, { decision, place: { harness, passphrase }, caller, say }: Stage): Promise<void> {
  const { approval_digest } = await harness.get_approval({ approval_id: approvalId }, caller)
  const key = await harness.unlock(approver, passphrase)
  const reason = decision === 'reject' ? 'No receipt was sent.' : null
  const signed = signDecision(key, approval_digest, { decision, approver, decided_at: Date.now(), reason, channel: 'command_line' })
  const { status } = await harness.decide_approval({ approval_id: approvalId, ...signed }, caller)
  say(`A person (this demo) unlocks the key and signs: ${status}${reason === null ? '' : `, "${reason}"`}.`)
}

/** Kills the process between the first byte of the shop's answer and the outcome on record. */
async function killInside(running: HarnessProcess, { say }: Stage): Promise<void> {
  const status = await running.unlessItFails('The shop answers', running.answered)
  if (status < 200 || status > 299) throw new DemoFailure(`The shop answered with HTTP ${String(status)}; the demo needs one that answers 2xx.`)
  say(`Process ${String(running.pid)} sent ${running.requests.join(', ')}, and the first byte of the answer is there (HTTP ${String(status)}).`)
  await running.kill()
}
