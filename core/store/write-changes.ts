/*
 * From a change to the statements that write its rows. Each statement names the state it starts from and must change a row, so that an
 * illegal or repeated move undoes the whole commit.
 */
import { HarnessError, unreachable } from '../errors'
import { callMoves, type CallStatus } from '../turn/call'
import type { Change, TurnChange } from '../turn/changes'
import type { Content } from '../turn/content'
import type { TurnRow } from '../turn/turn'
import { awaitRows, dueStatements } from './await-rows'
import { sql, type MustChange, type SqlValue, type Statement } from './sql'

const conflict = (what: string): MustChange => ({ code: 'conflict', what })

/** The rows of one change; its texts first, and last what is due to those who wait for it. */
export function statementsOf(change: Change, at: number): Statement[] {
  return [...contentsIn(change).map((content) => contentRow(content, at)), ...rowsOf(change, at), ...dueStatements(change, at)]
}

function contentRow(content: Content, at: number): Statement {
  return sql('INSERT INTO contents (content_id, salt, digest, text, created_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (content_id) DO NOTHING', [
    content.content_id, content.salt, content.digest, content.text, at,
  ])
}

function contentsIn(value: unknown): Content[] {
  if (typeof value !== 'object' || value === null) return []
  if ('content_id' in value && 'salt' in value) return [value as Content]
  return Object.values(value).flatMap(contentsIn)
}

function insert(table: string, row: Readonly<Record<string, SqlValue>>): Statement {
  const columns = Object.keys(row)
  return sql(`INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`, Object.values(row))
}

function rowsOf(change: Change, at: number): Statement[] {
  switch (change.type) {
    case 'execution.accepted': {
      const { source, actor, constraints, payload, ...rest } = change.execution
      return [
        insert('executions', {
          execution_id: rest.execution_id, source_type: source.type, source_id: source.id, actor_type: actor.type, actor_id: actor.id,
          intent: rest.intent, payload: payload.content_id, allow_cloud: Number(constraints.allow_cloud), require_audit: Number(constraints.require_audit),
          risk_level: constraints.risk_level, event_hash: rest.event_hash, corrects_execution_id: rest.corrects_execution_id,
          session_id: rest.session_id, turn_id: rest.turn_id, owner: rest.owner, created_at: rest.created_at,
        }),
      ]
    }
    case 'function.registered':
    case 'function.unregistered':
      // those that wait for it, and those about which a person was asked on the old terms
      return [registrationRow(change), wakeWaitingStatement(change.registration.id, at, ['allowed', 'started', 'held'])]
    case 'approver.failed':
      return [
        sql(
          `INSERT INTO approver_tries (approver, failures, locked_until) VALUES (?, ?, ?)
           ON CONFLICT (approver) DO UPDATE SET failures = excluded.failures, locked_until = excluded.locked_until
           WHERE approver_tries.failures = excluded.failures - 1`,
          [change.approver, change.failures, change.locked_until],
          conflict(`the tries of approver ${change.approver} were counted by somebody else`),
        ),
      ]
    case 'approver.unlocked':
      return [sql('DELETE FROM approver_tries WHERE approver = ?', [change.approver])]
    case 'await.opened':
    case 'await.readdressed':
    case 'await.closed':
      return awaitRows(change)
    case 'deployment.opened':
    case 'authority.loaded':
    case 'decision.refused':
    case 'tampering.found':
      return []
    default:
      return turnRowsOf(change)
  }
}

function registrationRow({ registration, replaces }: Extract<Change, { type: 'function.registered' | 'function.unregistered' }>): Statement {
  const taken = conflict(`function ${registration.id} was registered by somebody else at the same time`)
  const { id, ...rest } = registration
  if (replaces === null) {
    const row = insert('registrations', { ...registration })
    return sql(`${row.text} ON CONFLICT (id) DO NOTHING`, row.values, taken)
  }
  const columns = Object.keys(rest).map((name) => `${name} = ?`)
  return sql(`UPDATE registrations SET ${columns.join(', ')} WHERE id = ? AND seal = ?`, [...Object.values(rest), id, replaces], taken)
}

