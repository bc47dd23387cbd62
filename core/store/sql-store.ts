/* The store over any connection: every read once, and the one way to write. */
import { auditHash, auditText, genesis } from '../audit/chain'
import { HarnessError } from '../errors'
import { chainOf, type Change } from '../turn/changes'
import type { Turn } from '../turn/turn'
import { auditReads } from './audit-reads'
import { contentColumns, toApproval, toAuditRow, toCall, toCheckpoint, toExecution, toInboxItem, toMessage, toRegistration, toSession, toTurnRow, toWorkerRow } from './rows'
import { awaitStore } from './await-rows'
import { sql, streamLimit, Unchanged, type Connection, type Row, type Statement } from './sql'
import { statementsOf, wakeWaitingStatement } from './write-changes'
import { schemaVersion } from './migrate'
import type { Commit, Store } from './store'

/** Two who append to one chain at once meet at its head; the loser reads it again. */
const headRetries = 200

/** An epoch beyond this was put in by hand: it could not be counted on from. */
const lastEpoch = 2 ** 52

const selectTurn = `SELECT t.*, ${contentColumns('s', 'spec')}, ${contentColumns('r', 'result')} FROM turns t
  LEFT JOIN contents s ON s.content_id = t.spec LEFT JOIN contents r ON r.content_id = t.result`
const selectCall = `SELECT c.*, ${contentColumns('a', 'arguments')}, ${contentColumns('r', 'result')} FROM calls c
  LEFT JOIN contents a ON a.content_id = c.arguments LEFT JOIN contents r ON r.content_id = c.result`
const selectInbox = (turnId: string): Statement =>
  sql(
    `SELECT i.*, ${contentColumns('k', 'content')} FROM inbox i LEFT JOIN contents k ON k.content_id = i.content
     WHERE i.turn_id = ? AND i.fate IS NULL ORDER BY i.seq`,
    [turnId],
  )

