/*
 * The loop. Plan, perform, commit, until the turn is over or has to wait. Pure steps fold into the commit before the next effect; an
 * effect happens only when everything before it is on disk.
 */
import { functionDigest } from '../approvals/approval'
import { isHarnessError, unreachable } from '../errors'
import type { FunctionEntry } from '../policy/policy'
import type { Change } from '../turn/changes'
import { applyChanges } from '../turn/changes'
import type { Call, CallTraits } from '../turn/call'
import { nextStep, type Step } from '../turn/next-step'
import type { Turn } from '../turn/turn'
import type { Engine, StepResult } from './engine'
import { argumentsOf } from './judge'
import { callModel } from './steps/call-model'
import { finish } from './steps/finish'
import { deliver, foldUrgent, isGenuine } from './steps/inbox'
import { answerHeld, judgeCalls, recover, startWrite } from './steps/judge'
import { runReads, runWrite } from './steps/run-calls'

/** The worker's side of a run. */
export interface Run {
  readonly actor: string
  /** Aborts on a stop for the turn, on a lost lease, and at shutdown. */
  readonly signal: AbortSignal
  /** False once the worker must let go: lease lost or shutting down. Checked before every effect. */
  mayGoOn(): boolean
}

/** How a run ended: the turn is over or parked; it was given up in good order; or the lease was lost and somebody else has it. */
export type RunEnd = 'settled' | 'given_up' | 'lost'

export async function runTurn(start: Turn, run: Run, engine: Engine): Promise<RunEnd> {
  let turn = await refreshed(start, engine)
  let saved = turn
  let pending: readonly Change[] = []
  let staleEnds = 0

  const save = async (): Promise<void> => {
    const { turn_id, session_id, lease_epoch } = turn
    const commit = { actor: run.actor, at: engine.clock.now(), changes: pending, session_id, fence: { turn_id, epoch: lease_epoch } }
    const inbox = await untilStored(() => engine.store.commit(commit), pending, run)
    // an item put in by hand must not count: the turn would be deaf to what comes after
    const posted = inbox.findLast((item) => isGenuine(item, turn, engine))?.seq ?? 0
    turn = await refreshed({ ...turn, claims: 0, inbox, inbox_posted: Math.max(turn.inbox_posted, posted) }, engine)
    saved = turn
    pending = []
  }

  for (;;) {
    const step = nextStep(turn, engine.clock.now(), traitsOf(engine))
    if (step.kind === 'stop') return 'settled'
    if (isEffect(step)) {
      if (pending.length > 0) {
        try {
          await save()
        } catch (error) {
          if (isLost(error)) return lost(turn, pending, run, engine)
          throw error
        }
        continue // something may have come in meanwhile: plan again
      }
      // aborted without a stop in the inbox: whoever aborted it wants it back
      if (!run.mayGoOn() || run.signal.aborted) return giveUp(turn, run, engine)
    }
    const result = await perform(step, turn, engine, run.signal)
    pending = [...pending, ...result.changes]
    turn = { ...applyChanges(turn, result.changes), failure: result.failure ?? turn.failure }
    if (isEffect(step) && run.signal.aborted && run.mayGoOn()) turn = await withInbox(turn, pending, engine)
    if (step.kind !== 'park' && step.kind !== 'finish') continue
    try {
      await save()
      if (step.kind === 'park') await wakeIfBack(turn, step.wake_at, engine)
      return 'settled'
    } catch (error) {
      if (isLost(error)) return lost(turn, pending, run, engine)
      staleEnds += 1
      if (!isHarnessError(error) || error.code !== 'stale_inbox' || staleEnds > mostStaleEnds) throw error
      // somebody spoke while the turn ended: read what, and plan this end anew on what was last saved
      pending = pending.slice(0, pending.length - result.changes.length)
      turn = await withInbox(applyChanges(saved, pending), pending, engine)
    }
  }
}

/** What a function answered is known to nobody else: while the store is busy or full it is kept and tried again, as long as the lease lasts. */
async function untilStored<T>(store: () => Promise<T>, pending: readonly Change[], run: Run): Promise<T> {
  for (;;) {
    try {
      return await store()
    } catch (error) {
      const isBusy = isHarnessError(error) && error.code === 'store_unavailable'
      if (!isBusy || !run.mayGoOn() || !pending.some((change) => change.type === 'call.settled')) throw error
      await new Promise((resolve) => setTimeout(resolve, storePauseMs))
    }
  }
}

const storePauseMs = 500

/** How often an end is planned anew because somebody spoke meanwhile, before the run breaks off. */
const mostStaleEnds = 100

const effects: ReadonlySet<Step['kind']> = new Set<Step['kind']>(['call_model', 'run_write', 'run_reads'])
const isEffect = (step: Step): boolean => effects.has(step.kind)
const isLost = (error: unknown): boolean => isHarnessError(error) && error.code === 'lease_lost'

