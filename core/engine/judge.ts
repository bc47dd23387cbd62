/*
 * The verdict on a call, from configuration and from the call itself. Used when a call is proposed and once more when it starts; at the
 * second time an approval is believed only if its signature verifies, whatever the rows say.
 */
import { approvalDigest, functionDigest, type Approval } from '../approvals/approval'
import { decisionHolds, type DecisionSubject } from '../approvals/decide'
import type { Authority } from '../authority'
import { sealHolds, type Json } from '../digest'
import { evaluate } from '../policy/evaluate'
import { requiredAssurance, type FunctionEntry, type Reason, type Verdict } from '../policy/policy'
import { callSealFacts, turnSealFacts, type Turn } from '../turn/turn'
import type { Call } from '../turn/call'
import { jsonOf } from '../turn/content'
import { layersOf, ownerGrant, type Engine } from './engine'

export type Arguments = { readonly [key: string]: Json }

export type Judgement =
  | { readonly effect: 'deny'; readonly code: string; readonly told: string; readonly reasons: readonly Reason[]; readonly digest: string | null; readonly tampering: string | null }
  | { readonly effect: 'allow'; readonly reasons: readonly Reason[]; readonly digest: string; readonly entry: FunctionEntry; readonly args: Arguments }
  | { readonly effect: 'hold'; readonly verdict: Extract<Verdict, { effect: 'hold' }>; readonly digest: string; readonly entry: FunctionEntry; readonly args: Arguments }

const denied = (code: string, told: string, more: { reasons?: readonly Reason[]; digest?: string; tampering?: string } = {}): Judgement => ({
  effect: 'deny', code, told, reasons: more.reasons ?? [], digest: more.digest ?? null, tampering: more.tampering ?? null,
})

/** Judges by schema and policy, and by the seals of the call and of its turn. */
export function judgeCall(call: Call, turn: Turn, engine: Engine): Judgement {
  if (!sealHolds(engine.sealKey, 'turn', turnSealFacts(turn), turn.seal)) {
    return denied('tampered', 'This call is refused.', { tampering: `turn ${turn.turn_id} does not carry its seal` })
  }
  if (!sealHolds(engine.sealKey, 'call', callSealFacts(call), call.seal)) {
    return denied('tampered', 'This call is refused.', { tampering: `call ${call.call_id} does not carry its seal` })
  }
  const authority = engine.authority()
  const grant = ownerGrant(authority, turn.owner)
  if (grant === null) return denied('inactive', 'Whoever asked for this is not active any more.')

  const entry = authority.functions.get(call.function_id) ?? null
  const args = argumentsOf(call)
  const digest = entry === null || args === null ? null : functionDigest(entry, args)
  const verdict = evaluate(
    { function_id: call.function_id, entry, arguments: args, mode: turn.spec.mode, profile: authority.profile, earlier: digest === null ? null : earlierOutcome(turn, call, digest) },
    grant.principal,
    layersOf(authority, grant, turn),
  )
  if (verdict.effect === 'deny') {
    const told = verdict.reasons.find((reason) => reason.decisive)?.text ?? 'Policy does not let this call run.'
    return denied(verdict.code, told, { reasons: verdict.reasons, ...(digest === null ? {} : { digest }) })
  }
  // only now, so that bad arguments never tell that a forbidden function exists
  if (entry === null || args === null || digest === null) {
    return denied('invalid_arguments', `The arguments of ${call.function_id} must be one JSON object.`, { reasons: verdict.reasons })
  }
  const valid = engine.validateArguments(entry.schema, args)
  if (!valid.ok) return denied('invalid_arguments', `The arguments do not fit ${entry.id}: ${valid.problem}`, { reasons: verdict.reasons })
  return verdict.effect === 'allow'
    ? { effect: 'allow', reasons: verdict.reasons, digest, entry, args }
    : { effect: 'hold', verdict, digest, entry, args }
}

/**
 * The judgement at the moment of starting. A call that policy holds may start only under an approval that verifies; one that claims to
 * be released without it is an attack and is denied.
 */
export function judgeStart(call: Call, turn: Turn, engine: Engine): Judgement {
  const judgement = judgeCall(call, turn, engine)
  if (judgement.effect !== 'hold' || call.approval_id === null) return judgement
  const approval = turn.approvals.find((candidate) => candidate.approval_id === call.approval_id)
  const subject = decisionSubject(engine.authority(), judgement.entry, judgement.digest, turn.owner)
  const holds = approval === undefined ? { holds: false as const, why: 'There is no such approval.' } : approvalHolds(approval, call, subject)
  // the function was changed in configuration since: nobody altered a row, and the question is asked anew
  if (!holds.holds && call.function_digest !== judgement.digest) return judgement
  if (holds.holds) return { effect: 'allow', reasons: judgement.verdict.reasons, digest: judgement.digest, entry: judgement.entry, args: judgement.args }
  return denied('approval_invalid', `The approval of this call does not hold: ${holds.why}`, {
    reasons: judgement.verdict.reasons, digest: judgement.digest, tampering: `call ${call.call_id} claims an approval that does not hold: ${holds.why}`,
  })
}

function approvalHolds(approval: Approval, call: Call, subject: DecisionSubject): ReturnType<typeof decisionHolds> {
  if (approval.call_id !== call.call_id || approval.turn_id !== call.turn_id) return { holds: false, why: 'The approval is about another call.' }
  if (approval.decided?.decision !== 'approve') return { holds: false, why: 'Nobody approved it.' }
  return decisionHolds(approval, approval.decided, subject)
}

/** What a decision must be about, computed from configuration, never from the approval's own row. */
export function decisionSubject(authority: Authority, entry: FunctionEntry, digest: string, owner: string): DecisionSubject {
  return {
    deployment: authority.deployment,
    approvers: authority.approvers,
    channels: authority.channels,
    assurance: requiredAssurance(authority.profile, entry.risk),
    approver_roles: entry.approver_roles,
    function_digest: digest,
    excluded: authority.four_eyes ? { id: owner, name: authority.grants.get(owner)?.principal.name ?? owner } : null,
  }
}

/** The question to a person about a call that policy holds. */
export function openApproval(call: Call, turn: Turn, hold: Extract<Judgement, { effect: 'hold' }>, engine: Engine): Approval {
  const now = engine.clock.now()
  const facts = {
    approval_id: engine.ids.next('a'), call_id: call.call_id, turn_id: turn.turn_id, function_digest: hold.digest,
    expires_at: Math.min(now + hold.verdict.ttl_ms, turn.deadline_at),
  }
  return {
    ...facts, execution_id: turn.execution_id, session_id: turn.session_id, owner: turn.owner, function_id: call.function_id,
    approval_digest: approvalDigest(engine.authority().deployment, facts), assurance: hold.verdict.assurance,
    approver_roles: hold.verdict.approver_roles, status: 'pending', created_at: now, decided: null,
  }
}

/** The call's arguments as an object; null when they are no object, or were erased or made unreadable. */
export function argumentsOf(call: Call): Arguments | null {
  const value = jsonOf(call.arguments.text)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Arguments) : null
}

/** What became of an equal call earlier in the turn, if it matters for this one. */
function earlierOutcome(turn: Turn, call: Call, digest: string): 'rejected' | 'interrupted' | null {
  const equal = turn.calls.filter((other) => other.call_id !== call.call_id && other.function_digest === digest)
  if (equal.some((other) => other.status === 'rejected')) return 'rejected'
  return equal.some((other) => other.status === 'interrupted') ? 'interrupted' : null
}
