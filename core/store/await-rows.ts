/*
 * The rows of awaits: what makes them due in the commit of what they wait for, and how far the outbox is with them. One statement for an
 * end, over an index: it costs next to nothing where nobody waits.
 */
import { unreachable } from '../errors'
import type { Await } from '../turn/await'
import type { Change } from '../turn/changes'
import { contentColumns, toAwait } from './rows'
import { sql, Unchanged, type Connection, type Row, type Statement } from './sql'
import type { AwaitNote, Store } from './store'

type AwaitChange = Extract<Change, { type: 'await.opened' | 'await.readdressed' | 'await.closed' }>

/** Who asked is about to be told what is so already; only if that fails it is called. */
const graceMs = 2_000

const ofSubject = '(owner, await_id) IN (SELECT owner, await_id FROM await_subjects WHERE subject_id = ?)'
const subjects = (rest: string): string => `SELECT 1 FROM await_subjects s ${rest} AND s.owner = awaits.owner AND s.await_id = awaits.await_id`
const allTurnsOver = `NOT EXISTS (${subjects('JOIN turns t ON t.turn_id = s.subject_id WHERE t.finished_at IS NULL')})`
const allDecided = `NOT EXISTS (${subjects(`JOIN approval_requests a ON a.approval_id = s.subject_id WHERE a.status = 'pending'`)})`
const isHeld = `(t.status = 'awaiting_functions' AND t.park = 'approval' AND t.inbox_posted = t.inbox_seen)`
const noneWorks = `NOT EXISTS (${subjects(`JOIN turns t ON t.turn_id = s.subject_id WHERE t.finished_at IS NULL AND NOT ${isHeld}`)})`
const turnsDone = `(${allTurnsOver} OR (until = 'held_or_ended' AND ${noneWorks}))`

/** After the rows of the change were written. Whatever comes after a deadline is no longer in time for it. */
export function dueStatements(change: Change, at: number): Statement[] {
  const due = (subject: string, when: string): Statement[] => [
    sql(
      `UPDATE awaits SET status = 'due', news = news + 1, due_at = COALESCE(due_at, ?), next_at = ?
       WHERE ${ofSubject} AND status IN ('waiting', 'due') AND (deadline IS NULL OR deadline > ?) AND ${when}`,
      [at, at, subject, at],
    ),
  ]
  switch (change.type) {
    case 'turn.finished':
    case 'turn.parked':
      return due(change.turn_id, turnsDone)
    case 'approval.decided':
    case 'approval.closed':
      return due(change.approval_id, allDecided)
    default:
      return []
  }
}

/** The rows that the change itself writes. */
export function awaitRows(change: AwaitChange): Statement[] {
  switch (change.type) {
    case 'await.opened': {
      const { await_id, owner, kind, until, deadline, created_at } = change.await
      return [
        sql(
          `INSERT INTO awaits (owner, await_id, kind, until, deadline, seal, callback, status, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?)
           ON CONFLICT DO NOTHING`,
          [owner, await_id, kind, until, deadline, change.seal, change.callback?.content_id ?? null, created_at],
          { code: 'conflict', what: `await ${await_id} was opened at the same time` },
        ),
        ...change.await.subjects.map((subject, index) =>
          sql('INSERT INTO await_subjects (owner, await_id, ordinal, subject_id) VALUES (?, ?, ?, ?)', [owner, await_id, index, subject]),
        ),
        // what ended before has no commit any more that could make it due
        sql(
          `UPDATE awaits SET status = 'due', news = 1, due_at = ?, next_at = ?
           WHERE owner = ? AND await_id = ? AND ${kind === 'approval' ? allDecided : turnsDone}`,
          [created_at, created_at + graceMs, owner, await_id],
        ),
      ]
    }
    case 'await.readdressed':
      return [
        sql(
          `UPDATE awaits SET callback = ?, next_at = ?, streak = 0 WHERE owner = ? AND await_id = ? AND status IN ('waiting', 'due')`,
          [change.callback.content_id, change.at, change.owner, change.await_id],
          { code: 'conflict', what: `await ${change.await_id} is over` },
        ),
      ]
    case 'await.closed':
      return [
        sql(
          // the address is needed no more
          `UPDATE awaits SET status = ?, outcome = ?, answered = ?, last_answer = ?, callback = NULL
           WHERE owner = ? AND await_id = ? AND status IN ('waiting', 'due') AND attempts = ?`,
          [change.status, change.outcome, change.answered, change.answer, change.owner, change.await_id, change.attempts],
          { code: 'conflict', what: `await ${change.await_id} is over, or is being called` },
        ),
      ]
    default:
      return unreachable(change)
  }
}

