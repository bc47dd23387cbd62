/* How a turn and an approval look from outside: the seeds' words, the people's words, and never more than the caller may see. */
import type { Approval, SignedDecision } from './approvals/approval'
import { pageApprover } from './approvals/decide'
import { seal, sealHolds } from './digest'
import type { ApprovalView, State, TurnView } from './protocol/operations'
import { askedIn, questionOf } from './turn/ask-person'
import { isSettled, type Call } from './turn/call'
import { jsonOf } from './turn/content'
import type { TurnRow } from './turn/turn'

/** What people are told: working, held, or how it ended. */
export function stateOf(turn: Pick<TurnRow, 'status' | 'park' | 'inbox_posted' | 'inbox_seen'>): State {
  switch (turn.status) {
    case 'completed':
    case 'failed':
    case 'cancelled':
      return turn.status
    case 'waiting_approval':
      return 'held'
    case 'awaiting_functions':
      // once somebody decided, or said something, the turn is about to go on
      return turn.park === 'approval' && turn.inbox_posted === turn.inbox_seen ? 'held' : 'working'
    default:
      return 'working'
  }
}

/** The seed has no word for queued and waiting_approval. */
function seedStatus(turn: TurnRow): TurnView['status'] {
  if (turn.status === 'queued') return 'running'
  return turn.status === 'waiting_approval' ? 'awaiting_functions' : turn.status
}

/** An id that somebody gave, in a sentence: what could change a screen is written out. */
export function shownId(id: string): string {
  return /^[\x21-\x7e]+$/.test(id) ? id : quoted(id)
}

/** In quotes, and in printable ASCII. */
export function quoted(text: string): string {
  return JSON.stringify(text).replace(/[^\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** An approver's name is proven by their signature; a name that was given on the page is not, and says so wherever it is shown. */
export function decidedBy({ approver, responder }: Pick<SignedDecision, 'approver' | 'responder'>): string {
  return approver === pageApprover ? `${String(responder)} (by the page, name not verified)` : approver
}

/** What a link opens. With the call, so that a key told while somebody had the row name another call opens nothing afterwards. */
type Linked = Pick<Approval, 'approval_id' | 'call_id'>

/** Opens the approval page of this one approval. Never for a model. */
export function linkKey(sealKey: Buffer, { approval_id, call_id }: Linked): string {
  return seal(sealKey, 'approval_link', { approval_id, call_id })
}

/** In constant time. */
export function linkKeyHolds(sealKey: Buffer, { approval_id, call_id }: Linked, given: string): boolean {
  return sealHolds(sealKey, 'approval_link', { approval_id, call_id }, given)
}

export function approvalView(approval: Approval): ApprovalView {
  const { approval_id, status, session_id, turn_id, function_id, approver_roles, created_at, expires_at, decided } = approval
  return {
    approval_id, status, session_id, turn_id, function_call_id: approval.call_id, function_id, requested_by: approval.owner, approver_roles: [...approver_roles],
    created_at, expires_at, decided_by: decided === null ? null : decidedBy(decided), decided_at: decided?.decided_at ?? null, reason: decided?.reason ?? null,
    channel: decided?.channel ?? null, responder: decided?.responder ?? null,
  }
}

function waitsFor(calls: readonly Call[]): string {
  const names = [...new Set(calls.map((call) => call.function_id))].join(', ')
  return `Waits for ${names}: the workflow is not active. The call goes out when it is active again; deactivated by hand, it is denied.`
}

export function turnView(turn: TurnRow, facts: { calls: readonly Call[]; approvals: readonly Approval[]; worker: string }): TurnView {
  const { calls, approvals, worker } = facts
  const result = jsonOf(turn.result?.text)
  const waiting = turn.park === 'function' ? calls.filter((call) => call.status === 'allowed' || call.status === 'started') : []
  const question = turn.reason === 'asked_person' ? questionOf(askedIn(calls, turn.rounds)) : null
  return {
    session_id: turn.session_id, turn_id: turn.turn_id, execution_id: turn.execution_id, kind: turn.kind, status: seedStatus(turn), state: stateOf(turn),
    reason: turn.reason, detail: waiting.length === 0 ? turn.detail : waitsFor(waiting), step: turn.rounds, turn_count: turn.rounds, max_turns: turn.spec.max_turns, depth: 0, children: [],
    pending_function_calls: calls.filter((call) => !isSettled(call.status)).map((call) => call.call_id),
    calls: calls.map((call) => ({
      function_call_id: call.call_id, function_id: call.function_id, status: call.status, reason: waiting.includes(call) ? 'waits_for_workflow' : call.reason, ...(call.result === null ? {} : { result: jsonOf(call.result.text) }),
    })),
    approvals: approvals.map(approvalView), worker, question: question === null ? null : { ...question, choices: [...question.choices] },
    ...(result === null ? {} : { result }),
    ...(turn.detail !== null && turn.status !== 'completed' && turn.finished_at !== null ? { result_error: turn.detail } : {}),
  }
}
