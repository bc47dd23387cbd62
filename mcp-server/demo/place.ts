/*
 * Where the demo happens: a home of its own with a throw-away approver, in a temporary folder that vanishes with this process, however it
 * ends, or kept beside the database file that was named.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { configName, HarnessError, openHarness, openHome, scriptedModel, type OpenHarness } from '../../core/index'
import { stderrLog } from '../logging'
import { declareRefund, script } from './refund'

export interface DemoPlace {
  readonly folder: string
  readonly databasePath: string
  readonly kept: boolean
  /** The home opened beside the one that runs turns, as the command line does. */
  readonly harness: OpenHarness
  readonly passphrase: string
}

export async function makePlace(functionUrl: string, database: string | undefined): Promise<DemoPlace> {
  const kept = database !== undefined
  const folder = kept ? dirname(resolve(database)) : mkdtempSync(join(tmpdir(), 'agent-harness-demo-'))
  // a process that was just killed may still be closing its files
  if (!kept) process.once('exit', () => { rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }) })
  const databasePath = kept ? resolve(database) : join(folder, 'harness.db')
  const home = await openHome(folder, { databasePath })
  const passphrase = await declareRefund(home, functionUrl)
  const log = stderrLog({ verbose: false, level: 'error' })
  const harness = await openHarness({ home, env: {}, log, program: 'command', worker: false, model: scriptedModel(script) })
  return { folder, databasePath, kept, harness, passphrase }
}

/** Throws `conflict` when the database's folder holds a harness already: a demo never mixes with one. */
export function refuseUsed(database: string): void {
  const folder = dirname(resolve(database))
  for (const file of [resolve(database), ...[configName, 'checkpoints.jsonl', 'sent.log'].map((name) => join(folder, name))]) {
    if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) continue
    throw new HarnessError('conflict', `${file} is there already. The demo needs a place of its own: name a file in a folder without a harness.`)
  }
}
