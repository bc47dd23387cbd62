/*
 * Real processes of the built command on a home of their own: MCP clients over stdio, the harness behind them, and the command line beside
 * them. Everything that is started here is ended by its process id in `endAll`; nothing is left running and no folder either.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const root = path.join(__dirname, '../..')
/** The built command; `npm test` has built it before. */
export const cli = path.join(process.env['AGENT_HARNESS_DIST'] ?? path.join(root, 'dist'), 'mcp-server', 'cli.js')
export const inspector = path.join(root, 'node_modules', '.bin', 'mcp-inspector')

export const passphrase = 'correct horse battery staple'

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly pid: number
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>
  stdout(): string
  stderr(): string
  /** Resolves when it has ended. */
  readonly ended: Promise<Finished>
  /** Resolves when stdout has matched; rejects when it ended or 15 s passed without. */
  says(pattern: RegExp): Promise<RegExpExecArray>
}

export interface RunOptions {
  readonly stdin?: string
  readonly env?: Readonly<Record<string, string>>
  /** Options of node itself, before the command. */
  readonly nodeOptions?: readonly string[]
  readonly node?: string
}

export interface TestHome {
  readonly folder: string
  /** Starts the command on this home. */
  start(words: readonly string[], options?: RunOptions): Running
  /** Runs it to its end. */
  run(words: readonly string[], options?: RunOptions): Promise<Finished>
  /** Writes harness.yaml. */
  configure(text: string): void
  /** Makes the approver `alice`, with {@link passphrase}. */
  init(): Promise<void>
  /** Decides by command line, in a process of its own, the passphrase on stdin. */
  decide(decision: 'approve' | 'reject', approvalId: string, typed?: string): Promise<Finished>
  /** An MCP client of the official SDK on `agent-harness stdio`. */
  client(words?: readonly string[], env?: Readonly<Record<string, string>>): Promise<TestClient>
  /** `agent-harness stdio` without any SDK. */
  raw(words?: readonly string[], options?: RunOptions): RawClient
}

/** What tools answer; a test looks at what it knows to be there. */
export interface Facts {
  readonly state: string
  readonly next: string
  readonly turn_id: string
  readonly worker: string
  readonly approvals: readonly { readonly approval_id: string }[]
  readonly functions: readonly unknown[]
  readonly arguments: unknown
}

export interface ToolResult {
  readonly content: readonly { readonly text: string }[]
  readonly structuredContent?: Facts
  readonly isError?: boolean
}

export interface Message {
  readonly id?: number
  readonly result: ToolResult & { readonly tools: readonly unknown[]; readonly protocolVersion: string }
  readonly error?: { readonly code: number; readonly message: string }
}

export interface TestClient {
  readonly client: Client
  readonly pid: number
  /** Calls a tool; its facts. Fails the test when text and structure differ, or on an error. */
  call(name: string, args?: Record<string, unknown> | null): Promise<Facts>
  /** Calls a tool; the text of its error. */
  refused(name: string, args?: Record<string, unknown>): Promise<string>
  close(): Promise<void>
}

export interface RawClient extends Running {
  /** Sends one line as it is. */
  line(text: string): void
  /** Sends a request; its answer. */
  request(method: string, params?: unknown): Promise<Message>
  /** The handshake. */
  initialize(): Promise<Message>
  /** Every line of stdout so far, parsed; throws on one that is no JSON-RPC. */
  messages(): Message[]
}

const folders: string[] = []
const children: Running[] = []
const clients: TestClient[] = []

export function testHome(): TestHome {
  const folder = mkdtempSync(path.join(tmpdir(), 'harness-mcp-'))
  folders.push(folder)
  const words = (given: readonly string[]): string[] => [...given, '--home', folder]
  const home: TestHome = {
    folder,
    start: (given, options = {}) => start(words(given), options),
    run: (given, options = {}) => start(words(given), { stdin: '', ...options }).ended,
    configure: (text) => {
      writeFileSync(path.join(folder, 'harness.yaml'), text, { mode: 0o600 })
    },
    async init() {
      const done = await home.run(['init', '--approver', 'alice'], { stdin: `${passphrase}\n` })
      if (done.code !== 0) throw new Error(done.stderr)
    },
    decide: (decision, approvalId, typed = passphrase) =>
      home.run(['approvals', decision, approvalId, ...(decision === 'reject' ? ['--reason', 'not today'] : [])], { stdin: `${typed}\n` }),
    client: (given = [], env = {}) => connect(words(['stdio', ...given]), env),
    raw: (given = [], options = {}) => raw(start(words(['stdio', ...given]), options)),
  }
  return home
}

