/* The floor that speed is measured in: two small commits at full durability, by plain better-sqlite3 on the disk of the test. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'

export interface Floor {
  /** Milliseconds for so many rounds of two commits each. */
  rounds(count: number): number
  close(): void
}

export function openFloor(): Floor {
  const folder = mkdtempSync(path.join(tmpdir(), 'floor-'))
  const database = new Database(path.join(folder, 'floor.db'))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec('CREATE TABLE steps (id INTEGER PRIMARY KEY, what TEXT NOT NULL)')
  const insert = database.prepare('INSERT INTO steps (what) VALUES (?)')
  const commit = database.transaction((what: string) => { insert.run(what) })
  return {
    rounds(count) {
      const from = performance.now()
      for (let at = 0; at < 2 * count; at += 1) commit.immediate(`step ${String(at)}: ${'x'.repeat(100)}`)
      return performance.now() - from
    },
    close() {
      database.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right)
  return sorted[Math.floor(sorted.length / 2)] ?? NaN
}

export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)] ?? NaN
}
