/*
 * A real n8n in tests: a folder of its own with our package installed, a server on it that can be ended, killed and started again, and
 * n8n's commands beside it. One server costs 0.7 GB and ten seconds of work, so the tests of a file share one where they can. Everything
 * ends by its process id: in `endN8n`, or by itself when the test run is gone.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { npmEnvironment, onceARun, placePackage, removeFolder } from './n8n-package'

const owner = { email: 'owner@example.com', firstName: 'Olga', lastName: 'Owner', password: 'Password-of-the-0wner' }

/** A folder for one n8n, with its owner and migrated database. Its ports stay the same over restarts, as addresses in the database must. */
export interface N8nPlace {
  /** N8N_USER_FOLDER. */
  readonly folder: string
  /** What n8n calls its folder: `<folder>/.n8n`. */
  readonly n8nFolder: string
  readonly url: string
  readonly port: number
  readonly brokerPort: number
  /** What servers and commands on this place said, in order. */
  readonly log: string
  /** For the public API. */
  readonly apiKey: string
  /** For everything else: the owner is logged in. */
  readonly cookie: string
}

export interface N8nServer {
  readonly place: N8nPlace
  readonly url: string
  readonly pid: number
  /** From the start of the process until it answered, ms. */
  readonly readyAfter: number
  /** SIGTERM; resolves when it is gone. */
  stop(): Promise<void>
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Resolves when the process has ended, by itself too. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
}

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Options of node itself. */
  readonly nodeOptions?: readonly string[]
}

const living = new Set<ChildProcess>()
const folders = new Set<string>()

/** A new place; with our package unless the test is about n8n without it. */
export async function makePlace({ withPackage = true }: { withPackage?: boolean } = {}): Promise<N8nPlace> {
  const template = await migratedTemplate()
  const folder = mkdtempSync(path.join(tmpdir(), 'harness-n8n-'))
  folders.add(folder)
  cpSync(path.join(template, '.n8n'), path.join(folder, '.n8n'), { recursive: true })
  if (withPackage) await placePackage(folder)
  const keys = JSON.parse(readFileSync(path.join(template, 'keys.json'), 'utf8')) as { apiKey: string; cookie: string }
  return placeAt(folder, keys)
}

async function placeAt(folder: string, keys: { apiKey: string; cookie: string }): Promise<N8nPlace> {
  const [port, brokerPort] = await freePorts(2)
  const url = `http://127.0.0.1:${String(port)}`
  return { folder, n8nFolder: path.join(folder, '.n8n'), url, port: port!, brokerPort: brokerPort!, log: path.join(folder, 'n8n.log'), ...keys }
}

/** Starts n8n on a place; resolves when it answers and its workflows are active. */
export async function startN8n(place: N8nPlace, { env = {}, nodeOptions = [] }: StartOptions = {}): Promise<N8nServer> {
  const log = openSync(place.log, 'a')
  const said = readFileSync(place.log, 'utf8').length
  const began = performance.now()
  const child = spawnN8n(place, ['start'], { env, nodeOptions, stdio: ['ignore', log, log] })
  closeSync(log)
  const ended = whenEnded(child)
  const answers = async (): Promise<boolean> => {
    const ready = await fetch(`${place.url}/healthz/readiness`, { signal: AbortSignal.timeout(2_000) }).then((answer) => answer.ok, () => false)
    return ready && readFileSync(place.log, 'utf8').slice(said).includes('Editor is now accessible')
  }
  while (!(await answers())) {
    await wait(50)
    if (child.exitCode === null && child.signalCode === null && performance.now() < began + 120_000) continue
    child.kill('SIGKILL')
    throw new Error(`n8n did not start:\n${readFileSync(place.log, 'utf8').slice(said).slice(-3_000)}`)
  }
  const readyAfter = Math.round(performance.now() - began)
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
  }
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    if ((await Promise.race([ended, wait(30_000, null, { ref: false })])) === null) await kill()
  }
  return { place, url: place.url, pid: child.pid!, readyAfter, stop, kill, ended }
}

/**
 * Ends n8n, by SIGTERM or SIGKILL, and starts it again on the same place. After SIGKILL n8n would only sleep ten seconds, because of a file that
 * it finds; that file is taken away, which changes nothing of what it recovers.
 */
export async function restartN8n(n8n: N8nServer, how: 'stop' | 'kill', options: StartOptions = {}): Promise<N8nServer> {
  await n8n[how]()
  rmSync(path.join(n8n.place.n8nFolder, 'crash.journal'), { force: true })
  return startN8n(n8n.place, options)
}

