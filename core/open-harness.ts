/* placeholder: interface only while the implementation is written */
import type { Harness } from './protocol/operations'
import type { Caller } from './identity/principal'
import type { Home } from './home'
import type { Log } from './log'
import type { Clock } from './clock'
import type { Model } from './model/model'
import type { Authority } from './authority'
import type { FunctionEntry } from './policy/policy'
import type { KeyObject } from 'node:crypto'

export interface OpenOptions {
  readonly home: Home
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** For the workers table: `serve`, `stdio`, `command`. */
  readonly program: 'serve' | 'stdio' | 'command'
  /** False: rows only, no worker (short commands). */
  readonly worker: boolean
  /** Functions beside those of harness.yaml (`--sample`). */
  readonly overlay?: readonly FunctionEntry[]
  readonly clock?: Clock
  /** In place of Ollama: the scripted model. */
  readonly model?: Model
}

export interface OpenHarness extends Harness {
  readonly home: Home
  authority(): Authority
  /** The caller of this machine: `local_principal` by the given door. `scopes` narrows it. */
  localCaller(sourceId: string, narrowTo?: readonly Caller['principal']['scopes'][number][]): Caller
  /** Counts for `status` screens: turns by status, oldest hold, schema version, worker holder. */
  overview(): Promise<Overview>
  /** Unlocks an approver's key; counts wrong tries and locks (core/unlock.ts). */
  unlock(approver: string, passphrase: string): Promise<KeyObject>
  /** This process's worker: working, standing by beside another process, or none. */
  workerState(): { readonly state: 'working' | 'standing_by' | 'none'; readonly text: string }
  readonly model: Model
  /** Orderly end: running model and function calls are aborted, leases given up, a last checkpoint made. */
  close(): Promise<void>
}

export interface Overview {
  readonly turns: Readonly<Record<string, number>>
  readonly pending_approvals: number
  readonly oldest_hold: { readonly approval_id: string; readonly function_id: string; readonly since: number } | null
  readonly schema: number
  readonly worker: string
  readonly audit_rows: number
}

export declare function openHarness(options: OpenOptions): Promise<OpenHarness>
