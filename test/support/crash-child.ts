/*
 * Starts test/crash/child.cjs on a home of its own, and sees how it ended. Everything it starts is in `living` until it is gone, so that
 * a test can end what it left; every home is a folder of its own, removed at the end.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import type { TurnView } from '../../core/protocol/operations'
import { scriptedAwaitId, type CrashScript, type PersonStep } from './crash-scripts'
import { startCountingServer, type CountingServer, type SeenRequest } from './counting-server'

const root = path.join(__dirname, '../..')

/** Where the child ends itself. Counting begins anew with every process. */
export type Kill =
  /** At the n-th commit, of those that say something of a turn or of any; or at the first whose label holds the text. */
  | { readonly at: 'commit'; readonly when: 'before' | 'after'; readonly of: 'turn' | 'any'; readonly number: number }
  | { readonly at: 'commit'; readonly when: 'before' | 'after'; readonly label: string }
  /** Before the n-th statement inside a transaction; half a number more: after it. */
  | { readonly at: 'statement'; readonly number: number }
  /** When the request of a function would go out, or when its answer is there. */
  | { readonly at: 'function'; readonly when: 'before' | 'after'; readonly function_id: string }
  | { readonly at: 'model' }
  /** When a callback would go out, or when its answer is there. */
  | { readonly at: 'callback'; readonly when: 'before' | 'after' }

export interface ChildReport {
  /** What every commit said, in order, and its first and last statement (if statements were counted). */
  readonly commits: readonly { readonly label: string; readonly statements: readonly [first: number, last: number] }[]
  /** Whether it found that another process runs the turns. */
  readonly stood_by: boolean
  /** When it ran the turns itself. */
  readonly working_at: number
  /** By the key of the step that began them. */
  readonly turns: Readonly<Record<string, TurnView>>
}

/** How a run ended: with a report, or with the death of its process. */
export interface RunEnd {
  readonly report: ChildReport | null
  readonly signal: NodeJS.Signals | null
  readonly code: number | null
  /** What it said on stderr. */
  readonly errors: string
}

export interface RunOptions {
  readonly kill?: Kill
  /** Instead of the script's own. */
  readonly steps?: readonly PersonStep[]
  /** Nothing but the migrations, as every start makes them: for the many starts that get no further. */
  readonly migrateOnly?: boolean
}

/**
 * Runs homes one after the other in a process, and in the next one when that was killed: whatever goes on after a kill goes on in a process
 * that was started after it.
 */
export interface Lane {
  run(home: CrashHome, options?: RunOptions): Promise<RunEnd>
  /** Kills the process that runs at the moment, from outside. Resolves when it is gone. */
  kill(): Promise<void>
  /** Lets the process end. */
  end(): Promise<void>
}

/** A home with the configuration of the shop, whose functions lie under a path of their own on the counting server. */
export interface CrashHome {
  readonly folder: string
  readonly databasePath: string
  readonly script: CrashScript
  readonly key: KeyObject
  /** What of the server is this home's. */
  readonly url: string
  pathOf(functionId: string): string
  requests(functionId?: string): readonly SeenRequest[]
  /** Calls to whoever waits. */
  callbacks(): readonly SeenRequest[]
  /** Writes down what a run has to do; answers the name of that file. */
  plan(options: RunOptions): string
  /** What the children wrote down, oldest first. */
  trace(): readonly TraceLine[]
  remove(): void
}

export type TraceLine = { readonly killed: string } | { readonly stands_by: true } | { readonly awaited: string } | { readonly asked: readonly TracedMessage[] }

export interface TracedMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'function_result'
  readonly text: string
  readonly call_id?: string
  readonly calls?: readonly { readonly call_id: string; readonly function_id: string }[]
}

const living = new Set<ChildProcess>()
const homes = new Set<CrashHome>()
let server: Promise<CountingServer> | null = null
let number = 0
/** Set by {@link endCrashes}: what a test left running, one that took too long, begins nothing any more. */
let isOver = false

/** The one server of a test file. */
export function crashServer(): Promise<CountingServer> {
  server ??= startCountingServer()
  return server
}

/** Ends what still runs, by its pid, and removes everything. For afterAll. */
export async function endCrashes(): Promise<void> {
  isOver = true
  for (const child of living) child.kill('SIGKILL')
  for (const home of [...homes]) home.remove()
  await (await server)?.stop()
  server = null
}

const built = path.join(root, 'dist', 'core')

let isChecked = false

/** The children run what ships: the build. One that is older than the sources would prove nothing. */
function checkBuild(): void {
  if (isChecked) return
  const { buildIsFresh } = jest.requireActual<{ buildIsFresh(): boolean }>('../../scripts/freshness.cjs')
  if (!buildIsFresh()) throw new Error('dist/ is older than the sources; run "npm run build", or the tests by npm.')
  isChecked = true
}

const config = (publicKey: string, url: string): string => `
deployment: d_00000000000000000000000000000000
principals:
  local: { roles: [owner], scopes: [turns:write, turns:read, identity:read, awaits, approvals:decide, admin] }
approvers:
  - { name: alice, public_key: "${publicKey}", roles: [approver] }
policy:
  functions: { allow: ["shop::*"], deny: ["shop::secret*"] }
  rules:
    - { id: harmless, functions: ["shop::note", "shop::slow", "shop::set"], effect: allow, reason: Harmless. }
functions:
${[
  ['look_up', 'side_effects: read, risk: low'], ['refund', 'risk: high'], ['transfer', 'risk: high, approval_ttl: 1s'], ['note', 'risk: low'],
  ['slow', 'risk: low'], ['set', 'risk: low, idempotent: true'], ['secret', 'side_effects: read, risk: low'],
].map(([name, traits]) => `  shop::${name}: { ${traits}, schema: { type: object }, http: { url: "${url}/${name}" } }`).join('\n')}
`

