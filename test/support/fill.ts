/* Fills a database with many honest rows at once: those that commits would have written, without waiting for the disk at each. */
import Database from 'better-sqlite3'
import { auditHash, auditText, genesis } from '../../core/audit/chain'
import type { Ids } from '../../core/ids'
import { statementsOf } from '../../core/store/write-changes'
import type { Commit } from '../../core/store/store'
import { chainOf } from '../../core/turn/changes'
import { commitsOf } from './record'

export interface Filling {
  /** Sessions of one turn each: nine audit rows in two chains. */
  readonly sessions: number
  /** Turns of one more session: nine audit rows each. */
  readonly longSession: number
  /** Rows in the chain of the deployment. */
  readonly deployment: number
}

/** Adds these to an empty database. */
export function fillStore(file: string, { sessions, longSession, deployment }: Filling): void {
  const database = new Database(file)
  const prepared = new Map<string, Database.Statement>()
  const heads = new Map<string, { readonly seq: number; readonly hash: string }>()
  const run = (text: string, values: readonly unknown[]): void => {
    let statement = prepared.get(text)
    if (statement === undefined) {
      statement = database.prepare(text)
      prepared.set(text, statement)
    }
    statement.run(...values)
  }
  const write = ({ changes, session_id, actor, at }: Commit): void => {
    for (const [chain, members] of Map.groupBy(changes, (change) => chainOf(change, session_id))) {
      const head = heads.get(chain) ?? { seq: 0, hash: genesis }
      const row = { chain, seq: head.seq + 1, at, actor, changes: auditText(members), prev_hash: head.hash }
      const hash = auditHash(row)
      heads.set(chain, { seq: row.seq, hash })
      const values = [chain, row.seq, at, row.actor, row.changes, row.prev_hash, hash]
      run('INSERT INTO audit_events (chain, seq, at, actor, changes, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?)', values)
    }
    for (const { text, values } of changes.flatMap((change) => statementsOf(change, at))) run(text, values)
  }
  // one after the other, so that rows come in the order of their keys
  let made = 0
  const ids: Ids = { next: (prefix) => `${prefix}_${(made += 1).toString(16).padStart(32, '0')}`, hex: (bytes) => '5a'.repeat(bytes) }
  const writeTurn = (at: number, sessionId?: string): string => {
    const commits = commitsOf(at, sessionId, ids)
    for (;;) {
      const next = commits.next()
      if (next.done === true) return next.value.session_id
      write(next.value)
    }
  }
  const loaded = { type: 'authority.loaded' as const, worker: 'w_test', fingerprint: 'f' }

  for (const setting of ['synchronous = OFF', 'foreign_keys = OFF', 'cache_size = -200000']) database.pragma(setting)
  database.transaction(() => {
    for (let row = 0; row < deployment; row += 1) write({ actor: 'test', at: 1_000, session_id: null, changes: [loaded] })
    for (let session = 0; session < sessions; session += 1) writeTurn(1_000)
    let long: string | undefined
    for (let turn = 0; turn < longSession; turn += 1) long = writeTurn(1_000 + 10 * turn, long)
    for (const [chain, { seq, hash }] of heads) run('INSERT INTO chains (chain, seq, hash) VALUES (?, ?, ?)', [chain, seq, hash])
  })()
  database.close()
}
