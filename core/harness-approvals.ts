/* The operations on approvals. Deciding takes a signature; who calls the operation is not who decides. */
import { approvalDigest, functionDigest, type Approval } from './approvals/approval'
import { sealHolds } from './digest'
import { HarnessError } from './errors'
import { callSealFacts, type Turn } from './turn/turn'
import { operatorRole, type Caller } from './identity/principal'
import type { Engine } from './engine/engine'
import { argumentsOf, judgeCall } from './engine/judge'
import type { Reason } from './policy/policy'
import type { Call } from './turn/call'
import { refuseWithoutReason, takeDecision } from './harness-decisions'
import { approvalView, shownId } from './harness-views'
import type { HarnessParts } from './harness-parts'
import type { ApprovalDetail, OutputOf, ParsedOf } from './protocol/operations'

/** Owner, operator, or somebody with a role that may decide it. */
function maySeeApproval(caller: Caller, approval: Approval): boolean {
  const { id, roles } = caller.principal
  return approval.owner === id || roles.includes(operatorRole) || approval.approver_roles.some((role) => roles.includes(role))
}

/** Whether there may be approvals of others that the caller may see. */
function seesOthers(caller: Caller, engine: Engine): boolean {
  const { roles } = caller.principal
  return roles.includes(operatorRole) || [...engine.authority().functions.values()].some((entry) => entry.approver_roles.some((role) => roles.includes(role)))
}

export async function listApprovals(input: ParsedOf<'list_approvals'>, caller: Caller, parts: HarnessParts): Promise<OutputOf<'list_approvals'>> {
  const found = await parts.engine.store.listApprovals({ owner: seesOthers(caller, parts.engine) ? null : caller.principal.id, status: input.status ?? null, session_id: input.session_id ?? null, limit: 1_000 })
  const visible = found.filter((approval) => maySeeApproval(caller, approval)).slice(0, input.limit ?? 50)
  return { approvals: visible.map(approvalView), how_to_decide: parts.howToDecide(null) }
}

export async function getApproval(input: ParsedOf<'get_approval'>, caller: Caller, parts: HarnessParts): Promise<OutputOf<'get_approval'>> {
  return detailOf(await visibleApproval(input.approval_id, caller, parts.engine), parts)
}

/** What a person decides on: from configuration and the sealed call, never from what the approval's row says of them. */
export async function detailOf(approval: Approval, parts: HarnessParts): Promise<ApprovalDetail> {
  const turn = await parts.engine.store.loadTurn(approval.turn_id)
  const call = turn?.calls.find((candidate) => candidate.call_id === approval.call_id) ?? null
  const authority = parts.engine.authority()
  const entry = authority.functions.get(approval.function_id)
  const args = call === null ? null : argumentsOf(call)
  if (turn === null || call === null || args === null || call.function_id !== approval.function_id || !sealHolds(parts.engine.sealKey, 'call', callSealFacts(call), call.seal)) {
    throw new HarnessError('conflict', `The call that approval ${approval.approval_id} asks about was altered outside the harness. Do not decide it; run "agent-harness audit verify".`)
  }
  // of what is shown here, so that a signature stands for what its signer saw, whatever the rows said before or say later
  const shown = entry === undefined ? approval.approval_digest : approvalDigest(authority.deployment, { ...approval, function_digest: functionDigest(entry, args) })
  return {
    ...approvalView(approval),
    arguments: args,
    why: whyHeld(call, turn, parts.engine).map((reason) => `${reason.text} (${reason.layer}, rule ${reason.rule})`),
    description: entry?.description ?? 'This function is not in the configuration any more.',
    risk: entry?.risk ?? 'high',
    side_effects: entry?.side_effects ?? 'write',
    approval_digest: shown,
    is_current: entry !== undefined && shown === approval.approval_digest,
    how_to_decide: parts.howToDecide(approval.approval_id),
  }
}

/** From configuration, not from the row: what a person reads before deciding must not be writable. Empty when nothing holds it any more. */
function whyHeld(call: Call, turn: Turn, engine: Engine): readonly Reason[] {
  const judgement = judgeCall(call, turn, engine)
  return judgement.effect === 'hold' ? judgement.verdict.reasons.filter((reason) => reason.decisive) : []
}

/** For unknown ids, foreign ones, and links with a wrong key. */
export function noSuchApproval(approvalId: string): HarnessError {
  return new HarnessError('not_found', `There is no approval ${shownId(approvalId)} that you may see. "agent-harness approvals list" shows those there are.`, { data: { approval_id: approvalId } })
}

export async function visibleApproval(approvalId: string, caller: Caller, engine: Engine): Promise<Approval> {
  const approval = await engine.store.findApproval(approvalId)
  if (approval === null || !maySeeApproval(caller, approval)) {
    throw noSuchApproval(approvalId)
  }
  return approval
}

export async function decideApproval(input: ParsedOf<'decide_approval'>, caller: Caller, { engine }: HarnessParts): Promise<OutputOf<'decide_approval'>> {
  refuseWithoutReason(input.decision, input.reason)
  await engine.refreshAuthority()
  const approval = await visibleApproval(input.approval_id, caller, engine)
  const { decision, approver, decided_at, reason, channel, signature } = input
  const status = await takeDecision(approval, { decision, approver, decided_at, reason, channel, signature }, caller, engine)
  return { approval_id: approval.approval_id, status }
}
