/*
 * SQLite by better-sqlite3: one connection a process and file, short synchronous batches, WAL, full durability. The busy time-out is
 * short because waiting inside SQLite blocks the whole process; the longer wait is asynchronous.
 */
import Database from 'better-sqlite3'
import { HarnessError } from '../errors'
import { streamLimit, Unchanged, type Connection, type Row, type Statement } from './sql'

const busyTimeoutMs = 50
/** How long a locked database is waited for before the operation fails. */
const patienceMs = 10_000
/** How often another process's commits are looked for. Reading the counter takes microseconds. */
const hintPollMs = 50

export interface SqliteOptions {
  readonly file: string
  readonly readOnly?: boolean
  readonly patienceMs?: number
}

export function openSqlite(options: SqliteOptions): Connection {
  return connectionOn(openFile(options), options)
}

function connectionOn(database: Database.Database, options: SqliteOptions): Connection {
  const prepared = new Map<string, Database.Statement>()
  const listeners = new Set<() => void>()
  const patience = options.patienceMs ?? patienceMs
  let seenVersion = 0
  let poll: NodeJS.Timeout | null = null
  let isHinting = false

  const prepare = (text: string): Database.Statement => {
    let statement = prepared.get(text)
    if (statement === undefined) {
      statement = database.prepare(withFixedPlan(text))
      prepared.set(text, statement)
    }
    return statement
  }
  const read = (statement: Statement): Row[] => prepare(statement.text).all(...statement.values) as Row[]
  const readEach = (statements: readonly Statement[]): Row[][] => statements.map(read)
  // a snapshot is one view already
  const readAll = database.inTransaction ? readEach : database.transaction(readEach)
  const apply = database.transaction((statements: readonly Statement[]) => {
    for (const statement of statements) {
      const done = prepare(statement.text).run(...statement.values)
      if (statement.mustChange !== undefined && done.changes === 0) throw new Unchanged(statement.mustChange)
    }
  })
  const hint = (): void => {
    isHinting = false
    for (const listener of listeners) listener()
  }
  const lookForOthers = (): void => {
    const version = database.pragma('data_version', { simple: true }) as number
    if (version === seenVersion) return
    seenVersion = version
    hint()
  }

  return {
    query: (statement) => patiently(() => read(statement), patience),
    queryAll: (statements) => patiently(() => readAll(statements), patience),
    async *stream(statement) {
      let last: Row | null = null
      for (;;) {
        const after: Row | null = last
        const rows: Row[] = await patiently(() => read(statement(after)), patience)
        yield* rows
        last = rows.at(-1) ?? null
        if (last === null || rows.length < streamLimit) return
        await new Promise((resolve) => setImmediate(resolve))
      }
    },
    async atomically(statements) {
      await patiently(() => { apply.immediate(statements) }, patience)
      if (listeners.size === 0 || isHinting) return
      // one for all that is committed in one go
      isHinting = true
      setImmediate(hint)
    },
    snapshot: () =>
      patiently(() => {
        const frozen = openFile({ ...options, readOnly: true })
        try {
          frozen.exec('BEGIN')
          // the view is fixed by the first read; closing gives it up
          frozen.prepare('SELECT COUNT(*) FROM sqlite_master').get()
          return connectionOn(frozen, options)
        } catch (error) {
          frozen.close()
          throw error
        }
      }, patience),
    onHint(listener) {
      listeners.add(listener)
      if (poll === null) {
        seenVersion = database.pragma('data_version', { simple: true }) as number
        poll = setInterval(lookForOthers, hintPollMs)
        poll.unref()
      }
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0 && poll !== null) {
          clearInterval(poll)
          poll = null
        }
      }
    },
    close() {
      if (poll !== null) clearInterval(poll)
      listeners.clear()
      database.close()
      return Promise.resolve()
    },
  }
}

/**
 * This build of SQLite (STAT4) makes the plan of a statement anew each time a value is bound that the plan might depend on, which costs
 * ten times as much as running it. On a value that comes out of a SELECT no plan depends.
 */
function withFixedPlan(text: string): string {
  const where = text.indexOf('WHERE')
  return where < 0 ? text : text.slice(0, where) + text.slice(where).replaceAll('?', '(SELECT ?)')
}

function openFile(options: SqliteOptions): Database.Database {
  let database: Database.Database | undefined
  try {
    database = new Database(options.file, { timeout: busyTimeoutMs, readonly: options.readOnly ?? false })
    if (!(options.readOnly ?? false)) {
      database.pragma('journal_mode = WAL')
      // after WAL: the switch lowers it
      database.pragma('synchronous = FULL')
      database.pragma('foreign_keys = ON')
    }
    return database
  } catch (error) {
    database?.close()
    throw translate(error)
  }
}

/** Runs, and while the database is locked tries again without blocking the process. */
async function patiently<T>(work: () => T, patience: number): Promise<T> {
  const until = performance.now() + patience
  for (let wait = 5; ; wait = Math.min(wait * 2, 100)) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw translate(error)
    }
    await new Promise((resolve) => setTimeout(resolve, wait + Math.random() * wait))
  }
}

function codeOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

function isBusy(error: unknown): boolean {
  return codeOf(error).startsWith('SQLITE_BUSY') || codeOf(error).startsWith('SQLITE_LOCKED')
}

function translate(error: unknown): unknown {
  const code = codeOf(error)
  if (!code.startsWith('SQLITE_')) return error
  const fail = (message: string): HarnessError => new HarnessError('store_unavailable', message, { cause: error, data: { code } })
  if (isBusy(error)) return fail('The database is locked by another program; nothing was changed. Close what holds it and try again.')
  if (code.startsWith('SQLITE_READONLY')) return fail('The database is read-only; nothing was changed. Give this user the right to write the file and its folder.')
  if (code.startsWith('SQLITE_CANTOPEN')) return fail('The database file cannot be opened. Check that its folder exists and may be written.')
  if (code.startsWith('SQLITE_FULL')) return fail('The disk is full; nothing was changed.')
  if (code.startsWith('SQLITE_NOTADB') || code.startsWith('SQLITE_CORRUPT')) return fail('The file is not a database of this program, or is damaged. Restore it from a backup.')
  if (code.startsWith('SQLITE_CONSTRAINT_UNIQUE') || code.startsWith('SQLITE_CONSTRAINT_PRIMARYKEY')) {
    return new HarnessError('conflict', 'Somebody else wrote the same row first; nothing was changed.', { cause: error, data: { code } })
  }
  return error
}