export function sqlStore(connection: Connection): Store {
  const one = async <T>(statement: Statement, map: (row: Row) => T): Promise<T | null> => {
    const row = (await connection.query(statement))[0]
    return row === undefined ? null : map(row)
  }
  const auditStatements = async (commit: Commit): Promise<Statement[]> => {
    const chains = new Map<string, Change[]>()
    for (const change of commit.changes) {
      const chain = chainOf(change, commit.session_id)
      chains.set(chain, [...(chains.get(chain) ?? []), change])
    }
    const names = [...chains.keys()]
    const heads = await connection.queryAll(names.map((chain) => sql('SELECT seq, hash FROM chains WHERE chain = ?', [chain])))
    return names.flatMap((chain, index) => {
      const head = heads[index]?.[0]
      return auditRow({ chain, head: head === undefined ? null : { seq: Number(head['seq']), hash: String(head['hash']) }, commit, changes: chains.get(chain) ?? [] })
    })
  }

  return {
    async commit(commit) {
      const fence = fenceStatements(commit)
      const rows = commit.changes.flatMap((change) => statementsOf(change, commit.at))
      for (let tries = 1; ; tries += 1) {
        const audit = await auditStatements(commit)
        try {
          await connection.atomically([...fence, ...audit, ...rows, ...idempotencyStatements(commit)])
          break
        } catch (error) {
          if (!(error instanceof Unchanged)) throw error
          if (error.unmet.code !== 'chain_moved' || tries >= headRetries) throw unmetError(error)
          if (tries > 3) await new Promise((resolve) => setTimeout(resolve, Math.random() * 10))
        }
      }
      return commit.fence === undefined ? [] : this.readInbox(commit.fence.turn_id)
    },

    async findClaimable(worker, now, most) {
      // a turn waits for the earlier ones of its session; whoever is not the live worker has lost its turns
      const rows = await connection.query(
        sql(
          `SELECT turn_id FROM turns t WHERE finished_at IS NULL
             AND (lease_owner IS NULL OR lease_owner <> ?) AND lease_epoch BETWEEN 0 AND ${String(lastEpoch)}
             AND (status IN ('queued', 'running') OR (status = 'awaiting_functions' AND (wake_at <= ? OR inbox_posted > inbox_seen)))
             AND NOT EXISTS (SELECT 1 FROM turns e WHERE e.session_id = t.session_id AND e.ordinal < t.ordinal AND e.finished_at IS NULL)
           ORDER BY created_at, turn_id LIMIT ?`,
          [worker.worker_id, now, most],
        ),
      )
      return rows.map((row) => String(row['turn_id']))
    },
    async findStopped() {
      const rows = await connection.query(
        sql(
          `SELECT turn_id FROM turns t WHERE finished_at IS NULL AND lease_epoch BETWEEN 0 AND ${String(lastEpoch)}
             AND EXISTS (SELECT 1 FROM inbox i WHERE i.turn_id = t.turn_id AND i.kind = 'stop' AND i.fate IS NULL)
           ORDER BY created_at, turn_id`,
        ),
      )
      return rows.map((row) => String(row['turn_id']))
    },

    async loadTurn(turnId) {
      const found = await this.findTurn(turnId)
      if (found === null) return null
      const [turns, messages, calls, history, approvals, inbox] = await connection.queryAll([
        sql(`${selectTurn} WHERE t.turn_id = ?`, [turnId]),
        sql(`SELECT m.*, ${contentColumns('k', 'content')} FROM messages m LEFT JOIN contents k ON k.content_id = m.content WHERE m.session_id = ? ORDER BY m.ordinal`, [found.session_id]),
        sql(`${selectCall} WHERE c.turn_id = ? ORDER BY c.step, c.ordinal`, [turnId]),
        sql(`${selectCall} JOIN turns t ON t.turn_id = c.turn_id WHERE t.session_id = ? AND t.kind = 'agent' AND c.turn_id <> ? ORDER BY t.ordinal, c.step, c.ordinal`, [found.session_id, turnId]),
        sql('SELECT * FROM approval_requests WHERE turn_id = ? ORDER BY created_at', [turnId]),
        selectInbox(turnId),
      ])
      const row = turns?.[0]
      if (row === undefined) return null
      const turn: Turn = {
        ...toTurnRow(row), stop: null, failure: null, messages: (messages ?? []).map(toMessage), calls: (calls ?? []).map(toCall),
        history: (history ?? []).map(toCall), approvals: (approvals ?? []).map(toApproval), inbox: (inbox ?? []).map(toInboxItem),
      }
      return turn
    },
    readInbox: async (turnId) => (await connection.query(selectInbox(turnId))).map(toInboxItem),

    async acquireWorker(worker, isDead, now) {
      const holder = await this.currentWorker()
      if (holder !== null && holder.lease_until > now && holder.worker_id !== worker.worker_id && !isDead(holder)) return { acquired: false, holder }
      const lost = { code: 'conflict' as const, what: 'another process became the worker' }
      const { worker_id, pid, pid_start, host, fingerprint, program, started_at, lease_until } = worker
      const values = [worker_id, pid, pid_start, host, fingerprint, program, started_at, lease_until]
      try {
        await connection.atomically([
          holder === null
            ? sql(`INSERT INTO workers (slot, worker_id, pid, pid_start, host, fingerprint, program, started_at, lease_until) VALUES ('worker', ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, values, lost)
            : sql(`UPDATE workers SET worker_id = ?, pid = ?, pid_start = ?, host = ?, fingerprint = ?, program = ?, started_at = ?, lease_until = ? WHERE worker_id = ? AND lease_until = ?`, [...values, holder.worker_id, holder.lease_until], lost),
        ])
        return { acquired: true, holder: worker }
      } catch (error) {
        if (!(error instanceof Unchanged)) throw error
        return { acquired: false, holder: (await this.currentWorker()) ?? worker }
      }
    },
    async beat(workerId, leaseUntil) {
      try {
        await connection.atomically([sql('UPDATE workers SET lease_until = ? WHERE worker_id = ?', [leaseUntil, workerId], { code: 'lease_lost', what: 'the worker was replaced' })])
        return true
      } catch (error) {
        if (error instanceof Unchanged) return false
        throw error
      }
    },
    releaseWorker: (workerId) => connection.atomically([sql('DELETE FROM workers WHERE worker_id = ?', [workerId])]),
    currentWorker: () => one(sql(`SELECT * FROM workers WHERE slot = 'worker'`), toWorkerRow),

    findTurn: (turnId) => one(sql(`${selectTurn} WHERE t.turn_id = ?`, [turnId]), toTurnRow),
    findSession: (sessionId) =>
      one(sql(`SELECT n.*, ${contentColumns('k', 'title')} FROM sessions n LEFT JOIN contents k ON k.content_id = n.title WHERE session_id = ?`, [sessionId]), toSession),
    latestTurn: (sessionId) => one(sql(`${selectTurn} WHERE t.session_id = ? ORDER BY t.ordinal DESC LIMIT 1`, [sessionId]), toTurnRow),
    firstUnfinishedTurn: (sessionId) => one(sql(`${selectTurn} WHERE t.session_id = ? AND t.finished_at IS NULL ORDER BY t.ordinal LIMIT 1`, [sessionId]), toTurnRow),
    async countLiveTurns(owner) {
      const rows = await connection.query(sql('SELECT COUNT(*) AS n FROM turns WHERE owner = ? AND finished_at IS NULL', [owner]))
      return Number(rows[0]?.['n'] ?? 0)
    },
    async countTurnsByStatus() {
      const rows = await connection.query(sql('SELECT status, COUNT(*) AS n FROM turns GROUP BY status'))
      return Object.fromEntries(rows.map((row) => [String(row['status']), Number(row['n'])]))
    },
    callsOf: async (turnId) => (await connection.query(sql(`${selectCall} WHERE c.turn_id = ? ORDER BY c.step, c.ordinal`, [turnId]))).map(toCall),
    findExecution: (executionId) =>
      one(sql(`SELECT e.*, ${contentColumns('k', 'payload')} FROM executions e JOIN contents k ON k.content_id = e.payload WHERE execution_id = ?`, [executionId]), toExecution),
    findCall: (callId) => one(sql(`${selectCall} WHERE c.call_id = ?`, [callId]), toCall),
    findApproval: (approvalId) => one(sql('SELECT * FROM approval_requests WHERE approval_id = ?', [approvalId]), toApproval),
    approvalsOf: async (turnId) => (await connection.query(sql('SELECT * FROM approval_requests WHERE turn_id = ? ORDER BY created_at', [turnId]))).map(toApproval),
    async listApprovals({ owner, status, session_id, limit }) {
      const rows = await connection.query(
        sql(
          `SELECT * FROM approval_requests WHERE (? IS NULL OR owner = ?) AND (? IS NULL OR status = ?) AND (? IS NULL OR session_id = ?)
           ORDER BY created_at DESC LIMIT ?`,
          [owner, owner, status, status, session_id, session_id, limit],
        ),
      )
      return rows.map(toApproval)
    },
    oldestPendingApproval: () => one(sql(`SELECT * FROM approval_requests WHERE status = 'pending' ORDER BY created_at LIMIT 1`), toApproval),
    async countPendingApprovals() {
      return Number((await connection.query(sql(`SELECT COUNT(*) AS n FROM approval_requests WHERE status = 'pending'`)))[0]?.['n'] ?? 0)
    },
    findIdempotency: (principal, operation, key, now) =>
      one(sql('SELECT * FROM idempotency WHERE principal = ? AND operation = ? AND idempotency_key = ? AND expires_at > ?', [principal, operation, key, now]), (row) => ({
        principal, operation, key, request_hash: String(row['request_hash']), response: String(row['response']), expires_at: Number(row['expires_at']),
      })),
    registrations: async () => (await connection.query(sql('SELECT * FROM registrations ORDER BY id'))).map(toRegistration),
    wakeWaiting: (functionId, at) => connection.atomically([wakeWaitingStatement(functionId, at)]),
    async approverTries(approver) {
      const found = await one(sql('SELECT failures, locked_until FROM approver_tries WHERE approver = ?', [approver]), (row) => ({
        failures: Number(row['failures']), locked_until: row['locked_until'] === null ? null : Number(row['locked_until']),
      }))
      return found ?? { failures: 0, locked_until: null }
    },

    ...awaitStore(connection),

    async *auditRows(chain) {
      const page = (after: Row | null): Statement =>
        sql(
          `SELECT * FROM audit_events WHERE (chain > ? OR (chain = ? AND seq > ?)) AND (? IS NULL OR chain = ?) ORDER BY chain, seq LIMIT ${String(streamLimit)}`,
          [after?.['chain'] ?? '', after?.['chain'] ?? '', after?.['seq'] ?? 0, chain ?? null, chain ?? null],
        )
      for await (const row of connection.stream(page)) yield toAuditRow(row)
    },
    async auditCount() {
      return Number((await connection.query(sql('SELECT COALESCE(SUM(seq), 0) AS n FROM chains')))[0]?.['n'] ?? 0)
    },
    async addCheckpoint(checkpoint) {
      const taken = { code: 'conflict' as const, what: `checkpoint ${String(checkpoint.number)} was made by another process` }
      try {
        await connection.atomically([
          sql('INSERT INTO checkpoints (number, at, heads, root, signature) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING', [
            checkpoint.number, checkpoint.at, JSON.stringify(checkpoint.heads), checkpoint.root, checkpoint.signature,
          ], taken),
          ...checkpoint.heads.map((head) => sql('UPDATE chains SET checkpointed_seq = ? WHERE chain = ?', [head.seq, head.chain])),
        ])
      } catch (error) {
        throw error instanceof Unchanged ? unmetError(error) : error
      }
    },
    async *checkpoints() {
      const page = (after: Row | null): Statement => sql(`SELECT * FROM checkpoints WHERE number > ? ORDER BY number LIMIT ${String(streamLimit)}`, [after?.['number'] ?? 0])
      for await (const row of connection.stream(page)) yield toCheckpoint(row)
    },
    checkpointNumbered: (number) => auditReads(connection).checkpointNumbered(number),
    async unsealedRows() {
      const rows = await connection.query(sql('SELECT COALESCE(SUM(seq - checkpointed_seq), 0) AS n FROM chains WHERE checkpointed_seq < seq'))
      return Number(rows[0]?.['n'] ?? 0)
    },
    async auditSnapshot() {
      const view = await connection.snapshot()
      return { ...auditReads(view), close: () => view.close() }
    },
    lastCheckpoint: () => one(sql('SELECT * FROM checkpoints ORDER BY number DESC LIMIT 1'), toCheckpoint),
    headsSinceCheckpoint: async () => (await connection.query(sql('SELECT chain, seq, hash FROM chains WHERE checkpointed_seq < seq ORDER BY chain'))).map(toHead),

    onHint: (listener) => connection.onHint(listener),
    schemaVersion: () => schemaVersion(connection),
    close: () => connection.close(),
  }
}

const toHead = (row: Row): { chain: string; seq: number; hash: string } => ({ chain: String(row['chain']), seq: Number(row['seq']), hash: String(row['hash']) })

function fenceStatements(commit: Commit): Statement[] {
  if (commit.fence === undefined) return []
  const { turn_id, epoch } = commit.fence
  // a worker that got something done is not in a crash loop
  return [sql('UPDATE turns SET claims = 0 WHERE turn_id = ? AND lease_epoch = ? AND lease_owner IS NOT NULL', [turn_id, epoch], { code: 'lease_lost', what: `the lease of turn ${turn_id} is gone` })]
}

function auditRow(facts: { chain: string; head: { seq: number; hash: string } | null; commit: Commit; changes: readonly Change[] }): Statement[] {
  const { chain, head, commit } = facts
  const moved = { code: 'chain_moved' as const, what: `chain ${chain} moved` }
  const row = { chain, seq: (head?.seq ?? 0) + 1, at: commit.at, actor: commit.actor, changes: auditText(facts.changes), prev_hash: head?.hash ?? genesis }
  const hash = auditHash(row)
  return [
    head === null
      ? sql('INSERT INTO chains (chain, seq, hash) VALUES (?, 1, ?) ON CONFLICT DO NOTHING', [chain, hash], moved)
      : sql('UPDATE chains SET seq = ?, hash = ? WHERE chain = ? AND seq = ? AND hash = ?', [row.seq, hash, chain, head.seq, head.hash], moved),
    sql('INSERT INTO audit_events (chain, seq, at, actor, changes, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?)', [chain, row.seq, row.at, row.actor, row.changes, row.prev_hash, hash]),
  ]
}

function idempotencyStatements(commit: Commit): Statement[] {
  if (commit.idempotency === undefined) return []
  const { principal, operation, key, request_hash, response, expires_at } = commit.idempotency
  return [
    sql('DELETE FROM idempotency WHERE principal = ? AND operation = ? AND idempotency_key = ? AND expires_at <= ?', [principal, operation, key, commit.at]),
    sql(
      'INSERT INTO idempotency (principal, operation, idempotency_key, request_hash, response, expires_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
      [principal, operation, key, request_hash, response, expires_at],
      { code: 'conflict', what: `key ${key} was used by another request at the same time` },
    ),
  ]
}

function unmetError(error: Unchanged): HarnessError {
  const { code, what } = error.unmet
  return new HarnessError(code === 'chain_moved' ? 'store_unavailable' : code, `Nothing was changed: ${what}.`)
}
