/* Verifying what a store holds against the checkpoint file and the public key that lie beside it. Reads only. */
import { verifyAudit } from './audit/verify'
import type { AuditReport } from './audit/report'
import type { ReadOnlyHome } from './home'
import { HarnessError } from './errors'
import { schemaVersion } from './store/migrate'
import { sqlStore } from './store/sql-store'
import type { Store } from './store/store'

export interface Witness {
  /** SPKI PEM of the checkpoint key; null when it is missing. */
  readonly publicKey: string | null
  /** The lines of the checkpoint file; null when there is none. */
  readonly checkpointLines: (() => AsyncIterable<string>) | null
}

export async function verifyStore(store: Store, witness: Witness): Promise<AuditReport> {
  const reads = await store.auditSnapshot()
  try {
    return await verifyAudit({
      reads, publicKey: witness.publicKey, checkpointLines: witness.checkpointLines?.() ?? null,
      laterCheckpoint: (number) => store.checkpointNumbered(number),
    })
  } finally {
    await reads.close()
  }
}

/**
 * Verifies a database file that nobody need have open, with the witness of its home or the one given. Makes and changes nothing.
 * Errors: `store_unavailable` when the file cannot be read, `invalid_input` when it is no database of this program.
 */
export async function verifyDatabase(home: ReadOnlyHome, witness: Partial<Witness> = {}): Promise<AuditReport> {
  const { openSqlite } = await import('./store/sqlite.js')
  const connection = openSqlite({ file: home.databasePath, readOnly: true })
  try {
    if ((await schemaVersion(connection)) === 0) throw new HarnessError('invalid_input', 'The file is not a database of agent-harness: it holds no record.')
    const lines = home.missing.includes('checkpoints.jsonl') ? null : () => home.readCheckpointLines()
    return await verifyStore(sqlStore(connection), { publicKey: home.checkpointPublicKey, checkpointLines: lines, ...witness })
  } finally {
    await connection.close()
  }
}
