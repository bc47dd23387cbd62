/* Numbered files, forward only, recorded first in the same transaction as their statements. A newer schema than this code is refused. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { HarnessError } from '../errors'
import { sql, type Connection } from './sql'

interface Migration {
  readonly number: number
  readonly statements: readonly string[]
}

const folder = path.join(__dirname, 'migrations')

/** The migrations for a dialect, by number: `0001_name.sql` for all, `0002_name.<dialect>.sql` for one. */
export function readMigrations(dialect: 'sqlite'): readonly Migration[] {
  const files = readdirSync(folder).filter((name) => /^\d{4}_\w+(\.\w+)?\.sql$/.test(name))
  return files
    .filter((name) => name.split('.').length === 2 || name.split('.')[1] === dialect)
    .sort()
    .map((name) => ({
      number: Number(name.slice(0, 4)),
      statements: readFileSync(path.join(folder, name), 'utf8').split(/^--$/m).map((text) => text.replace(/^-- .*$/gm, '').trim()),
    }))
}

export async function schemaVersion(connection: Connection): Promise<number> {
  const tables = await connection.query(sql(`SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'migrations'`))
  if (tables.length === 0) return 0
  const rows = await connection.query(sql('SELECT MAX(number) AS version FROM migrations'))
  return Number(rows[0]?.['version'] ?? 0)
}

/** One that is missing between others is applied too: two that were written side by side need not be released in their order. */
async function applied(connection: Connection): Promise<ReadonlySet<number>> {
  if (await schemaVersion(connection) === 0) return new Set()
  const rows = await connection.query(sql('SELECT number FROM migrations'))
  return new Set(rows.map((row) => Number(row['number'])))
}

/**
 * Brings the schema up to this code. Safe to run twice, by two processes, and to be killed at any statement.
 * Errors: `schema_too_new` when the database was written by a newer version of this package.
 */
export async function migrate(connection: Connection, migrations: readonly Migration[], now: number): Promise<void> {
  const latest = migrations.at(-1)?.number ?? 0
  const version = await schemaVersion(connection)
  if (version > latest) {
    throw new HarnessError(
      'schema_too_new',
      `The database has schema ${String(version)}, this version of agent-harness knows up to ${String(latest)}. Install the newer version again, or restore a backup made before it.`,
    )
  }
  const before = await applied(connection)
  for (const migration of migrations.filter(({ number }) => !before.has(number))) {
    const already = { code: 'conflict' as const, what: `migration ${String(migration.number)} was applied by another process` }
    try {
      await connection.atomically([
        sql('CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL)'),
        // first, so that of two migrating processes the later one changes nothing
        sql('INSERT INTO migrations (number, applied_at) VALUES (?, ?) ON CONFLICT DO NOTHING', [migration.number, now], already),
        ...migration.statements.map((text) => sql(text)),
      ])
    } catch (error) {
      if (!(await applied(connection)).has(migration.number)) throw error
    }
  }
}
