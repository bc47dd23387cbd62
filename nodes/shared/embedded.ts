/*
 * The harness inside this n8n: one for each folder and process, whoever asks first opens it. Several copies of this package may be
 * loaded in one process (n8n keeps the old one in memory after an update), so the place where it is found is global and knows which
 * version opened it; a newer copy closes the older one's. The core is loaded when it is first needed, never with the node files.
 */
import { statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { LoggerProxy, sleep, UserError } from 'n8n-workflow'
import type { Log, OpenHarness } from '../../core/index'

export type Environment = Readonly<Record<string, string | undefined>>

export interface EmbeddedSettings {
  readonly folder: string
  /** Who set it so: the id of a credential, or nobody. A folder is opened in one way only. */
  readonly setBy: string | null
  /** What stands over the environment of the process: the address of Ollama, keys. */
  readonly env: Environment
}

interface Place {
  readonly version: string
  readonly setBy: string | null
  readonly settings: string
  readonly opening: Promise<OpenHarness>
  close(): Promise<void>
}

const registrySymbol = Symbol.for('n8n-nodes-agent-harness.embedded')

function registry(): Map<string, Place> {
  const all = globalThis as unknown as Record<symbol, Map<string, Place> | undefined>
  return (all[registrySymbol] ??= new Map<string, Place>())
}

/** As n8n finds it: `N8N_USER_FOLDER`, else the home folder, and `.n8n` in it. */
export function n8nFolder(env: Environment): string {
  return join(env['N8N_USER_FOLDER'] ?? env[process.platform === 'win32' ? 'USERPROFILE' : 'HOME'] ?? homedir(), '.n8n')
}

/** The harness that needs no credential. */
export function defaultSettings(env: Environment): EmbeddedSettings {
  return { folder: join(n8nFolder(env), 'agent-harness'), setBy: null, env: {} }
}

/** Whether somebody has used the harness of this folder before. */
export function hasHarness(folder: string): boolean {
  try {
    return statSync(join(folder, 'harness.db')).size > 0
  } catch {
    return false
  }
}

/** Why no harness can live inside this process; null when one can. */
export function whyNotHere(env: Environment, nodeVersion: string): string | null {
  if (env['EXECUTIONS_MODE'] === 'queue') {
    return 'n8n runs in queue mode: its processes cannot share a harness in a folder. Run "agent-harness serve" and choose Harness: Server here, with its credential.'
  }
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number)
  if (major < 22 || (major === 22 && minor < 13)) return `This n8n runs on Node.js ${nodeVersion}. The Agent Harness needs Node.js 22.13 or newer.`
  return null
}

/**
 * The open harness of these settings. Racing first uses open it once; one that could not be opened is tried again at the next use. A
 * credential that was edited opens it anew; two that name the same folder would close it under each other, so the second is refused.
 */
export async function openEmbedded(settings: EmbeddedSettings): Promise<OpenHarness> {
  const { version } = await import('../../core/index.js')
  const places = registry()
  const folder = resolve(settings.folder)
  const key = JSON.stringify(Object.entries(settings.env).sort())
  const known = places.get(folder)
  if (known !== undefined && known.setBy !== settings.setBy) {
    throw new UserError(`The harness in ${folder} is in use with other settings: ${known.setBy === null ? 'it is the one that needs no credential' : 'another credential names it'}. Name another folder in the credential.`)
  }
  if (known !== undefined && known.version === version && known.settings === key) return known.opening

  const opening = (async () => {
    await known?.close()
    return open(folder, settings.env)
  })()
  const place: Place = { version, setBy: settings.setBy, settings: key, opening, close: async () => opening.then((harness) => harness.close(), () => undefined) }
  places.set(folder, place)
  opening.catch(() => {
    if (places.get(folder) === place) places.delete(folder)
  })
  return opening
}

async function open(folder: string, over: Environment): Promise<OpenHarness> {
  const { openHarness, openHome } = await import('../../core/index.js')
  const home = await openHome(folder, { sample: false, embedded: true })
  return openHarness({ home, env: { ...process.env, ...over }, log: n8nLog, program: 'n8n', worker: true })
}

/** Longer than the lease of a process that is gone and cannot be seen to be, as after a container was replaced. */
const longestStandBy = { ms: 12_000, step: 50 }

/** Whether this process runs the turns. It does a moment after opening, unless another process holds the place. */
export async function runsTurns(harness: OpenHarness): Promise<boolean> {
  for (let waited = 0; harness.workerState().state !== 'working'; waited += longestStandBy.step) {
    if (waited >= longestStandBy.ms) return false
    await sleep(longestStandBy.step)
  }
  return true
}

export const n8nLog: Log = {
  debug: (fields, message) => { LoggerProxy.debug(`Agent Harness: ${message}`, fields) },
  info: (fields, message) => { LoggerProxy.info(`Agent Harness: ${message}`, fields) },
  warn: (fields, message) => { LoggerProxy.warn(`Agent Harness: ${message}`, fields) },
  error: (fields, message) => { LoggerProxy.error(`Agent Harness: ${message}`, fields) },
}
