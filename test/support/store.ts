/* A real store on a file of its own, gone after the test; and the home beside it that checkpoints need. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate, readMigrations } from '../../core/store/migrate'
import type { Connection } from '../../core/store/sql'
import { sqlStore } from '../../core/store/sql-store'
import { openSqlite } from '../../core/store/sqlite'
import type { Store } from '../../core/store/store'

export interface TestStore {
  readonly store: Store
  readonly connection: Connection
  readonly folder: string
  /** The database file. */
  readonly file: string
  /** Another connection to the same file, as another process has one. */
  another(): { readonly store: Store; readonly connection: Connection }
  close(): Promise<void>
}

const opened: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const end of opened.splice(0)) await end()
})

/** A migrated store in a folder of its own. Closed and removed after the test. */
export async function openTestStore(): Promise<TestStore> {
  const folder = mkdtempSync(join(tmpdir(), 'harness-'))
  const file = join(folder, 'harness.db')
  const connections: Connection[] = []
  const connect = (): { store: Store; connection: Connection } => {
    const connection = openSqlite({ file })
    connections.push(connection)
    return { connection, store: sqlStore(connection) }
  }
  const { connection, store } = connect()
  await migrate(connection, readMigrations('sqlite'), 1_000)
  const close = async (): Promise<void> => {
    for (const open of connections.splice(0)) await open.close()
  }
  opened.push(async () => {
    await close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { store, connection, folder, file, another: connect, close }
}

export interface TestHome {
  readonly checkpointPrivateKey: string
  readonly checkpointPublicKey: string
  /** The file of checkpoints. */
  readonly file: string
  /** Its lines; empty when there is none. */
  lines(): string[]
  appendCheckpointLine(line: string): Promise<void>
  readCheckpointLines(): AsyncIterable<string>
}

/** What a home gives to checkpoints and verifying, in the folder of a test store. */
export function testHome(folder: string): TestHome {
  const checkpointPrivateKey = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  const file = join(folder, 'checkpoints.jsonl')
  const lines = (): string[] => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [])
  return {
    checkpointPrivateKey,
    checkpointPublicKey: createPublicKey(checkpointPrivateKey).export({ format: 'pem', type: 'spki' }).toString(),
    file,
    lines,
    async appendCheckpointLine(line) {
      appendFileSync(file, `${line}\n`)
    },
    async *readCheckpointLines() {
      yield* lines()
    },
  }
}