export async function makeCrashHome(script: CrashScript): Promise<CrashHome> {
  if (isOver) throw new Error('The tests of this file are over.')
  const shared = await crashServer()
  number += 1
  const prefix = `/home-${String(number)}`
  const folder = mkdtempSync(path.join(tmpdir(), 'harness-crash-'))
  const pair = generateKeyPairSync('ed25519')
  const publicKey = pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
  const trace = path.join(folder, 'trace.jsonl')
  writeFileSync(path.join(folder, 'harness.yaml'), config(publicKey, shared.url + prefix), { mode: 0o600 })
  const pathOf = (functionId: string): string => `${prefix}/${functionId.replace('shop::', '')}`
  const waitsAt = `/waits-${String(number)}`
  shared.plan(waitsAt, { kind: 'answer', body: { accepted: true, awaitId: scriptedAwaitId } })
  let plans = 0
  const home: CrashHome = {
    folder, script, key: pair.privateKey, url: shared.url + prefix, pathOf,
    databasePath: path.join(folder, 'harness.db'),
    requests: (functionId) =>
      shared.requests.filter((seen) => (functionId === undefined ? seen.path.startsWith(`${prefix}/`) : seen.path === pathOf(functionId))),
    callbacks: () => shared.requests.filter((seen) => seen.path === waitsAt),
    plan({ kill, steps, migrateOnly }) {
      plans += 1
      const name = path.join(folder, `plan-${String(plans)}.json`)
      const approver_key = pair.privateKey.export({ format: 'pem', type: 'pkcs8' })
      const todo = { script: script.model, steps: steps ?? script.steps, kill: kill ?? null, migrate_only: migrateOnly ?? false, await: { await_id: scriptedAwaitId, url: shared.url + waitsAt } }
      writeFileSync(name, JSON.stringify({ folder, trace, approver_key, ...todo }))
      return name
    },
    trace() {
      const lines = existsSync(trace) ? readFileSync(trace, 'utf8').split('\n') : []
      return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as TraceLine)
    },
    remove() {
      homes.delete(home)
      rmSync(folder, { recursive: true, force: true })
    },
  }
  homes.add(home)
  return home
}

export function crashLane(): Lane {
  let child: RunningChild | null = null
  return {
    async run(home, options = {}) {
      child ??= startChild()
      const end = await child.run(home.plan(options))
      if (end.report === null) child = null
      return end
    },
    async kill() {
      await child?.kill()
      child = null
    },
    async end() {
      await child?.end()
      child = null
    },
  }
}

interface RunningChild {
  run(plan: string): Promise<RunEnd>
  kill(): Promise<void>
  end(): Promise<void>
}

function startChild(): RunningChild {
  if (isOver) throw new Error('The tests of this file are over.')
  checkBuild()
  const env = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: path.join(root, 'node_modules', '.cache', 'crash-compiled') }
  const child = spawn(process.execPath, [path.join(__dirname, '../crash/child.cjs'), built], { stdio: 'pipe', env })
  living.add(child)
  let errors = ''
  let settle: (end: RunEnd) => void = () => undefined
  child.stderr.on('data', (data: Buffer) => { errors += data.toString() })
  // one that dies cannot read what it is given any more
  child.stdin.on('error', () => undefined)
  createInterface({ input: child.stdout }).on('line', (line) => {
    settle({ report: JSON.parse(line) as ChildReport, signal: null, code: null, errors })
  })
  const ended = new Promise<void>((resolve) => {
    // close, not exit: then all that it said was read
    child.on('close', (code, signal) => {
      living.delete(child)
      settle({ report: null, signal, code, errors })
      resolve()
    })
  })
  return {
    run: (plan) => new Promise((resolve) => {
      errors = ''
      settle = resolve
      child.stdin.write(`${plan}\n`)
    }),
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    async end() {
      child.stdin.end()
      await ended
    },
  }
}

/** The database as it lies there, copied, so that looking at it mends nothing. Null where there is none yet. Remove the folder after use. */
export function copyDatabase(home: CrashHome): string | null {
  if (!existsSync(home.databasePath)) return null
  const folder = path.join(home.folder, 'looked-at')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  const copy = path.join(folder, 'harness.db')
  for (const ending of ['', '-wal']) if (existsSync(home.databasePath + ending)) copyFileSync(home.databasePath + ending, copy + ending)
  return copy
}

/** Looks until it holds; whoever cannot wait longer goes on, and the test sees it. */
export async function soon(holds: () => boolean): Promise<void> {
  for (const end = performance.now() + 20_000; !holds() && performance.now() < end; ) await wait(5)
}

/** Works on all, in so many lanes side by side. */
export async function inLanes<T>(items: readonly T[], lanes: number, work: (item: T, lane: Lane) => Promise<void>): Promise<void> {
  const queue = items.values()
  const done = await Promise.allSettled(Array.from({ length: lanes }, async () => {
    const lane = crashLane()
    try {
      for (const item of queue) await work(item, lane)
    } finally {
      await lane.end()
    }
  }))
  // only now, when none of them works on any more
  for (const lane of done) if (lane.status === 'rejected') throw lane.reason
}
