/* Turns, calls, questions and messages as plain values, for tests of what is pure. Everything has a default; a test names what matters. */
import type { Approval } from '../../core/approvals/approval'
import type { Call, CallStatus } from '../../core/turn/call'
import type { Content } from '../../core/turn/content'
import type { InboxItem } from '../../core/turn/inbox'
import { nothingAsked, type Message, type ReplyFacts, type Turn } from '../../core/turn/turn'

export const content = (text: string): Content => ({ content_id: `k_${text}`, salt: 'salt', digest: `digest of ${text}`, text })

export function aTurn(facts: Partial<Turn> = {}): Turn {
  return {
    turn_id: 't_1', session_id: 's_1', execution_id: 'x_1', owner: 'local', kind: 'agent', agent: 'assistant', seal: 'seal',
    spec: { ...nothingAsked, max_turns: 16 }, spec_content: content('spec'),
    status: 'running', reason: null, detail: null, park: null, wake_at: null, rounds: 0, claims: 1, lease_epoch: 1, inbox_posted: 0, inbox_seen: 0,
    result: null, created_at: 0, started_at: 1, finished_at: null, deadline_at: 10_000,
    stop: null, messages: [], calls: [], history: [], approvals: [], inbox: [], failure: null, ...facts,
  }
}

/** What each status brings along: a held call has a question, a started one an epoch, a settled one a result. */
export function aCall(status: CallStatus, facts: Partial<Call> = {}): Call {
  const settled = !['proposed', 'held', 'allowed', 'started', 'pending'].includes(status)
  return {
    call_id: `c_${status}`, turn_id: 't_1', step: 1, ordinal: 0, function_id: 'shop::note', arguments: content('{}'), seal: 'seal', status,
    reason: null, reasons: [], function_digest: status === 'proposed' ? null : 'f', approval_id: status === 'held' ? 'a_1' : null,
    started_epoch: status === 'started' ? 1 : null, attempts: 0, result: settled ? content('result') : null, proposed_at: 0, started_at: null,
    settled_at: null, ...facts,
  }
}

export function anApproval(facts: Partial<Approval> = {}): Approval {
  return {
    approval_id: 'a_1', execution_id: 'x_1', session_id: 's_1', turn_id: 't_1', call_id: 'c_held', owner: 'local', function_id: 'shop::note',
    function_digest: 'f', approval_digest: 'd', assurance: 'human-verified', approver_roles: ['approver'], status: 'pending', created_at: 0,
    expires_at: 5_000, decided: null, ...facts,
  }
}

const reply: ReplyFacts = { model: 'm', provider: 'p', stop_reason: 'end', native_stop_reason: null, usage: {}, warnings: [], calls: 0 }

/** What a model answered; `calls` is how many it asks for. */
export function anAnswer(calls: number, facts: Partial<ReplyFacts> = {}): Message {
  return {
    message_id: 'm_answer', session_id: 's_1', turn_id: 't_1', ordinal: 2, step: 1, role: 'assistant', content: content('answer'), seal: 'seal',
    reply: { ...reply, calls, ...facts }, created_at: 0,
  }
}

export function aQuestion(turnId = 't_1'): Message {
  return { ...anAnswer(0), message_id: 'm_question', turn_id: turnId, ordinal: 1, step: 0, role: 'user', content: content('question'), reply: null }
}

export function anItem(kind: InboxItem['kind'], seq = 1): InboxItem {
  const base = { inbox_id: `i_${String(seq)}`, session_id: 's_1', turn_id: 't_1', seq, principal: 'local', posted_at: 0, seal: 'seal' }
  switch (kind) {
    case 'message':
      return { ...base, kind, content: content('said') }
    case 'decision':
      return { ...base, kind, approval_id: 'a_1' }
    case 'stop':
      return { ...base, kind }
  }
}
