/*
 * The operations behind the approval page. The key of the link opens one approval; it says nothing of who has it. What is signed is computed
 * from what the page shows. By name the page signs with a key of its own, where configuration lets it; else an approver's passphrase unlocks theirs.
 */
import { shownArguments, type SignedDecision } from './approvals/approval'
import { pageApprover, signDecision, type Approver } from './approvals/decide'
import type { Authority } from './authority'
import { HarnessError } from './errors'
import { detailOf, noSuchApproval } from './harness-approvals'
import { refuseIfClosed, refuseWithoutReason, takeDecision } from './harness-decisions'
import type { HarnessParts } from './harness-parts'
import { decidedBy, linkKeyHolds } from './harness-views'
import type { Caller } from './identity/principal'
import { requiredAssurance, suffices } from './policy/policy'
import type { OutputOf, ParsedOf } from './protocol/operations'

type Detail = OutputOf<'get_approval'>
type AnswerBy = OutputOf<'open_approval'>['answer_by']

/** What the page shows. Errors: `not_found` for an unknown id and a wrong key alike, `conflict` when the call was altered. Changes nothing. */
export async function openApprovalPage(input: ParsedOf<'open_approval'>, _caller: Caller, parts: HarnessParts): Promise<OutputOf<'open_approval'>> {
  await parts.engine.refreshAuthority()
  const detail = await detailBehind(input, parts)
  return { ...detail, ...(await waysToAnswer(detail, parts)) }
}

/**
 * Decides. Errors: `not_found` as above, `approval_closed`, `conflict` when what was shown is not what would be signed, `too_large`,
 * `invalid_input` for a rejection without reason or a name that hides something, `forbidden` for one who may not, and those of unlocking.
 */
export async function answerApproval(input: ParsedOf<'answer_approval'>, caller: Caller, parts: HarnessParts): Promise<OutputOf<'answer_approval'>> {
  const { engine } = parts
  await engine.refreshAuthority()
  const detail = await detailBehind(input, parts)
  const approval = await engine.store.findApproval(input.approval_id)
  if (approval === null) throw noSuchApproval(input.approval_id)
  refuseIfClosed(approval, engine.clock.now())
  refuseWithoutReason(input.decision, input.reason)
  const shown = input.approval_digest ?? detail.approval_digest
  // the row is not believed: whoever writes it must not have one thing shown and another signed
  if (!detail.is_current || shown !== detail.approval_digest || approval.approval_digest !== shown) {
    throw new HarnessError('conflict', `What approval ${input.approval_id} asks about is not what was shown, or was changed since it was asked. Open the page again.`)
  }
  if (input.decision === 'approve' && !shownArguments(detail.arguments).fits) {
    throw new HarnessError('too_large', `The arguments are too large for the page to show them whole. Decide with "agent-harness approvals approve ${input.approval_id}".`)
  }
  const decided = await signed(input, detail, parts)
  return { approval_id: input.approval_id, status: await takeDecision(approval, decided, caller, engine), decided_by: decidedBy(decided) }
}

/** An unknown id and a wrong key are the same to whoever asks, also in what is looked up. */
async function detailBehind({ approval_id, link_key }: { readonly approval_id: string; readonly link_key: string }, parts: HarnessParts): Promise<Detail> {
  const approval = await parts.engine.store.findApproval(approval_id)
  const holds = linkKeyHolds(parts.engine.sealKey, { approval_id, call_id: approval?.call_id ?? '' }, link_key)
  if (approval === null || !holds) throw noSuchApproval(approval_id)
  return detailOf(approval, parts)
}

async function waysToAnswer(detail: Detail, parts: HarnessParts): Promise<{ answer_by: AnswerBy; approvers: string[] }> {
  const authority = parts.engine.authority()
  const approvers: string[] = []
  for (const approver of authority.approvers.filter((candidate) => mayDecide(candidate, detail, authority))) {
    if (await parts.deciding.hasKey(approver.name)) approvers.push(approver.name)
  }
  const answer_by = nameCounts(detail, parts) ? 'name' : approvers.length > 0 ? 'passphrase' : 'nobody'
  return { answer_by, approvers }
}

function mayDecide(approver: Approver, detail: Detail, authority: Authority): boolean {
  return approver.active && hasRole(approver.roles, detail, authority) && !(authority.four_eyes && approver.name === detail.requested_by)
}

/** By the function's entry in the configuration, not by the row. */
function hasRole(roles: readonly string[], { function_id }: Detail, { functions }: Authority): boolean {
  return functions.get(function_id)?.approver_roles.some((role) => roles.includes(role)) === true
}

/** Where configuration has this home's page as a channel, and that is sure enough for this risk. */
function nameCounts(detail: Detail, { engine, deciding }: HarnessParts): boolean {
  const authority = engine.authority()
  const page = authority.channels.find((channel) => channel.name === 'page')
  if (page === undefined || !page.active || page.public_key !== deciding.pagePublicKey || !hasRole(page.roles, detail, authority)) return false
  return suffices('channel-asserted', requiredAssurance(authority.profile, detail.risk))
}

async function signed(input: ParsedOf<'answer_approval'>, detail: Detail, parts: HarnessParts): Promise<SignedDecision> {
  const { decision, reason, passphrase } = input
  const responder = plainResponder(input.responder)
  const answer = (): Pick<SignedDecision, 'decision' | 'reason'> & { decided_at: number; channel: 'page' } =>
    ({ decision, reason: reason === null || reason.trim() === '' ? null : reason, decided_at: parts.engine.clock.now(), channel: 'page' })
  if (passphrase === undefined || passphrase === '') {
    if (!nameCounts(detail, parts)) throw new HarnessError('forbidden', `A name does not decide ${input.approval_id} here: an approver answers, with their passphrase.`)
    return signDecision(parts.deciding.pageKey(), detail.approval_digest, { ...answer(), approver: pageApprover, responder })
  }
  const { approvers } = await waysToAnswer(detail, parts)
  if (!approvers.includes(responder)) throw new HarnessError('forbidden', 'Whoever answers with a passphrase is one of the approvers that may decide this.')
  const key = await parts.deciding.unlock(responder, passphrase)
  return signDecision(key, detail.approval_digest, { ...answer(), approver: responder })
}

/** A name stands on screens and in the record: nothing in it may turn the text around it or hide. */
function plainResponder(name: string): string {
  if (!/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u.test(name)) return name
  throw new HarnessError('invalid_input', 'The name holds characters that do not show. Write it plainly.')
}