const selectAwait = `SELECT w.*, ${contentColumns('k', 'callback')} FROM awaits w LEFT JOIN contents k ON k.content_id = w.callback`

type AwaitStore = Pick<Store, 'findAwait' | 'dueAwaits' | 'nextAwaitDeadline' | 'timeOutAwaits' | 'noteAwait'>

export function awaitStore(connection: Connection): AwaitStore {
  const withSubjects = async (rows: readonly Row[]): Promise<Await[]> => {
    if (rows.length === 0) return []
    const found = await connection.queryAll(
      rows.map((row) => sql('SELECT subject_id FROM await_subjects WHERE owner = ? AND await_id = ? ORDER BY ordinal', [row['owner'] ?? '', row['await_id'] ?? ''])),
    )
    return rows.map((row, index) => toAwait(row, (found[index] ?? []).map((subject) => String(subject['subject_id']))))
  }
  const changes = async (statement: Statement): Promise<boolean> => {
    try {
      await connection.atomically([statement])
      return true
    } catch (error) {
      if (error instanceof Unchanged) return false
      throw error
    }
  }
  return {
    findAwait: async (owner, awaitId) => (await withSubjects(await connection.query(sql(`${selectAwait} WHERE w.owner = ? AND w.await_id = ?`, [owner, awaitId]))))[0] ?? null,
    dueAwaits: async (most) =>
      withSubjects(await connection.query(sql(`${selectAwait} WHERE w.status = 'due' AND w.callback IS NOT NULL ORDER BY w.next_at LIMIT ${String(most)}`))),
    async nextAwaitDeadline() {
      const [row] = await connection.query(sql(`SELECT MIN(deadline) AS deadline FROM awaits WHERE status = 'waiting'`))
      const deadline = row?.['deadline'] ?? null
      return deadline === null ? null : Number(deadline)
    },
    async timeOutAwaits(now) {
      await changes(
        sql(
          `UPDATE awaits SET status = 'due', outcome = 'timed_out', news = news + 1, due_at = COALESCE(due_at, ?), next_at = ? WHERE status = 'waiting' AND deadline <= ?`,
          [now, now, now],
        ),
      )
    },
    noteAwait: (row, note) => changes(noteStatement(row, note)),
  }
}

function noteStatement({ owner, await_id, news, attempts }: Await, note: AwaitNote): Statement {
  const moved = { code: 'conflict' as const, what: `await ${await_id} moved` }
  const where = `WHERE owner = ? AND await_id = ? AND status = 'due' AND attempts = ?`
  const place = [owner, await_id, attempts]
  switch (note.note) {
    case 'not_yet':
      return sql(`UPDATE awaits SET status = 'waiting', due_at = NULL ${where} AND news = ?`, [...place, news], moved)
    case 'calling':
      return sql(`UPDATE awaits SET attempts = attempts + 1 ${where} AND news = ?`, [...place, news], moved)
    case 'again':
      // something new has come meanwhile: then it stays due at once
      return sql(`UPDATE awaits SET next_at = CASE WHEN news = ? THEN ? ELSE next_at END, streak = ?, last_answer = ? ${where}`, [news, note.next_at, note.streak, note.answer, ...place], moved)
    case 'told':
      return sql(`UPDATE awaits SET outcome = ?, answered = ? ${where}`, [note.outcome, note.answered, ...place], moved)
  }
}
