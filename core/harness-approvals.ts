/* The operations on approvals. Deciding takes an approver's signature; who calls the operation is not who decides. */
import { approvalDigest, functionDigest, type Approval } from './approvals/approval'
import { decisionHolds } from './approvals/decide'
import { sealHolds } from './digest'
import { HarnessError, isHarnessError } from './errors'
import { callSealFacts, type Turn } from './turn/turn'
import { operatorRole, type Caller } from './identity/principal'
import type { Engine } from './engine/engine'
import { argumentsOf, decisionSubject, judgeCall } from './engine/judge'
import type { Reason } from './policy/policy'
import type { Call } from './turn/call'
import { newInboxItem } from './engine/steps/inbox'
import { approvalView, shownId } from './harness-views'
import type { HarnessParts } from './harness-parts'
import type { OutputOf, ParsedOf } from './protocol/operations'

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
  const approval = await visibleApproval(input.approval_id, caller, parts.engine)
  const turn = await parts.engine.store.loadTurn(approval.turn_id)
  const call = turn?.calls.find((candidate) => candidate.call_id === approval.call_id) ?? null
  const authority = parts.engine.authority()
  const entry = authority.functions.get(approval.function_id)
  const args = call === null ? null : argumentsOf(call)
  if (turn === null || call === null || args === null || !sealHolds(parts.engine.sealKey, 'call', callSealFacts(call), call.seal)) {
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

export async function visibleApproval(approvalId: string, caller: Caller, engine: Engine): Promise<Approval> {
  const approval = await engine.store.findApproval(approvalId)
  if (approval === null || !maySeeApproval(caller, approval)) {
    throw new HarnessError('not_found', `There is no approval ${shownId(approvalId)} that you may see. "agent-harness approvals list" shows those there are.`, { data: { approval_id: approvalId } })
  }
  return approval
}

export async function decideApproval(input: ParsedOf<'decide_approval'>, caller: Caller, { engine }: HarnessParts): Promise<OutputOf<'decide_approval'>> {
  if (input.decision === 'reject' && (input.reason === null || input.reason.trim() === '')) {
    throw new HarnessError('invalid_input', 'A rejection needs a reason; it is told to the model and kept on record.')
  }
  await engine.refreshAuthority()
  const approval = await visibleApproval(input.approval_id, caller, engine)
  const { decision, approver, decided_at, reason, channel, signature } = input
  const decided = { decision, approver, decided_at, reason, channel, signature }
  await refuseUnlessItHolds(approval, decided, caller, engine)

  const status = decision === 'approve' ? ('approved' as const) : ('rejected' as const)
  const at = engine.clock.now()
  for (let tries = 1; ; tries += 1) {
    const turn = await engine.store.findTurn(approval.turn_id)
    const current = await engine.store.findApproval(approval.approval_id)
    if (turn === null || turn.finished_at !== null || current?.status !== 'pending') throw closed(current ?? approval)
    const item = newInboxItem(turn, { kind: 'decision', approval_id: approval.approval_id }, { principal: `approver:${approver}`, at }, engine)
    try {
      await engine.store.commit({
        actor: `approver:${approver}`, at, session_id: approval.session_id,
        changes: [{ type: 'approval.decided', turn_id: turn.turn_id, approval_id: approval.approval_id, status, decided }, { type: 'inbox.posted', item }],
      })
      return { approval_id: approval.approval_id, status }
    } catch (error) {
      // somebody posted to the turn, or decided, in the same moment: look again
      if (!isHarnessError(error) || error.code !== 'conflict' || tries >= 50) throw error
    }
  }
}

async function refuseUnlessItHolds(approval: Approval, decided: NonNullable<Approval['decided']>, caller: Caller, engine: Engine): Promise<void> {
  const now = engine.clock.now()
  if (approval.status !== 'pending') throw closed(approval)
  if (now >= approval.expires_at) throw new HarnessError('approval_closed', `Approval ${approval.approval_id} has expired; the call will not run.`)
  const call = await engine.store.findCall(approval.call_id)
  const entry = engine.authority().functions.get(approval.function_id)
  const args = call === null ? null : argumentsOf(call)
  if (entry === undefined || args === null) {
    throw new HarnessError('conflict', `${approval.function_id} is not in the configuration any more; approval ${approval.approval_id} can only run out.`)
  }
  const subject = decisionSubject(engine.authority(), entry, functionDigest(entry, args), approval.owner)
  const checked = decided.decided_at > now + 60_000 ? { holds: false as const, why: 'The decision is dated in the future.' } : decisionHolds(approval, decided, subject)
  if (checked.holds) return
  await engine.store.commit({
    actor: caller.principal.id, at: now, session_id: null,
    changes: [{ type: 'decision.refused', approval_id: approval.approval_id, approver: decided.approver, why: checked.why }],
  })
  throw new HarnessError('forbidden', `The decision on ${approval.approval_id} does not count: ${checked.why}`)
}

function closed(approval: Approval): HarnessError {
  const by = approval.decided === null ? '' : ` by ${approval.decided.approver}`
  return new HarnessError('approval_closed', `Approval ${approval.approval_id} is ${approval.status}${by}; it cannot be decided any more.`, { data: { status: approval.status } })
}

export async function openApprovalPage(_input: ParsedOf<'open_approval'>, _caller: Caller, _parts: HarnessParts): Promise<OutputOf<'open_approval'>> {
  throw new HarnessError('invariant_broken', 'open_approval is not there yet.')
}

export async function answerApproval(_input: ParsedOf<'answer_approval'>, _caller: Caller, _parts: HarnessParts): Promise<OutputOf<'answer_approval'>> {
  throw new HarnessError('invariant_broken', 'answer_approval is not there yet.')
}
