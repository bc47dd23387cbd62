/*
 * The planner: from a turn and the time to the one next step. Pure, so that a first run, going on after an approval and recovery after a
 * crash are the same code. The rows stand in order of precedence; the first that applies wins.
 */
import { askedIn } from './ask-person'
import { isSettled, type Call, type CallTraits } from './call'
import { crashLoopClaims, isTerminal, type EndReason, type ParkReason, type TerminalStatus, type Turn } from './turn'
import type { InboxItem } from './inbox'

export type Step =
  | { readonly kind: 'stop' }
  | { readonly kind: 'fold'; readonly items: readonly InboxItem[] }
  | { readonly kind: 'finish'; readonly status: TerminalStatus; readonly reason: EndReason; readonly detail: string | null }
  | { readonly kind: 'judge'; readonly calls: readonly Call[] }
  | { readonly kind: 'recover'; readonly call: Call }
  | { readonly kind: 'run_write'; readonly call: Call }
  | { readonly kind: 'start_write'; readonly call: Call }
  | { readonly kind: 'run_reads'; readonly calls: readonly Call[] }
  | { readonly kind: 'answer'; readonly call: Call; readonly as: 'release' | 'reject' | 'expire' | 'ask_anew' }
  | { readonly kind: 'park'; readonly park: ParkReason; readonly wake_at: number | null }
  | { readonly kind: 'deliver'; readonly items: readonly InboxItem[] }
  | { readonly kind: 'call_model' }

/** `traits` of a function id; null for one that does not exist, which is then treated as a write. */
export type TraitsOf = (functionId: string) => CallTraits | null

export function nextStep(turn: Turn, now: number, traits: TraitsOf): Step {
  if (isTerminal(turn.status)) return { kind: 'stop' }

  const urgent = turn.inbox.filter((item) => item.kind !== 'message')
  if (urgent.length > 0) return { kind: 'fold', items: urgent }
  if (turn.stop !== null) return { kind: 'finish', status: 'cancelled', reason: 'stopped', detail: `Stopped by ${turn.stop.by}.` }
  if (turn.failure !== null) return { kind: 'finish', status: 'failed', ...turn.failure }
  if (turn.claims > crashLoopClaims) {
    return { kind: 'finish', status: 'failed', reason: 'crash_loop', detail: `The worker died ${String(crashLoopClaims)} times on this turn without getting anything done.` }
  }
  if (now >= turn.deadline_at) return { kind: 'finish', status: 'failed', reason: 'deadline', detail: 'The turn took longer than it may.' }

  const of = (status: Call['status']): Call[] => turn.calls.filter((call) => call.status === status)
  const proposed = of('proposed')
  if (proposed.length > 0) return { kind: 'judge', calls: proposed }
  const started = of('started')[0]
  if (started !== undefined) {
    if (started.started_epoch === turn.lease_epoch) return { kind: 'run_write', call: started }
    const known = traits(started.function_id)
    // only one that would be sent again waits for whom it would be sent to
    if (known?.idempotent === true && isAway(known, now)) return parkUntilThere([started], turn, traits)
    return { kind: 'recover', call: started }
  }
  const answered = heldCallStep(of('held'), turn, { now, traits })
  if (answered !== null) return answered
  const away = of('allowed').filter((call) => isAway(traits(call.function_id), now))
  const allowed = of('allowed').filter((call) => !away.includes(call))
  const reads = allowed.filter((call) => isRead(traits(call.function_id)))
  if (reads.length > 0) return { kind: 'run_reads', calls: reads }
  const write = allowed[0]
  if (write !== undefined) return { kind: 'start_write', call: write }
  const held = of('held')
  if (held.length > 0) {
    const deadlines = held.map((call) => approvalOf(turn, call)?.expires_at ?? now)
    return { kind: 'park', park: 'approval', wake_at: Math.min(turn.deadline_at, ...deadlines, ...timesBack(away, traits)) }
  }
  if (away.length > 0) return parkUntilThere(away, turn, traits)

  if (turn.kind === 'function') return finishFunctionTurn(turn)
  // one that may ask its model no more leaves what came late to the turn that follows; what it began with it always takes
  const isSpent = turn.rounds > 0 && turn.rounds >= turn.spec.max_turns
  if (turn.inbox.length > 0 && !isSpent) return { kind: 'deliver', items: turn.inbox }
  const last = turn.messages.at(-1)
  if (last?.role === 'assistant' && last.turn_id === turn.turn_id && last.reply?.calls === 0) {
    return last.reply.stop_reason === 'length'
      ? { kind: 'finish', status: 'failed', reason: 'reply_cut', detail: 'The model stopped at its length limit before it had finished.' }
      : { kind: 'finish', status: 'completed', reason: 'done', detail: null }
  }
  if (last?.role === 'assistant' && last.turn_id === turn.turn_id && askedIn(turn.calls, last.step).length > 0) {
    return { kind: 'finish', status: 'completed', reason: 'asked_person', detail: null }
  }
  if (turn.rounds >= turn.spec.max_turns) {
    return { kind: 'finish', status: 'failed', reason: 'max_turns', detail: `The limit of ${String(turn.spec.max_turns)} model calls is used up.` }
  }
  return { kind: 'call_model' }
}

