/* The seam between the statements, written once, and a database. A transaction is a list of statements; nobody holds one open. */
import type { ErrorCode } from '../errors'

export type SqlValue = string | number | null
export type Row = Readonly<Record<string, SqlValue>>

export interface Statement {
  readonly text: string
  readonly values: readonly SqlValue[]
  /** The statement must change a row; if it does not, the whole batch is undone and fails with this. */
  readonly mustChange?: MustChange
}

/** `chain_moved` is answered inside the store by trying again; the rest are error codes for the caller. */
export interface MustChange {
  readonly code: Extract<ErrorCode, 'conflict' | 'lease_lost' | 'stale_inbox'> | 'chain_moved'
  readonly what: string
}

/** Thrown by `atomically` when a statement had to change a row and did not. */
export class Unchanged extends Error {
  readonly unmet: MustChange
  constructor(unmet: MustChange) {
    super(unmet.what)
    this.unmet = unmet
  }
}

export function sql(text: string, values: readonly SqlValue[] = [], mustChange?: MustChange): Statement {
  return mustChange === undefined ? { text, values } : { text, values, mustChange }
}

export interface Connection {
  /** Contract: reads only; one consistent view per call. */
  query(statement: Statement): Promise<Row[]>
  /** Several reads in one consistent view. */
  queryAll(statements: readonly Statement[]): Promise<Row[][]>
  /** Rows in pages, for tables that do not fit in memory. Contract: does not block writers while the caller works, nor this process between pages. */
  stream(statement: (after: Row | null) => Statement): AsyncIterable<Row>
  /**
   * All statements or none. Contract: durable when it resolves; retries a locked database for a bounded time without blocking the
   * process, then fails with `store_unavailable`.
   */
  atomically(statements: readonly Statement[]): Promise<void>
  /** The database as it is now, to be read until closed, whatever is written meanwhile. Contract: does not block writers. */
  snapshot(): Promise<Pick<Connection, 'query' | 'queryAll' | 'stream' | 'close'>>
  onHint(listener: () => void): () => void
  close(): Promise<void>
}

/** The page size that `stream` relies on; statements given to it end with this limit. */
export const streamLimit = 500
