/* What verifying reads, in one view of the database. Values that somebody put in by hand may be anything; none makes a read fail. */
import type { AuditReads, StoredExecution, StoredText } from '../audit/verify'
import type { Checkpoint } from '../audit/checkpoint'
import { decidedFact, type FoldedObject, type ObjectKind } from '../audit/fold'
import { toAuditRow, toCheckpoint, toExecution } from './rows'
import { sql, streamLimit, type Connection, type Row, type SqlValue, type Statement } from './sql'

/** Most rows of a kind that are told of what belongs to nothing. */
const mostStrays = 100

/** How long other work of this process may have to wait for its turn. */
const breathEveryMs = 10

/** `connection` must show one moment: a snapshot. */
export function auditReads(connection: Pick<Connection, 'query' | 'queryAll' | 'stream'>): AuditReads {
  const limit = `LIMIT ${String(streamLimit)}`
  let breathedAt = performance.now()
  const breathe = async (): Promise<void> => {
    if (performance.now() - breathedAt < breathEveryMs) return
    await new Promise((resolve) => setImmediate(resolve))
    breathedAt = performance.now()
  }
  const checkpointWhere = async (condition: string, number: number): Promise<Checkpoint | null> => {
    const row = (await connection.query(sql(`SELECT * FROM checkpoints WHERE number ${condition} ? ORDER BY number LIMIT 1`, [number])))[0]
    return row === undefined ? null : toCheckpoint(row)
  }

  return {
    async *auditRows() {
      const page = (after: Row | null): Statement =>
        sql(`SELECT * FROM audit_events WHERE (chain, seq) > (?, ?) ORDER BY chain, seq ${limit}`, [after?.['chain'] ?? '', after?.['seq'] ?? 0])
      for await (const row of connection.stream(page)) yield toAuditRow(row)
    },
    async *chainHeads() {
      const page = (after: Row | null): Statement => sql(`SELECT * FROM chains WHERE chain > ? ORDER BY chain ${limit}`, [after?.['chain'] ?? ''])
      for await (const row of connection.stream(page)) {
        yield { chain: String(row['chain']), seq: Number(row['seq']), hash: String(row['hash']), checkpointed_seq: Number(row['checkpointed_seq']) }
      }
    },
    async *checkpoints() {
      // one at a time: each may hold many heads
      for (let number = -1; ;) {
        const checkpoint = await checkpointWhere('>', number)
        if (checkpoint === null) return
        yield checkpoint
        number = checkpoint.number
      }
    },
    checkpointNumbered: (number) => checkpointWhere('=', number),
    async hashesAt(places) {
      const hashes: (string | null)[] = []
      for (let from = 0; from < places.length; from += streamLimit) {
        const part = places.slice(from, from + streamLimit)
        const statements = part.map(({ chain, seq }) => sql('SELECT hash FROM audit_events WHERE chain = ? AND seq = ?', [chain, seq]))
        const found = await connection.queryAll(statements)
        for (const [row] of found) hashes.push(row === undefined ? null : String(row['hash']))
        await breathe()
      }
      return hashes
    },
    async textsOf(contentIds) {
      const found = await connection.queryAll(contentIds.map((id) => sql('SELECT * FROM contents WHERE content_id = ?', [id])))
      return found.map(([row]) => (row === undefined ? null : storedText(row)))
    },
    async *executions() {
      const page = (after: Row | null): Statement =>
        sql(
          `SELECT e.*, k.content_id AS payload_id, k.digest AS payload_digest FROM executions e LEFT JOIN contents k ON k.content_id = e.payload
           WHERE execution_id > ? ORDER BY execution_id ${limit}`,
          [after?.['execution_id'] ?? ''],
        )
      for await (const row of connection.stream(page)) yield storedExecution(row)
    },
    async *sessions() {
      const page = (after: Row | null): Statement =>
        sql(`SELECT session_id FROM sessions WHERE session_id > ? ORDER BY session_id ${limit}`, [after?.['session_id'] ?? ''])
      for await (const row of connection.stream(page)) yield String(row['session_id'])
    },
    async objectsOf(sessionId) {
      const found = await connection.queryAll(objectQueries.map(([, text]) => sql(text, [sessionId])))
      return objectQueries.flatMap(([kind], index) => (found[index] ?? []).map((row) => storedObject(kind, row)))
    },
    async countObjects() {
      const found = await connection.queryAll(Object.values(objectTables).map((table) => sql(`SELECT COUNT(*) AS n FROM ${table}`)))
      return found.reduce((sum, [row]) => sum + Number(row?.['n'] ?? 0), 0)
    },
    async strays() {
      const found = await connection.queryAll(strayQueries.map(([, text]) => sql(`${text} LIMIT ${String(mostStrays)}`)))
      return strayQueries.flatMap(([kind], index) => (found[index] ?? []).map((row) => ({ kind, id: String(row['id']) })))
    },
  }
}

