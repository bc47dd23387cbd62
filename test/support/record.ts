/* An honest record without an engine: the commits of one turn with a call that a person allowed, as the engine makes them. */
import { randomIds, type Ids } from '../../core/ids'
import type { SignedDecision } from '../../core/approvals/approval'
import { eventHash, type Execution, type ExecutionEvent } from '../../core/executions/execution'
import type { Store } from '../../core/store/store'
import type { Call } from '../../core/turn/call'
import { turnCreated, type Change } from '../../core/turn/changes'
import { newContent } from '../../core/turn/content'
import type { InboxBody, InboxItem } from '../../core/turn/inbox'
import { nothingAsked, type Message, type TurnRow } from '../../core/turn/turn'

export interface Recorded {
  readonly session_id: string
  readonly execution_id: string
  readonly turn_id: string
  readonly call_id: string
  readonly approval_id: string
  /** Chains. */
  readonly session: string
  readonly execution: string
  /** Ids of texts. */
  readonly question: string
  readonly arguments: string
  readonly result: string
}

/** The commits of one turn from send to its end, one after the other: eight rows in the session's chain, one in the execution's. */
export function* commitsOf(at = 1_000, sessionId?: string, ids: Ids = randomIds): Generator<Parameters<Store['commit']>[0], Recorded> {
  const session_id = sessionId ?? ids.next('s')
  const [execution_id, turn_id, call_id, approval_id] = [ids.next('x'), ids.next('t'), ids.next('c'), ids.next('a')]
  const [payload, spec_content] = [newContent(ids, '{}'), newContent(ids, JSON.stringify(nothingAsked))]
  const [question, answer] = [newContent(ids, 'Order 3 blue chairs'), newContent(ids, 'I order them.')]
  const [args, result] = [newContent(ids, '{"sku":"blue"}'), newContent(ids, '{"ok":true}')]
  const base = { session_id, turn_id }
  const event: ExecutionEvent = {
    source: { type: 'external_system', id: 'test' }, actor: { type: 'user', id: 'user:ann' }, intent: 'agent_turn',
    constraints: { allow_cloud: false, require_audit: true, risk_level: 'low' },
  }
  const execution: Execution = {
    ...event, ...base, execution_id, owner: 'user:ann', payload, event_hash: eventHash(event, payload), corrects_execution_id: null, created_at: at,
  }
  const turn: TurnRow = {
    ...base, execution_id, owner: 'user:ann', kind: 'agent', agent: 'assistant', spec: nothingAsked, spec_content, seal: 'seal', status: 'queued',
    reason: null, detail: null, park: null, wake_at: null, rounds: 0, claims: 0, lease_epoch: 0, inbox_posted: 0, inbox_seen: 0, result: null,
    created_at: at, started_at: null, finished_at: null, deadline_at: at + 60_000,
  }
  const post = (seq: number, body: InboxBody): InboxItem => {
    return { inbox_id: ids.next('i'), ...base, seq, principal: 'user:ann', posted_at: at, seal: 'seal', ...body }
  }
  // a later turn of a session is at a later time, so that its messages come after
  let ordinal = sessionId === undefined ? 0 : at
  const message = (role: Message['role'], content: Message['content']): Change => {
    ordinal += 1
    const facts = { message_id: ids.next('m'), ...base, ordinal, step: 0, role, content, seal: 'seal', reply: null, created_at: at }
    return { type: 'message.appended', message: facts }
  }
  const fold = ({ inbox_id, seq, kind, principal }: InboxItem): Change => {
    return { type: 'inbox.folded', turn_id, inbox_id, seq, kind, principal, fate: 'done' }
  }
  const call: Call = {
    call_id, turn_id, step: 1, ordinal: 0, function_id: 'shop::order', arguments: args, seal: 'seal', status: 'proposed', reason: null, reasons: [],
    function_digest: null, approval_id: null, started_epoch: null, attempts: 0, result: null, proposed_at: at, started_at: null, settled_at: null,
  }
  const judged = (from: Call['status'], to: 'held' | 'allowed'): Change => ({
    type: 'call.judged', turn_id, call_id, from, to, reason: to === 'held' ? 'policy' : null, reasons: [], function_digest: 'f'.repeat(64),
    approval_id, result: null, at,
  })
  const decided: SignedDecision = { decision: 'approve', approver: 'ann', decided_at: at, reason: null, channel: 'command_line', signature: 'c2ln' }
  const work = (changes: readonly Change[], epoch?: number): Parameters<Store['commit']>[0] => ({
    actor: epoch === undefined ? 'user:ann' : 'worker:w_test', at, changes, session_id, ...(epoch === undefined ? {} : { fence: { turn_id, epoch } }),
  })
  const claim = (epoch: number): Change => ({ type: 'turn.claimed', turn_id, epoch, worker: 'w_test', at })
  const [asked, told] = [post(1, { kind: 'message', content: question }), post(2, { kind: 'decision', approval_id })]

  const session: Change = { type: 'session.created', session: { session_id, owner: 'user:ann', title: null, created_at: at } }
  const created = sessionId === undefined ? [session] : []
  yield work([...created, { type: 'execution.accepted', execution }, turnCreated(turn), { type: 'inbox.posted', item: asked }])
  yield work([claim(1)])
  yield work([message('user', question), fold(asked)], 1)
  yield work(
    [
      message('assistant', answer), { type: 'call.proposed', call }, judged('proposed', 'held'),
      {
        type: 'approval.opened',
        approval: {
          approval_id, execution_id, ...base, call_id, owner: 'user:ann', function_id: 'shop::order', function_digest: 'f'.repeat(64),
          approval_digest: 'd'.repeat(64), assurance: 'human-verified', approver_roles: ['approver'], status: 'pending', created_at: at,
          expires_at: at + 60_000, decided: null,
        },
      },
      { type: 'turn.parked', turn_id, park: 'approval', wake_at: at + 60_000, inbox_seen: 1 },
    ],
    1,
  )
  yield work([{ type: 'approval.decided', turn_id, approval_id, status: 'approved', decided }, { type: 'inbox.posted', item: told }])
  yield work([claim(2)])
  yield work([fold(told), judged('held', 'allowed'), { type: 'call.started', turn_id, call_id, from: 'allowed', epoch: 2, attempts: 1, at }], 2)
  yield work(
    [
      { type: 'call.settled', turn_id, call_id, from: 'started', to: 'succeeded', reason: null, result, at },
      { type: 'turn.finished', turn_id, status: 'completed', reason: 'done', detail: null, result: answer, inbox_seen: 2, at },
    ],
    2,
  )
  return {
    session_id, execution_id, turn_id, call_id, approval_id, session: `session:${session_id}`, execution: `execution:${execution_id}`,
    question: question.content_id, arguments: args.content_id, result: result.content_id,
  }
}

/** Commits one turn, in a session of its own unless one is given. */
export async function recordTurn(store: Pick<Store, 'commit'>, at = 1_000, sessionId?: string): Promise<Recorded> {
  const commits = commitsOf(at, sessionId)
  for (;;) {
    const next = commits.next()
    if (next.done === true) return next.value
    await store.commit(next.value)
  }
}