/** Parked turns with a call of this function are looked at again at that moment. When they wake is no fact of the record. */
export function wakeWaitingStatement(functionId: string, at: number, statuses: readonly CallStatus[] = ['allowed', 'started']): Statement {
  return sql(
    `UPDATE turns SET wake_at = ? WHERE status = 'awaiting_functions' AND finished_at IS NULL AND (wake_at IS NULL OR wake_at > ?)
       AND EXISTS (SELECT 1 FROM calls c WHERE c.turn_id = turns.turn_id AND c.function_id = ? AND c.status IN (${statuses.map((status) => `'${status}'`).join(', ')}))`,
    [at, at, functionId],
  )
}

function turnRowsOf(change: TurnChange): Statement[] {
  switch (change.type) {
    case 'session.created':
      return [insert('sessions', { ...change.session, title: change.session.title?.content_id ?? null })]
    case 'turn.created':
      return [turnInsert(change.turn)]
    case 'turn.claimed':
      return [
        sql(
          `UPDATE turns SET status = 'running', park = NULL, wake_at = NULL, lease_owner = ?, lease_epoch = ?, claims = claims + 1,
             started_at = COALESCE(started_at, ?)
           WHERE turn_id = ? AND lease_epoch = ? AND status IN ('queued', 'running', 'awaiting_functions')`,
          [change.worker, change.epoch, change.at, change.turn_id, change.epoch - 1],
          conflict(`turn ${change.turn_id} was claimed by another worker`),
        ),
      ]
    case 'turn.parked':
      return [
        sql(
          `UPDATE turns SET status = 'awaiting_functions', park = ?, wake_at = ?, inbox_seen = ?, lease_owner = NULL WHERE turn_id = ? AND status = 'running'`,
          [change.park, change.wake_at, change.inbox_seen, change.turn_id],
          conflict(`turn ${change.turn_id} is not running`),
        ),
      ]
    case 'turn.released':
      return [
        sql('UPDATE turns SET lease_owner = NULL WHERE turn_id = ? AND lease_epoch = ?', [change.turn_id, change.epoch], { code: 'lease_lost', what: `the lease of turn ${change.turn_id} is gone` }),
      ]
    case 'turn.finished':
      return [
        sql(
          `UPDATE turns SET status = ?, reason = ?, detail = ?, result = ?, finished_at = ?, park = NULL, wake_at = NULL, lease_owner = NULL
           WHERE turn_id = ? AND status = 'running' AND inbox_posted = ?`,
          [change.status, change.reason, change.detail, change.result?.content_id ?? null, change.at, change.turn_id, change.inbox_seen],
          { code: 'stale_inbox', what: `something was posted to turn ${change.turn_id} while it ended` },
        ),
      ]
    case 'message.appended': {
      const { content, reply, ...rest } = change.message
      const statements = [insert('messages', { ...rest, content: content.content_id, reply: reply === null ? null : JSON.stringify(reply) })]
      if (rest.role === 'assistant') statements.push(sql('UPDATE turns SET rounds = rounds + 1 WHERE turn_id = ?', [rest.turn_id]))
      return statements
    }
    case 'call.proposed': {
      const { call } = change
      return [
        insert('calls', {
          call_id: call.call_id, turn_id: call.turn_id, step: call.step, ordinal: call.ordinal, function_id: call.function_id,
          arguments: call.arguments.content_id, seal: call.seal, status: call.status, reasons: '[]', proposed_at: call.proposed_at,
        }),
      ]
    }
    case 'call.judged': {
      const { to, reason, reasons, function_digest, approval_id, result, at } = change
      const settled = to === 'denied' ? at : null
      return [
        moveCall(change, to, {
          reason, reasons: JSON.stringify(reasons), function_digest, approval_id, result: result?.content_id ?? null, settled_at: settled,
        }),
      ]
    }
    case 'call.started':
      return [moveCall(change, 'started', { started_epoch: change.epoch, attempts: change.attempts, started_at: change.at })]
    case 'call.settled':
      return [moveCall(change, change.to, { reason: change.reason, result: change.result.content_id, settled_at: change.at })]
    case 'call.late':
      return [
        sql(
          // also when the next worker has not given it up yet, but will
          `UPDATE calls SET late_result = ? WHERE call_id = ? AND late_result IS NULL AND (status = 'interrupted'
             OR (status = 'started' AND started_epoch < (SELECT lease_epoch FROM turns t WHERE t.turn_id = calls.turn_id)))`,
          [change.result.content_id, change.call_id],
          conflict(`call ${change.call_id} waits for no late outcome`),
        ),
      ]
    case 'approval.opened': {
      const { decided, approver_roles, ...rest } = change.approval
      return [insert('approval_requests', { ...rest, approver_roles: JSON.stringify(approver_roles), decided: decided === null ? null : JSON.stringify(decided) })]
    }
    case 'approval.decided':
      return [
        sql(
          `UPDATE approval_requests SET status = ?, decided = ?, decided_by = ?, decided_at = ? WHERE approval_id = ? AND status = 'pending'`,
          [change.status, JSON.stringify(change.decided), change.decided.approver, change.decided.decided_at, change.approval_id],
          conflict(`approval ${change.approval_id} is no longer open`),
        ),
      ]
    case 'approval.closed':
      return [
        sql(`UPDATE approval_requests SET status = ? WHERE approval_id = ? AND status = 'pending'`, [change.status, change.approval_id], conflict(`approval ${change.approval_id} is no longer open`)),
      ]
    case 'inbox.posted': {
      const { item } = change
      return [
        sql(
          'UPDATE turns SET inbox_posted = ? WHERE turn_id = ? AND inbox_posted = ? AND finished_at IS NULL',
          [item.seq, item.turn_id, item.seq - 1],
          conflict(`turn ${item.turn_id} has ended, or somebody else posted to it first`),
        ),
        insert('inbox', {
          inbox_id: item.inbox_id, session_id: item.session_id, turn_id: item.turn_id, seq: item.seq, kind: item.kind, principal: item.principal,
          content: item.kind === 'message' ? item.content.content_id : null, approval_id: item.kind === 'decision' ? item.approval_id : null,
          seal: item.seal, posted_at: item.posted_at,
        }),
      ]
    }
    case 'inbox.folded':
      return [
        sql('UPDATE inbox SET fate = ? WHERE inbox_id = ? AND fate IS NULL', [change.fate, change.inbox_id], conflict(`inbox item ${change.inbox_id} was folded before`)),
      ]
    default:
      return unreachable(change)
  }
}