/** Runs one of n8n's commands on a place, also beside a server: `['export:nodes', '--output=…']`. */
export async function n8nCommand(place: N8nPlace, words: readonly string[], { env = {}, nodeOptions = [] }: StartOptions = {}): Promise<Finished> {
  const [brokerPort] = await freePorts(1)
  const own = { N8N_RUNNERS_BROKER_PORT: String(brokerPort), ...env }
  const child = spawnN8n(place, words, { env: own, nodeOptions, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (data: Buffer) => { stdout += data.toString() })
  child.stderr?.on('data', (data: Buffer) => { stderr += data.toString() })
  const { code } = await whenEnded(child)
  writeFileSync(place.log, `\n== n8n ${words.join(' ')}\n${stdout}${stderr}`, { flag: 'a' })
  return { code, stdout, stderr }
}

/** Imports workflows as they stand in a file; they keep their ids and are not active. */
export async function importWorkflows(place: N8nPlace, file: string): Promise<void> {
  const { code, stdout, stderr } = await n8nCommand(place, ['import:workflow', `--input=${file}`])
  if (code !== 0) throw new Error(`n8n imports no workflow of ${file}:\n${stdout}${stderr}`)
}

/** For afterAll: ends what still runs and removes every folder. Set E2E_KEEP=1 to look at them afterwards. */
export async function endN8n(): Promise<void> {
  await Promise.all([...living].map((child) => {
    const ended = whenEnded(child)
    child.kill('SIGKILL')
    return ended
  }))
  for (const folder of folders) {
    if (process.env['E2E_KEEP'] === '1') process.stderr.write(`kept: ${folder}\n`)
    else removeFolder(folder)
  }
  folders.clear()
}

/** Where n8n is installed; test/e2e/set-up.cjs has seen to it. */
function n8nProgram(): string {
  const { n8nFolder } = jest.requireActual<{ n8nFolder(): string }>('../../scripts/n8n.cjs')
  return path.join(n8nFolder(), 'node_modules', 'n8n', 'bin', 'n8n')
}

interface Spawning {
  readonly env: Readonly<Record<string, string>>
  readonly nodeOptions: readonly string[]
  readonly stdio: ('ignore' | 'pipe' | number)[]
}

function spawnN8n(place: N8nPlace, words: readonly string[], { env, nodeOptions, stdio }: Spawning): ChildProcess {
  const program = [...nodeOptions, '--require', path.join(__dirname, 'parent-watch.cjs'), n8nProgram(), ...words]
  // in a group of its own, so that Ctrl-C at the test run ends it through us and not beside us
  const child = spawn(process.execPath, program, { cwd: place.folder, env: { ...environment(place), ...env }, stdio, detached: true })
  living.add(child)
  child.once('exit', () => living.delete(child))
  return child
}

function whenEnded(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve({ code: child.exitCode, signal: child.signalCode })
  // close, not exit: then all that it said was read
  return new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal })))
}

/** Modules of n8n that our nodes have nothing to do with; without them it starts three seconds sooner and asks nobody on the internet. */
const noModules = [
  'insights', 'external-secrets', 'mcp', 'oauth-server', 'breaking-changes', 'source-control', 'dynamic-credentials', 'chat-hub', 'sso-oidc', 'sso-saml',
  'log-streaming', 'ldap', 'quick-connect', 'workflow-builder', 'otel', 'mcp-registry', 'instance-ai', 'agents',
]

function environment(place: N8nPlace): Record<string, string> {
  return npmEnvironment({
    HOME: place.folder, N8N_USER_FOLDER: place.folder, NODE_ENV: 'production',
    N8N_LISTEN_ADDRESS: '127.0.0.1', N8N_HOST: '127.0.0.1', N8N_PORT: String(place.port), N8N_PROTOCOL: 'http', N8N_WEBHOOK_URL: `${place.url}/`,
    // no child process for Code nodes, which our workflows have none of
    N8N_RUNNERS_MODE: 'external', N8N_RUNNERS_AUTH_TOKEN: 'x', N8N_RUNNERS_BROKER_PORT: String(place.brokerPort), N8N_RUNNERS_BROKER_LISTEN_ADDRESS: '127.0.0.1',
    N8N_ENCRYPTION_KEY: 'the key of all n8n in these tests', N8N_SECURE_COOKIE: 'false', N8N_LOG_LEVEL: 'info',
    N8N_DIAGNOSTICS_ENABLED: 'false', N8N_VERSION_NOTIFICATIONS_ENABLED: 'false', N8N_VERSION_NOTIFICATIONS_WHATS_NEW_ENABLED: 'false',
    N8N_TEMPLATES_ENABLED: 'false', N8N_PERSONALIZATION_ENABLED: 'false', N8N_HIRING_BANNER_ENABLED: 'false', N8N_UNVERIFIED_PACKAGES_ENABLED: 'true',
    N8N_DISABLED_MODULES: noModules.join(','),
  })
}

/** A folder with everything but our package, made by a first start of n8n: saves its migrations and the owner's set-up in every place. */
function migratedTemplate(): Promise<string> {
  return onceARun('template', async (staging) => {
    mkdirSync(path.join(staging, '.n8n'), { recursive: true })
    const server = await startN8n(await placeAt(staging, { apiKey: '', cookie: '' }))
    try {
      const setUp = await post(`${server.url}/rest/owner/setup`, owner)
      const cookie = setUp.headers.getSetCookie().map((line) => line.split(';')[0]).join('; ')
      const scopes = await (await fetch(`${server.url}/rest/api-keys/scopes`, { headers: { cookie } })).json() as { data: string[] }
      const made = await post(`${server.url}/rest/api-keys`, { label: 'tests', scopes: scopes.data, expiresAt: null }, { cookie })
      const { data } = await made.json() as { data: { rawApiKey: string } }
      writeFileSync(path.join(staging, 'keys.json'), JSON.stringify({ apiKey: data.rawApiKey, cookie }))
    } finally {
      await server.stop()
    }
    if (existsSync(path.join(staging, '.n8n', 'agent-harness'))) throw new Error('n8n without our package made a home of ours.')
  })
}

async function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${url}: ${String(answer.status)} ${await answer.text()}`)
  return answer
}

/** Free for the moment, each another one. */
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise<ReturnType<typeof createServer>>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => resolve(server))
  })))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}
