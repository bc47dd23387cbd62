/* From rows to the core's types. A text comes with the digest of what is really there, so that an edited text contradicts its seal. */
import type { Approval, SignedDecision } from '../approvals/approval'
import type { Checkpoint } from '../audit/checkpoint'
import { areHeads } from '../audit/verify-checkpoints'
import type { Execution } from '../executions/execution'
import type { RegistrationRow } from '../policy/registration'
import { awaitStatuses, type Await } from '../turn/await'
import type { Call } from '../turn/call'
import { contentDigest, type Content } from '../turn/content'
import type { InboxItem } from '../turn/inbox'
import type { Session } from '../turn/changes'
import { nothingAllowed, type Message, type TurnRow, type TurnSpec } from '../turn/turn'
import type { AuditRow, WorkerRow } from './store'
import type { Row } from './sql'

const text = (row: Row, column: string): string => String(row[column] ?? '')
const textOrNull = (row: Row, column: string): string | null => (row[column] === null || row[column] === undefined ? null : String(row[column]))
const number = (row: Row, column: string): number => Number(row[column] ?? 0)
const numberOrNull = (row: Row, column: string): number | null => (row[column] === null || row[column] === undefined ? null : Number(row[column]))

/** JSON as we wrote it. What was edited into another kind of value is `otherwise`, which gives no rights: damage, not a crash; the record shows it. */
function json<T extends object | null>(row: Row, column: string, otherwise: T): T {
  try {
    const value: unknown = JSON.parse(text(row, column))
    return typeof value === 'object' && value !== null && Array.isArray(value) === Array.isArray(otherwise) ? (value as T) : otherwise
  } catch {
    return otherwise
  }
}

/** `prefix` names the join: columns `<prefix>_id`, `_salt`, `_digest`, `_text`. */
function content(row: Row, prefix: string): Content {
  const salt = text(row, `${prefix}_salt`)
  const stored = textOrNull(row, `${prefix}_text`)
  const digest = stored === null ? text(row, `${prefix}_digest`) : contentDigest(salt, stored)
  return { content_id: text(row, `${prefix}_id`), salt, digest, text: stored }
}

const contentOrNull = (row: Row, prefix: string): Content | null => (textOrNull(row, `${prefix}_id`) === null ? null : content(row, prefix))

/** The columns that `content` reads, for a select list. */
export function contentColumns(alias: string, prefix: string): string {
  return ['content_id', 'salt', 'digest', 'text'].map((column) => `${alias}.${column} AS ${prefix}_${column.replace('content_', '')}`).join(', ')
}

export function toTurnRow(row: Row): TurnRow {
  return {
    turn_id: text(row, 'turn_id'), session_id: text(row, 'session_id'), execution_id: text(row, 'execution_id'), owner: text(row, 'owner'),
    kind: text(row, 'kind') as TurnRow['kind'], agent: text(row, 'agent'), ...specOf(row), seal: text(row, 'seal'),
    status: text(row, 'status') as TurnRow['status'], reason: textOrNull(row, 'reason') as TurnRow['reason'], detail: textOrNull(row, 'detail'),
    park: textOrNull(row, 'park') as TurnRow['park'], wake_at: numberOrNull(row, 'wake_at'), rounds: number(row, 'rounds'), claims: number(row, 'claims'),
    lease_epoch: number(row, 'lease_epoch'), inbox_posted: number(row, 'inbox_posted'), inbox_seen: number(row, 'inbox_seen'), result: contentOrNull(row, 'result'),
    created_at: number(row, 'created_at'), started_at: numberOrNull(row, 'started_at'), finished_at: numberOrNull(row, 'finished_at'),
    deadline_at: number(row, 'deadline_at'),
  }
}

/** Erased with the other texts of an old turn, or by one who wants it to have no limits: it may then do nothing. */
function specOf(row: Row): Pick<TurnRow, 'spec' | 'spec_content'> {
  const spec_content = content(row, 'spec')
  return { spec_content, spec: spec_content.text === null ? nothingAllowed : json<TurnSpec>(row, 'spec_text', nothingAllowed) }
}

export function toSession(row: Row): Session {
  return { session_id: text(row, 'session_id'), owner: text(row, 'owner'), title: contentOrNull(row, 'title'), created_at: number(row, 'created_at') }
}

export function toMessage(row: Row): Message {
  return {
    message_id: text(row, 'message_id'), session_id: text(row, 'session_id'), turn_id: text(row, 'turn_id'), ordinal: number(row, 'ordinal'),
    step: number(row, 'step'), role: text(row, 'role') as Message['role'], content: content(row, 'content'), seal: text(row, 'seal'),
    reply: json<Message['reply']>(row, 'reply', null), created_at: number(row, 'created_at'),
  }
}

