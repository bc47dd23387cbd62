/* Judging proposed calls, and starting a write: pure steps that fold into the commit before them. */
import { unreachable } from '../../errors'
import type { Change } from '../../turn/changes'
import { newResult } from '../../turn/content'
import type { Call } from '../../turn/call'
import type { Turn } from '../../turn/turn'
import type { Engine, StepResult } from '../engine'
import { judgeCall, judgeStart, openApproval, type Judgement } from '../judge'

/** An idempotent function is sent at most so often under the same call id. */
export const maxAttempts = 3

export function judgeCalls(calls: readonly Call[], turn: Turn, engine: Engine): StepResult {
  let open = turn.approvals.filter((approval) => approval.status === 'pending').length
  const limit = engine.authority().limits.open_approvals_per_session
  const changes = calls.flatMap((call) => {
    const judgement = judgeCall(call, turn, engine)
    if (judgement.effect === 'hold' && open >= limit) return deny(call, tooManyOpen(limit, judgement.digest), engine)
    if (judgement.effect === 'hold') open += 1
    return judged(call, turn, judgement, engine)
  })
  return { changes }
}

function tooManyOpen(limit: number, digest: string): Extract<Judgement, { effect: 'deny' }> {
  return { effect: 'deny', code: 'limit', told: `There are already ${String(limit)} open approvals in this session; wait until some are decided.`, reasons: [], digest, tampering: null }
}

export function judged(call: Call, turn: Turn, judgement: Judgement, engine: Engine): Change[] {
  const base = { type: 'call.judged' as const, turn_id: call.turn_id, call_id: call.call_id, from: call.status, at: engine.clock.now() }
  switch (judgement.effect) {
    case 'deny':
      return deny(call, judgement, engine)
    case 'allow':
      return [{ ...base, to: 'allowed', reason: null, reasons: judgement.reasons, function_digest: judgement.digest, approval_id: call.approval_id, result: null }]
    case 'hold': {
      const approval = openApproval(call, turn, judgement, engine)
      return [
        { type: 'approval.opened', approval },
        { ...base, to: 'held', reason: 'policy', reasons: judgement.verdict.reasons, function_digest: judgement.digest, approval_id: approval.approval_id, result: null },
      ]
    }
    default:
      return unreachable(judgement)
  }
}

export function deny(call: Call, judgement: Extract<Judgement, { effect: 'deny' }>, engine: Engine): Change[] {
  const changes: Change[] = [
    {
      type: 'call.judged', turn_id: call.turn_id, call_id: call.call_id, from: call.status, to: 'denied', reason: judgement.code, reasons: judgement.reasons,
      function_digest: judgement.digest, approval_id: call.approval_id,
      result: newResult(call.call_id, { error: 'denied', code: judgement.code, message: judgement.told }, engine), at: engine.clock.now(),
    },
  ]
  return [...changes, ...recorded(call, judgement)]
}

/** What was altered, for the record, if anything was. */
export function recorded(call: Call, { tampering }: { readonly tampering: string | null }): Change[] {
  return tampering === null ? [] : [{ type: 'tampering.found', object: call.call_id, what: tampering }]
}

export function sentBefore(call: Call): string {
  return `call ${call.call_id} was handed out before; its row was set back`
}

/** Judges a call once more and, if it still may run, records that it is about to be sent. */
export function startWrite(call: Call, turn: Turn, engine: Engine): StepResult {
  const judgement = judgeStart(call, turn, engine)
  if (judgement.effect !== 'allow') return { changes: judged(call, turn, judgement, engine) }
  if (engine.sentLog.has(call.call_id)) {
    const told = 'This call was already sent once; it is not sent again.'
    return { changes: deny(call, { effect: 'deny', code: 'sent_before', told, reasons: [], digest: judgement.digest, tampering: sentBefore(call) }, engine) }
  }
  return { changes: [started(call, turn, engine)] }
}

/**
 * A call found started under an earlier lease: sent again if that is declared harmless, else its outcome is unknown. One in sent.log went
 * out when it was not declared so, whatever its function says since.
 */
export function recover(call: Call, turn: Turn, engine: Engine): StepResult {
  const judgement = judgeStart(call, turn, engine)
  if (judgement.effect === 'allow' && judgement.entry.idempotent && call.attempts < maxAttempts && !engine.sentLog.has(call.call_id)) return { changes: [started(call, turn, engine)] }
  return { changes: [interrupted(call, engine, 'The harness stopped while this call was under way.')] }
}

function started(call: Call, turn: Turn, engine: Engine): Change {
  return {
    type: 'call.started', turn_id: call.turn_id, call_id: call.call_id, from: call.status, epoch: turn.lease_epoch, attempts: call.attempts + 1, at: engine.clock.now(),
  }
}

/** What a model or person is told when nobody knows whether a write took effect. */
export function interrupted(call: Call, engine: Engine, why: string): Change {
  const value = {
    error: 'unknown_outcome',
    message: `${why} Whether ${call.function_id} took effect is unknown: it may have happened once, and it was not and will not be sent again. Do not repeat it; find out, or tell the person.`,
  }
  return {
    type: 'call.settled', turn_id: call.turn_id, call_id: call.call_id, from: call.status, to: 'interrupted', reason: 'unknown_outcome',
    result: newResult(call.call_id, value, engine), at: engine.clock.now(),
  }
}

/** A person said no, or nobody said anything in time. */
export function answerHeld(call: Call, as: 'release' | 'reject' | 'expire' | 'ask_anew', turn: Turn, engine: Engine): StepResult {
  const approval = turn.approvals.find((candidate) => candidate.approval_id === call.approval_id)
  const at = engine.clock.now()
  // the planner releases only a call with an approval, so the judgement is a yes or a no
  if (as === 'release') return { changes: judged(call, turn, judgeStart(call, turn, engine), engine) }
  if (as === 'ask_anew') {
    const closed: Change[] = approval?.status === 'pending' ? [{ type: 'approval.closed', turn_id: turn.turn_id, approval_id: approval.approval_id, status: 'cancelled', at }] : []
    return { changes: [...closed, ...judged(call, turn, judgeCall(call, turn, engine), engine)] }
  }
  const settle = (to: 'rejected' | 'expired', message: string): Change => ({
    type: 'call.settled', turn_id: call.turn_id, call_id: call.call_id, from: call.status, to, reason: to,
    result: newResult(call.call_id, { error: to, message }, engine), at,
  })
  if (as === 'reject') {
    const reason = approval?.decided?.reason ?? null
    return { changes: [settle('rejected', `A person rejected this call${reason === null ? '' : ` and says: ${reason}`}. It did not run. Do not ask for exactly this again.`)] }
  }
  const changes: Change[] = approval?.status === 'pending' ? [{ type: 'approval.closed', turn_id: turn.turn_id, approval_id: approval.approval_id, status: 'expired', at }] : []
  return { changes: [...changes, settle('expired', 'Nobody decided in time. The call did not run.')] }
}
