/* Fills a database with many honest turns at once: the rows that commits would have written, without waiting for the disk at each. */
import Database from 'better-sqlite3'
import { auditHash, auditText, genesis } from '../../core/audit/chain'
import { statementsOf } from '../../core/store/write-changes'
import type { Ids } from '../../core/ids'
import { chainOf, type Change } from '../../core/turn/changes'
import { commitsOf } from './record'

/** Adds `sessions` sessions of one turn each (nine audit rows), and one session with `longSession` turns (in all nine rows each). */
export function fillStore(file: string, { sessions, longSession }: { readonly sessions: number; readonly longSession: number }): void {
  const database = new Database(file)
  const prepared = new Map<string, Database.Statement>()
  const run = (text: string, values: readonly unknown[]): void => {
    let statement = prepared.get(text)
    if (statement === undefined) {
      statement = database.prepare(text)
      prepared.set(text, statement)
    }
    statement.run(...values)
  }
  const addTurn = (at: number, sessionId: string | undefined, heads: Map<string, { seq: number; hash: string }>): string => {
    let session = ''
    for (const commit of commitsOf(at, sessionId, ids)) {
      session = commit.session_id ?? session
      const chains = Map.groupBy(commit.changes, (change: Change) => chainOf(change, commit.session_id))
      for (const [chain, changes] of chains) {
        const head = heads.get(chain) ?? { seq: 0, hash: genesis }
        const row = { chain, seq: head.seq + 1, at, actor: commit.actor, changes: auditText(changes), prev_hash: head.hash }
        const hash = auditHash(row)
        heads.set(chain, { seq: row.seq, hash })
        const values = [chain, row.seq, at, row.actor, row.changes, row.prev_hash, hash]
        run('INSERT INTO audit_events (chain, seq, at, actor, changes, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?)', values)
      }
      for (const { text, values } of commit.changes.flatMap((change) => statementsOf(change, at))) run(text, values)
    }
    return session
  }
  // one after the other, so that rows come in the order of their keys
  let made = 0
  const ids: Ids = { next: (prefix) => `${prefix}_${(made += 1).toString(16).padStart(32, '0')}`, hex: (bytes) => '5a'.repeat(bytes) }
  const saveHeads = (heads: Map<string, { seq: number; hash: string }>): void => {
    for (const [chain, { seq, hash }] of heads) run('INSERT INTO chains (chain, seq, hash) VALUES (?, ?, ?)', [chain, seq, hash])
    heads.clear()
  }

  for (const setting of ['synchronous = OFF', 'foreign_keys = OFF', 'cache_size = -200000']) database.pragma(setting)
  database.transaction(() => {
    const heads = new Map<string, { seq: number; hash: string }>()
    for (let session = 0; session < sessions; session += 1) {
      addTurn(1_000, undefined, heads)
      saveHeads(heads)
    }
    let long: string | undefined
    for (let turn = 0; turn < longSession; turn += 1) long = addTurn(1_000 + 10 * turn, long, heads)
    saveHeads(heads)
  })()
  database.close()
}
