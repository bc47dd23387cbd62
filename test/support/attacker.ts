/*
 * One who may write the database and nothing else: no configuration, no key, no memory. Works on a second connection with triggers
 * dropped and constraints ignored, and strikes in one transaction, so that a worker sees all of it or none.
 */
import Database from 'better-sqlite3'
import { copyFileSync, rmSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { Place } from './place'

export type Value = string | number | null
export type Row = Record<string, Value>

export interface Attacker {
  /** Runs a statement; answers how many rows it changed. */
  run(text: string, ...values: readonly Value[]): number
  rows(text: string, ...values: readonly Value[]): Row[]
  /** The one row; fails when there is none. */
  row(text: string, ...values: readonly Value[]): Row
  insert(table: string, row: Row): void
  /** Sets these columns of the row with this id; fails when there is none. */
  set(table: string, id: string, columns: Row): void
  /** The row with this id. */
  get(table: string, id: string): Row
}

const idColumns: Readonly<Record<string, string>> = {
  turns: 'turn_id', calls: 'call_id', approval_requests: 'approval_id', contents: 'content_id', messages: 'message_id', inbox: 'inbox_id',
  sessions: 'session_id',
}

function onFile<T>(file: string, work: (database: Database.Database) => T): T {
  const database = new Database(file, { timeout: 10_000 })
  try {
    return work(database)
  } finally {
    database.close()
  }
}

function attackerOn(database: Database.Database): Attacker {
  const attacker: Attacker = {
    run: (text, ...values) => database.prepare(text).run(...values).changes,
    rows: (text, ...values) => database.prepare(text).all(...values) as Row[],
    row(text, ...values) {
      const row = attacker.rows(text, ...values)[0]
      if (row === undefined) throw new Error(`no row for ${text}`)
      return row
    },
    insert(table, row) {
      const columns = Object.keys(row)
      attacker.run(`INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`, ...Object.values(row))
    },
    set(table, id, columns) {
      const names = Object.keys(columns).map((name) => `${name} = ?`)
      const changed = attacker.run(`UPDATE ${table} SET ${names.join(', ')} WHERE ${idColumns[table] ?? 'id'} = ?`, ...Object.values(columns), id)
      if (changed !== 1) throw new Error(`${table} has no ${id}`)
    },
    get: (table, id) => attacker.row(`SELECT * FROM ${table} WHERE ${idColumns[table] ?? 'id'} = ?`, id),
  }
  return attacker
}

/** Strikes: all that `work` does becomes visible at once. */
export function attack<T>(place: Pick<Place, 'home'>, work: (attacker: Attacker) => T): T {
  return onFile(place.home.databasePath, (database) => {
    database.pragma('foreign_keys = OFF')
    database.pragma('ignore_check_constraints = ON')
    return database.transaction(() => {
      const triggers = database.prepare(`SELECT name FROM sqlite_master WHERE type = 'trigger'`).pluck().all() as string[]
      for (const trigger of triggers) database.exec(`DROP TRIGGER ${trigger}`)
      return work(attackerOn(database))
    }).immediate()
  })
}

/** Reads what the rows say. */
export function look<T>(place: Pick<Place, 'home'>, work: (reader: Pick<Attacker, 'rows' | 'row' | 'get'>) => T): T {
  return onFile(place.home.databasePath, (database) => work(attackerOn(database)))
}

/** Everything that is stored, but for who is the worker and what was signed when. */
export function storedRows(place: Pick<Place, 'home'>): Record<string, Row[]> {
  return look(place, (reader) => {
    const tables = reader.rows(`SELECT name FROM sqlite_master WHERE type = 'table'`).map((row) => String(row['name']))
    const kept = tables.filter((table) => !['workers', 'checkpoints', 'chains'].includes(table))
    return Object.fromEntries(kept.map((table) => [table, reader.rows(`SELECT * FROM ${table}`)]))
  })
}

export interface Copy {
  /** Puts the copy in the place of the file, which nobody may have open. */
  restoreFile(): void
  /** Puts the copy's rows in the place of all rows, also under a running worker; who the worker is stays as it is. */
  restoreRows(): void
}

/** The whole database as it is now. */
export function copyDatabase(place: Pick<Place, 'home'>): Copy {
  const file = place.home.databasePath
  const copy = `${file}.older`
  rmSync(copy, { force: true })
  onFile(file, (database) => database.prepare('VACUUM INTO ?').run(copy))
  return {
    restoreFile() {
      for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true })
      copyFileSync(copy, file)
      onFile(file, (database) => database.exec('DELETE FROM workers'))
    },
    restoreRows: () =>
      onFile(file, (database) => {
        database.pragma('foreign_keys = OFF')
        database.prepare('ATTACH ? AS older').run(copy)
        database.transaction(() => {
          const all = database.prepare('SELECT name FROM main.sqlite_master WHERE type = ?').pluck()
          const names = (type: string): string[] => all.all(type) as string[]
          for (const trigger of names('trigger')) database.exec(`DROP TRIGGER ${trigger}`)
          for (const table of names('table').filter((name) => name !== 'workers' && !name.startsWith('sqlite_'))) {
            database.exec(`DELETE FROM main.${table}; INSERT INTO main.${table} SELECT * FROM older.${table}`)
          }
          // as if no worker had them
          database.exec('UPDATE main.turns SET lease_owner = NULL')
        }).immediate()
      }),
  }
}

const busy = `SELECT turn_id, status FROM turns
  WHERE finished_at IS NULL AND (status IN ('queued', 'running') OR wake_at <= ? OR inbox_posted > inbox_seen)`

/**
 * Resolves when no turn has work left, by the rows: each is over, or parked with nothing new. Fails after 15 s: then something spins or
 * is wedged.
 */
export async function settled(place: Pick<Place, 'home'>, now: () => number = Date.now): Promise<void> {
  const until = performance.now() + 15_000
  for (let still = 0; still < 3;) {
    const rows = look(place, (reader) => reader.rows(busy, now()))
    still = rows.length === 0 ? still + 1 : 0
    if (performance.now() > until) throw new Error(`never settled: ${JSON.stringify(rows)}`)
    await wait(30)
  }
}

/** What the record says was found. */
export function tamperingFound(place: Pick<Place, 'home'>): string[] {
  const texts = look(place, (reader) => reader.rows(`SELECT changes FROM audit_events WHERE chain = 'deployment' ORDER BY seq`))
  const changes = texts.flatMap((row) => JSON.parse(String(row['changes'])) as { type: string; what?: string }[])
  return changes.flatMap(({ type, what }) => (type === 'tampering.found' ? [what ?? ''] : []))
}