/** Nobody is there to run it at the moment. */
function isAway(traits: CallTraits | null, now: number): boolean {
  const liveAt = traits?.live_at
  return liveAt === null || (liveAt !== undefined && liveAt > now)
}

/** When those calls can be made of whom it is known already. */
function timesBack(calls: readonly Call[], traits: TraitsOf): number[] {
  return calls.flatMap((call) => traits(call.function_id)?.live_at ?? [])
}

/** It wakes when the function registers, and at the latest at the turn's own time limit: it never looks by itself. */
function parkUntilThere(calls: readonly Call[], turn: Turn, traits: TraitsOf): Step {
  return { kind: 'park', park: 'function', wake_at: Math.min(turn.deadline_at, ...timesBack(calls, traits)) }
}

function isRead(traits: CallTraits | null): boolean {
  return traits !== null && traits.side_effects !== 'write'
}

function approvalOf(turn: Turn, call: Call): Turn['approvals'][number] | undefined {
  return turn.approvals.find((approval) => approval.approval_id === call.approval_id)
}

/** The first held call whose question has an answer, or has run out of time; a held call without a question is expired at once. */
function heldCallStep(held: readonly Call[], turn: Turn, { now, traits }: { readonly now: number; readonly traits: TraitsOf }): Step | null {
  for (const call of held) {
    const approval = approvalOf(turn, call)
    if (approval?.status === 'approved') return { kind: 'answer', call, as: 'release' }
    if (approval?.status === 'rejected') return { kind: 'answer', call, as: 'reject' }
    if (approval === undefined || approval.status !== 'pending' || now >= approval.expires_at) return { kind: 'answer', call, as: 'expire' }
    const known = traits(call.function_id)
    // nobody can answer it any more: the function was edited, or is gone
    if (known === null || known.isCurrent?.(call) === false) return { kind: 'answer', call, as: 'ask_anew' }
  }
  return null
}

/** A function turn ends as its one call did. */
function finishFunctionTurn(turn: Turn): Step {
  const call = turn.calls[0]
  if (call === undefined || !isSettled(call.status)) return { kind: 'finish', status: 'failed', reason: 'tampered', detail: 'The turn has lost its call.' }
  switch (call.status) {
    case 'succeeded':
      return { kind: 'finish', status: 'completed', reason: 'done', detail: null }
    case 'failed':
      return call.reason === 'function_failed'
        ? { kind: 'finish', status: 'failed', reason: 'function_failed', detail: 'The function answered with an error.' }
        : { kind: 'finish', status: 'failed', reason: 'call_failed', detail: 'The call came to nothing; its result says why.' }
    case 'interrupted':
      return { kind: 'finish', status: 'failed', reason: 'interrupted', detail: 'The call was cut; whether it took effect is unknown.' }
    case 'rejected':
      return { kind: 'finish', status: 'cancelled', reason: 'rejected', detail: 'A person rejected the call.' }
    case 'expired':
      return { kind: 'finish', status: 'cancelled', reason: 'expired', detail: 'Nobody decided in time.' }
    default:
      return { kind: 'finish', status: 'cancelled', reason: 'denied', detail: 'Policy does not let the call run.' }
  }
}