function perform(step: Step, turn: Turn, engine: Engine, signal: AbortSignal): Promise<StepResult> | StepResult {
  switch (step.kind) {
    case 'fold':
      return foldUrgent(step.items, turn, engine)
    case 'deliver':
      return deliver(step.items, turn, engine)
    case 'judge':
      return judgeCalls(step.calls, turn, engine)
    case 'answer':
      return answerHeld(step.call, step.as, turn, engine)
    case 'start_write':
      return startWrite(step.call, turn, engine)
    case 'recover':
      return recover(step.call, turn, engine)
    case 'run_write':
      return runWrite(step.call, turn, engine, signal)
    case 'run_reads':
      return runReads(step.calls, turn, engine, signal)
    case 'call_model':
      return callModel(turn, engine, signal)
    case 'finish':
      return finish(step, turn, engine)
    case 'park':
      return { changes: [{ type: 'turn.parked', turn_id: turn.turn_id, park: step.park, wake_at: step.wake_at, inbox_seen: turn.inbox_posted }] }
    case 'stop':
      return { changes: [] }
    default:
      return unreachable(step)
  }
}

export function traitsOf(engine: Engine): (functionId: string) => CallTraits | null {
  const { functions } = engine.authority()
  return (functionId) => {
    const entry = functions.get(functionId)
    if (entry === undefined) return null
    return {
      side_effects: entry.side_effects, idempotent: entry.idempotent, live_at: engine.registrations.liveAt(entry),
      isCurrent: (call) => isCurrent(call, entry),
    }
  }
}

/** A function may register, or be taken back, while the turn parks because of it: whoever did that found no parked turn to wake. */
async function wakeIfBack(turn: Turn, wakeAt: number | null, engine: Engine): Promise<void> {
  const traits = traitsOf(engine)
  for (const call of turn.calls.filter(({ status }) => status === 'allowed' || status === 'started' || status === 'held')) {
    const known = traits(call.function_id)
    const isOld = known === null || (call.status === 'held' && known.isCurrent?.(call) === false)
    const at = isOld ? engine.clock.now() : call.status === 'held' ? null : (known.live_at ?? null)
    if (at !== null && (wakeAt === null || at < wakeAt)) await engine.store.wakeWaiting(call.function_id, at)
  }
}

function isCurrent(call: Call, entry: FunctionEntry): boolean {
  const args = argumentsOf(call)
  return args !== null && functionDigest(entry, args) === call.function_digest
}

/** The inbox as it is now, less what is folded in already and only waits to be saved. */
async function withInbox(turn: Turn, pending: readonly Change[], engine: Engine): Promise<Turn> {
  // the row before the items: one that is posted between the two is counted at the next time
  const row = await engine.store.findTurn(turn.turn_id)
  const posted = await engine.store.readInbox(turn.turn_id)
  const inbox = posted.filter((item) => !pending.some((change) => change.type === 'inbox.folded' && change.inbox_id === item.inbox_id))
  return refreshed({ ...turn, inbox, inbox_posted: row?.inbox_posted ?? turn.inbox_posted }, engine)
}

/** With the approvals that were decided since, and the configuration that says who may decide. */
async function refreshed(turn: Turn, engine: Engine): Promise<Turn> {
  const decided = turn.inbox.flatMap((item) => (item.kind === 'decision' ? [item.approval_id] : []))
  if (decided.length === 0) return turn
  await engine.refreshAuthority()
  const read = await Promise.all(decided.map((approvalId) => engine.store.findApproval(approvalId)))
  return { ...turn, approvals: turn.approvals.map((approval) => read.find((candidate) => candidate?.approval_id === approval.approval_id) ?? approval) }
}

/** Shutdown: what is planned but not saved will be planned again; the lease is given back without counting as a crash. */
async function giveUp(turn: Turn, run: Run, engine: Engine): Promise<RunEnd> {
  const { turn_id, session_id, lease_epoch } = turn
  try {
    await engine.store.commit({
      actor: run.actor, at: engine.clock.now(), changes: [{ type: 'turn.released', turn_id, epoch: lease_epoch }], session_id, fence: { turn_id, epoch: lease_epoch },
    })
  } catch (error) {
    if (!isLost(error)) throw error
  }
  return 'given_up'
}

/** Somebody else has the turn. An outcome that we alone know goes on record beside the call, without effect. */
async function lost(turn: Turn, pending: readonly Change[], run: Run, engine: Engine): Promise<RunEnd> {
  for (const change of pending) {
    if (change.type !== 'call.settled' || (change.to !== 'succeeded' && change.to !== 'failed')) continue
    const { turn_id, call_id, to, result, at } = change
    try {
      await engine.store.commit({ actor: run.actor, at, session_id: turn.session_id, changes: [{ type: 'call.late', turn_id, call_id, outcome: to, result, at }] })
    } catch (error) {
      if (!isHarnessError(error) || error.code !== 'conflict') throw error // the call was not given up after all
    }
  }
  return 'lost'
}
