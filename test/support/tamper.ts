/*
 * What one who may write the database can do to the record: change rows behind the back of every program, then hash anew, so that all
 * of it is consistent in itself. Works on a second connection, with the triggers dropped.
 */
import Database from 'better-sqlite3'
import { auditHash, genesis } from '../../core/audit/chain'

interface Row {
  readonly chain: string
  readonly seq: number
  readonly at: number
  readonly actor: string
  readonly changes: string
}

export interface Tampering {
  /** Any statement. */
  run(text: string, ...values: unknown[]): void
  /** The row's members changed, the chain hashed anew. */
  changeRow(chain: string, seq: number, change: Partial<Row>): void
  /** The row taken out, the later ones moved up and hashed anew. */
  removeRow(chain: string, seq: number): void
  /** The row and the next one change places; the chain hashed anew. */
  swapRows(chain: string, seq: number): void
  /** All rows after `seq` taken away; the list of chains says so too. */
  truncate(chain: string, seq: number): void
  /** Everything of the execution: record, list of chains, and the rows it led to. */
  removeExecution(executionId: string): void
  /** Checkpoints from this number on. */
  dropCheckpoints(from: number): void
}

/** Tampers with the file while `work` runs. */
export function tamper(file: string, work: (tampering: Tampering) => void): void {
  const database = new Database(file)
  try {
    database.pragma('foreign_keys = OFF')
    database.pragma('ignore_check_constraints = ON')
    const triggers = database.prepare(`SELECT name FROM sqlite_master WHERE type = 'trigger'`).pluck().all() as string[]
    for (const trigger of triggers) database.exec(`DROP TRIGGER ${trigger}`)
    work(tamperingWith(database))
  } finally {
    database.close()
  }
}

function tamperingWith(database: Database.Database): Tampering {
  const run = (text: string, ...values: unknown[]): void => {
    database.prepare(text).run(...values)
  }
  const rowsOf = (chain: string): Row[] =>
    database.prepare('SELECT chain, seq, at, actor, changes FROM audit_events WHERE chain = ? ORDER BY seq').all(chain) as Row[]
  /** Writes the chain with these rows, numbered and hashed from the beginning. */
  const rewrite = (chain: string, rows: readonly Row[]): void => {
    run('DELETE FROM audit_events WHERE chain = ?', chain)
    let hash = genesis
    for (const [index, { at, actor, changes }] of rows.entries()) {
      const row = { chain, seq: index + 1, at, actor, changes, prev_hash: hash }
      hash = auditHash(row)
      const columns = 'chain, seq, at, actor, changes, prev_hash, hash'
      run(`INSERT INTO audit_events (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?)`, chain, row.seq, at, actor, changes, row.prev_hash, hash)
    }
    const last = rows.length
    if (last === 0) run('DELETE FROM chains WHERE chain = ?', chain)
    else run('UPDATE chains SET seq = ?, hash = ?, checkpointed_seq = MIN(checkpointed_seq, ?) WHERE chain = ?', last, hash, last, chain)
  }

  return {
    run,
    changeRow: (chain, seq, change) => rewrite(chain, rowsOf(chain).map((row) => (row.seq === seq ? { ...row, ...change } : row))),
    removeRow: (chain, seq) => rewrite(chain, rowsOf(chain).filter((row) => row.seq !== seq)),
    swapRows(chain, seq) {
      const rows = rowsOf(chain)
      const [first, second] = [rows[seq - 1]!, rows[seq]!]
      rewrite(chain, rows.with(seq - 1, second).with(seq, first))
    },
    truncate: (chain, seq) => rewrite(chain, rowsOf(chain).slice(0, seq)),
    removeExecution(executionId) {
      const turns = database.prepare('SELECT turn_id FROM turns WHERE execution_id = ?').pluck().all(executionId) as string[]
      for (const turn of turns) {
        for (const table of ['approval_requests', 'calls', 'messages', 'inbox', 'turns']) run(`DELETE FROM ${table} WHERE turn_id = ?`, turn)
      }
      run('DELETE FROM executions WHERE execution_id = ?', executionId)
      rewrite(`execution:${executionId}`, [])
    },
    dropCheckpoints: (from) => run('DELETE FROM checkpoints WHERE number >= ?', from),
  }
}