export function toCall(row: Row): Call {
  return {
    call_id: text(row, 'call_id'), turn_id: text(row, 'turn_id'), step: number(row, 'step'), ordinal: number(row, 'ordinal'),
    function_id: text(row, 'function_id'), arguments: content(row, 'arguments'), seal: text(row, 'seal'), status: text(row, 'status') as Call['status'],
    reason: textOrNull(row, 'reason'), reasons: json<Call['reasons']>(row, 'reasons', []), function_digest: textOrNull(row, 'function_digest'),
    approval_id: textOrNull(row, 'approval_id'), started_epoch: numberOrNull(row, 'started_epoch'), attempts: number(row, 'attempts'),
    result: contentOrNull(row, 'result'), proposed_at: number(row, 'proposed_at'), started_at: numberOrNull(row, 'started_at'),
    settled_at: numberOrNull(row, 'settled_at'),
  }
}

export function toInboxItem(row: Row): InboxItem {
  const base = {
    inbox_id: text(row, 'inbox_id'), session_id: text(row, 'session_id'), turn_id: text(row, 'turn_id'), seq: number(row, 'seq'),
    principal: text(row, 'principal'), posted_at: number(row, 'posted_at'), seal: text(row, 'seal'),
  }
  switch (row['kind']) {
    case 'message':
      return { ...base, kind: 'message', content: content(row, 'content') }
    case 'decision':
      return { ...base, kind: 'decision', approval_id: text(row, 'approval_id') }
    default:
      return { ...base, kind: 'stop' }
  }
}

export function toApproval(row: Row): Approval {
  return {
    approval_id: text(row, 'approval_id'), execution_id: text(row, 'execution_id'), session_id: text(row, 'session_id'), turn_id: text(row, 'turn_id'),
    call_id: text(row, 'call_id'), owner: text(row, 'owner'), function_id: text(row, 'function_id'), function_digest: text(row, 'function_digest'),
    approval_digest: text(row, 'approval_digest'), assurance: text(row, 'assurance') as Approval['assurance'], approver_roles: json<Approval['approver_roles']>(row, 'approver_roles', []),
    status: text(row, 'status') as Approval['status'], created_at: number(row, 'created_at'), expires_at: number(row, 'expires_at'),
    decided: json<SignedDecision | null>(row, 'decided', null),
  }
}

export function toExecution(row: Row): Execution {
  return {
    execution_id: text(row, 'execution_id'), session_id: text(row, 'session_id'), turn_id: text(row, 'turn_id'), owner: text(row, 'owner'),
    source: { type: text(row, 'source_type') as Execution['source']['type'], id: text(row, 'source_id') },
    actor: { type: text(row, 'actor_type') as Execution['actor']['type'], id: text(row, 'actor_id') }, intent: text(row, 'intent'),
    constraints: {
      allow_cloud: number(row, 'allow_cloud') === 1, require_audit: number(row, 'require_audit') === 1,
      risk_level: text(row, 'risk_level') as Execution['constraints']['risk_level'],
    },
    payload: content(row, 'payload'), event_hash: text(row, 'event_hash'), corrects_execution_id: textOrNull(row, 'corrects_execution_id'),
    created_at: number(row, 'created_at'),
  }
}

export function toAuditRow(row: Row): AuditRow {
  return {
    chain: text(row, 'chain'), seq: number(row, 'seq'), at: number(row, 'at'), actor: text(row, 'actor'), changes: text(row, 'changes'),
    prev_hash: text(row, 'prev_hash'), hash: text(row, 'hash'),
  }
}

export function toAwait(row: Row, subjects: readonly string[]): Await {
  return {
    await_id: text(row, 'await_id'), owner: text(row, 'owner'), kind: text(row, 'kind') as Await['kind'], until: text(row, 'until') as Await['until'], subjects,
    deadline: numberOrNull(row, 'deadline'), created_at: number(row, 'created_at'), seal: text(row, 'seal'), callback: contentOrNull(row, 'callback'),
    status: awaitStatuses.find((status) => status === row['status']) ?? 'cancelled', outcome: textOrNull(row, 'outcome') as Await['outcome'],
    answered: textOrNull(row, 'answered'), news: number(row, 'news'), attempts: number(row, 'attempts'), streak: number(row, 'streak'),
    due_at: numberOrNull(row, 'due_at'), next_at: numberOrNull(row, 'next_at'), last_answer: textOrNull(row, 'last_answer'),
  }
}

/** Heads that are unreadable are none: the root then shows it, and new checkpoints go on. */
export function toCheckpoint(row: Row): Checkpoint {
  const heads: unknown = json<readonly unknown[]>(row, 'heads', [])
  return { number: number(row, 'number'), at: number(row, 'at'), heads: areHeads(heads) ? heads : [], root: text(row, 'root'), signature: text(row, 'signature') }
}

export function toRegistration(row: Row): RegistrationRow {
  return {
    id: text(row, 'id'), workflow_id: text(row, 'workflow_id'), entry: text(row, 'entry'), status: text(row, 'status') as RegistrationRow['status'],
    seal: text(row, 'seal'), registered_by: text(row, 'registered_by'), updated_at: number(row, 'updated_at'),
  }
}

export function toWorkerRow(row: Row): WorkerRow {
  return {
    worker_id: text(row, 'worker_id'), pid: number(row, 'pid'), pid_start: textOrNull(row, 'pid_start'), host: text(row, 'host'),
    fingerprint: text(row, 'fingerprint'), program: text(row, 'program'), started_at: number(row, 'started_at'), lease_until: number(row, 'lease_until'),
  }
}
