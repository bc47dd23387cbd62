/*
 * Takes a signed decision, by whichever door it came: checks that it holds, closes the approval by compare-and-set, leaves a note in the
 * turn's inbox. The one place where an approval is decided.
 */
import { functionDigest, type Approval, type SignedDecision } from './approvals/approval'
import { decisionHolds, pageApprover } from './approvals/decide'
import { argumentsOf, decisionSubject } from './engine/judge'
import type { Engine } from './engine/engine'
import { newInboxItem } from './engine/steps/inbox'
import { HarnessError } from './errors'
import { untilUndisturbed } from './harness-parts'
import { decidedBy } from './harness-views'
import type { Caller } from './identity/principal'

/** How often it is looked again when somebody posted to the turn, or decided, in the same moment. */
const mostTries = 50

export function refuseWithoutReason(decision: SignedDecision['decision'], reason: string | null): void {
  if (decision !== 'reject' || (reason ?? '').trim() !== '') return
  throw new HarnessError('invalid_input', 'A rejection needs a reason; it is told to the model and kept on record.')
}

/** Of racing decisions one counts; the others throw `approval_closed`. */
export async function takeDecision(approval: Approval, decided: SignedDecision, caller: Caller, engine: Engine): Promise<'approved' | 'rejected'> {
  await refuseUnlessItHolds(approval, decided, caller, engine)
  const status = decided.decision === 'approve' ? ('approved' as const) : ('rejected' as const)
  const actor = decided.approver === pageApprover ? pageApprover : `approver:${decided.approver}`
  const at = engine.clock.now()
  return untilUndisturbed(mostTries, async () => {
    const turn = await engine.store.findTurn(approval.turn_id)
    const current = await engine.store.findApproval(approval.approval_id)
    if (turn === null || turn.finished_at !== null || current?.status !== 'pending') throw closed(current ?? approval)
    const item = newInboxItem(turn, { kind: 'decision', approval_id: approval.approval_id }, { principal: actor, at }, engine)
    await engine.store.commit({
      actor, at, session_id: approval.session_id,
      changes: [{ type: 'approval.decided', turn_id: turn.turn_id, approval_id: approval.approval_id, status, decided }, { type: 'inbox.posted', item }],
    })
    return status
  })
}

/** Throws `approval_closed` unless somebody may still answer. */
export function refuseIfClosed(approval: Approval, now: number): void {
  if (approval.status !== 'pending') throw closed(approval)
  if (now >= approval.expires_at) throw new HarnessError('approval_closed', `Approval ${approval.approval_id} has expired; the call will not run.`)
}

async function refuseUnlessItHolds(approval: Approval, decided: SignedDecision, caller: Caller, engine: Engine): Promise<void> {
  const now = engine.clock.now()
  refuseIfClosed(approval, now)
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
  const by = approval.decided === null ? '' : ` by ${decidedBy(approval.decided)}`
  return new HarnessError('approval_closed', `Approval ${approval.approval_id} is ${approval.status}${by}; it cannot be decided any more.`, { data: { status: approval.status } })
}