function turnInsert(turn: Omit<TurnRow, 'spec'>): Statement {
  return sql(
    `INSERT INTO turns (turn_id, session_id, ordinal, execution_id, owner, kind, agent, spec, seal, status, inbox_posted, created_at, deadline_at)
     VALUES (?, ?, (SELECT COALESCE(MAX(ordinal), 0) + 1 FROM turns WHERE session_id = ?), ?, ?, ?, ?, ?, ?, 'queued', 0, ?, ?)`,
    [
      turn.turn_id, turn.session_id, turn.session_id, turn.execution_id, turn.owner, turn.kind, turn.agent, turn.spec_content.content_id,
      turn.seal, turn.created_at, turn.deadline_at,
    ],
  )
}

function moveCall(change: { readonly call_id: string; readonly from: CallStatus }, to: CallStatus, columns: Readonly<Record<string, SqlValue>>): Statement {
  if (!callMoves[change.from].includes(to)) throw new HarnessError('invariant_broken', `Call ${change.call_id} cannot go from ${change.from} to ${to}.`)
  const names = Object.keys(columns)
  return sql(
    `UPDATE calls SET status = ?, ${names.map((name) => `${name} = ?`).join(', ')} WHERE call_id = ? AND status = ?`,
    [to, ...Object.values(columns), change.call_id, change.from],
    conflict(`call ${change.call_id} is no longer ${change.from}`),
  )
}