/** The environment of a child: nothing of ours but what a program needs, and no model server unless the test names one. */
export function environment(env: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: path.join(tmpdir(), 'harness-mcp-no-home'), OLLAMA_HOST: '127.0.0.1:1', NO_COLOR: '1', ...env }
}

export function start(words: readonly string[], { stdin, env, nodeOptions = [], node = process.execPath }: RunOptions = {}): Running {
  return watch(node, [...nodeOptions, cli, ...words], { stdin, env: environment(env) })
}

/** Starts any program and keeps what it says. */
export function watch(
  program: string,
  args: readonly string[],
  { stdin, env }: { stdin?: string | undefined; env: Record<string, string> },
): Running {
  const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  child.stdin.on('error', () => undefined)
  if (stdin !== undefined) child.stdin.end(stdin)
  const ended = new Promise<Finished>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => {
      resolve({ code, stdout, stderr })
    })
  })
  const running: Running = {
    pid: child.pid ?? 0,
    child,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    says: (pattern) =>
      until(
        `stdout to match ${String(pattern)}`,
        () => pattern.exec(stdout),
        () => `${stdout}\n${stderr}`,
      ),
  }
  children.push(running)
  return running
}

/** Looks until something is there; rejects after 15 s. */
export async function until<T>(
  what: string,
  look: () => T | null | undefined | false | Promise<T | null | undefined | false>,
  seen: () => string = () => '',
): Promise<T> {
  const end = performance.now() + 15_000
  for (;;) {
    const found = await look()
    if (found !== null && found !== undefined && found !== false) return found
    if (performance.now() > end) throw new Error(`waited in vain for ${what}\n${seen()}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function connect(words: readonly string[], env: Readonly<Record<string, string>>): Promise<TestClient> {
  const transport = new StdioClientTransport({ command: process.execPath, args: [cli, ...words], env: environment(env), stderr: 'ignore' })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  const pid = transport.pid ?? 0
  const answer = async (name: string, args: Record<string, unknown> | null): Promise<ToolResult> =>
    (await client.callTool({ name, arguments: args as Record<string, unknown> }, undefined, { timeout: 55_000 })) as unknown as ToolResult
  const made: TestClient = {
    client,
    pid,
    async call(name, args = {}) {
      const result = await answer(name, args)
      const { text } = result.content[0]!
      if (result.isError === true) throw new Error(text)
      expect(JSON.parse(text)).toEqual(result.structuredContent)
      expect(typeof result.structuredContent?.next).toBe('string')
      return result.structuredContent!
    },
    async refused(name, args = {}) {
      const result = await answer(name, args)
      expect(result).toMatchObject({ isError: true, content: [{ type: 'text' }] })
      expect(result.structuredContent).toBeUndefined()
      return result.content[0]!.text
    },
    close: () => client.close(),
  }
  clients.push(made)
  return made
}

function raw(running: Running): RawClient {
  let next = 1
  const messages = (): Message[] =>
    running
      .stdout()
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        const message = JSON.parse(line) as Message & { jsonrpc?: unknown }
        if (message.jsonrpc !== '2.0') throw new Error(`no JSON-RPC: ${line}`)
        return message
      })
  const client: RawClient = {
    ...running,
    messages,
    line: (text) => {
      running.child.stdin.write(`${text}\n`)
    },
    request(method, params = {}) {
      const id = next++
      client.line(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
      return until(
        `an answer to ${method}`,
        () => messages().find((message) => message.id === id),
        () => running.stderr(),
      )
    },
    async initialize() {
      const answer = await client.request('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'raw', version: '1' },
      })
      client.line(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }))
      return answer
    },
  }
  return client
}

/** True while a process of this id is there. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    // a zombie is no longer running
    return !/^State:\s+Z/m.test(readStatus(pid))
  } catch {
    return false
  }
}

function readStatus(pid: number): string {
  try {
    return readFileSync(`/proc/${String(pid)}/status`, 'utf8')
  } catch {
    return ''
  }
}

/** Ends everything started so far and removes the homes. */
export async function endAll(): Promise<void> {
  for (const client of clients.splice(0)) await client.close().catch(() => undefined)
  for (const { child, pid, ended } of children.splice(0)) {
    if (child.exitCode === null && child.signalCode === null && pid > 0) child.kill('SIGKILL')
    await ended.catch(() => undefined)
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}