const objectTables = { turn: 'turns', call: 'calls', approval: 'approval_requests', message: 'messages', inbox: 'inbox' } as const

/** The objects of one session: an id, and the columns that the record folds to. */
const objectQueries: readonly (readonly [kind: ObjectKind, text: string])[] = [
  ['session', 'SELECT session_id AS id, owner, title FROM sessions WHERE session_id = ?'],
  ['turn', 'SELECT turn_id AS id, status, reason, spec, result, lease_epoch FROM turns WHERE session_id = ?'],
  [
    'call',
    `SELECT c.call_id AS id, c.status, c.reason, c.function_digest, c.approval_id, c.arguments, c.started_epoch, c.result, c.late_result
     FROM turns t JOIN calls c ON c.turn_id = t.turn_id WHERE t.session_id = ?`,
  ],
  [
    'approval',
    `SELECT a.approval_id AS id, a.status, a.function_digest, a.approval_digest, a.decided, a.decided_by
     FROM turns t JOIN approval_requests a ON a.turn_id = t.turn_id WHERE t.session_id = ?`,
  ],
  ['message', 'SELECT message_id AS id, content FROM messages WHERE session_id = ?'],
  ['inbox', 'SELECT i.inbox_id AS id, i.fate, i.content FROM turns t JOIN inbox i ON i.turn_id = t.turn_id WHERE t.session_id = ?'],
]

const withoutTurn = (table: string): string => `FROM ${table} o WHERE NOT EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = o.turn_id)`
const withoutChain = (table: string): string => `FROM ${table} o WHERE NOT EXISTS (SELECT 1 FROM chains h WHERE h.chain = 'session:' || o.session_id)`

const strayQueries: readonly (readonly [kind: ObjectKind, text: string])[] = [
  ['turn', `SELECT turn_id AS id ${withoutChain('turns')}`],
  ['message', `SELECT message_id AS id ${withoutChain('messages')}`],
  ['call', `SELECT call_id AS id ${withoutTurn('calls')}`],
  ['approval', `SELECT approval_id AS id ${withoutTurn('approval_requests')}`],
  ['inbox', `SELECT inbox_id AS id ${withoutTurn('inbox')}`],
]

const textOrNull = (value: SqlValue | undefined): string | null => (value === null || value === undefined ? null : String(value))

function storedText(row: Row): StoredText {
  return { content_id: String(row['content_id']), digest: String(row['digest']), salt: String(row['salt']), text: textOrNull(row['text']) }
}

function storedObject(kind: ObjectKind, { id, ...columns }: Row): FoldedObject {
  const facts: [string, string | null][] = Object.entries(columns).map(([name, value]) => {
    const text = textOrNull(value)
    return [name, name === 'decided' && text !== null ? decidedColumn(text) : text]
  })
  return { kind, id: String(id), facts: Object.fromEntries(facts) }
}

function decidedColumn(text: string): string | null {
  try {
    return decidedFact(JSON.parse(text))
  } catch {
    return text
  }
}

function storedExecution(row: Row): StoredExecution {
  const payload = { content_id: String(row['payload_id']), digest: String(row['payload_digest']) }
  return { ...toExecution({ ...row, payload_text: null, payload_salt: '' }), payload }
}
