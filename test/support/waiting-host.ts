/*
 * A host of workflows as n8n is one, as far as a callback sees it: executions that are running, waiting, over or gone, behind addresses with
 * a token. It answers by n8n's own words and status codes (reference of n8n 2.41), refuses what n8n would not understand, and a waiting
 * execution asks the harness before it goes on. It knows nothing of our code.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export type ExecutionState = 'running' | 'waiting' | 'finished' | 'failed' | 'gone'

export interface Posted {
  readonly execution: string
  readonly await_id: string
  readonly status: string
  /** By the clock that never goes back. */
  readonly at: number
  /** What was answered; 0: the connection was cut. */
  readonly answered: number
}

/** What goes wrong at the next call of an execution, whatever its state. `cut_after`: it went on, and the answer got lost. */
export type Trouble = 'cut' | 'cut_after' | 'error' | 'error_after' | 'unavailable' | 'silent' | 'redirect' | 'foreign_yes' | 'huge'

export interface WaitingHost {
  /** The base that a credential would register. */
  readonly base: string
  /** The resume address of an execution, with its token. */
  resumeUrl(execution: string): string
  set(execution: string, state: ExecutionState): void
  /** How a waiting execution learns how it stands, as its node would: anything but pending lets it go on. */
  asks(execution: string, ask: () => Promise<string>): void
  trouble(execution: string, ...next: readonly Trouble[]): void
  /** Requests in the order they came. */
  readonly posted: readonly Posted[]
  /** How often an execution went on. */
  resumed(execution: string): number
  /** What n8n would not have understood. */
  readonly wrong: readonly string[]
  /** Refuses connections until started again on the same port. */
  down(): Promise<void>
  up(): Promise<void>
}

const open = new Set<WaitingHost>()

/** For afterEach. */
export async function closeHosts(): Promise<void> {
  for (const host of open) await host.down()
  open.clear()
}

export async function startWaitingHost(): Promise<WaitingHost> {
  const states = new Map<string, ExecutionState>()
  const asking = new Map<string, () => Promise<string>>()
  const troubles = new Map<string, Trouble[]>()
  const counts = new Map<string, number>()
  const posted: Posted[] = []
  const wrong: string[] = []
  const sockets = new Set<Socket>()
  let server: Server | null = null
  let port = 0

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const at = performance.now()
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    const execution = /^\/n8n\/webhook-waiting\/([\w-]+)$/.exec(url.pathname)?.[1] ?? ''
    const body = understood(request, Buffer.concat(chunks).toString())
    if (body === null || execution === '') {
      wrong.push(`${request.method ?? ''} ${url.pathname}: ${Buffer.concat(chunks).toString()}`)
      response.writeHead(400).end()
      return
    }
    const trouble = troubles.get(execution)?.shift()
    const answer = trouble === undefined || trouble.endsWith('_after') ? await regular(execution, url, body.await_id) : troubled(trouble)
    const isCut = trouble === 'cut' || trouble === 'cut_after'
    const status = isCut || trouble === 'silent' ? 0 : trouble === 'error_after' ? 500 : answer.status
    posted.push({ execution, ...body, at, answered: status })
    if (isCut) request.socket.destroy()
    else if (trouble === 'error_after') send(response, 500, { message: 'There was a problem executing the workflow' })
    else if (trouble !== 'silent') send(response, answer.status, answer.body)
  }

  async function regular(execution: string, url: URL, awaitId: string): Promise<{ status: number; body: unknown }> {
    const state = states.get(execution) ?? 'gone'
    const says = (status: number, what: string): { status: number; body: unknown } => ({ status, body: { code: status, message: `The execution "${execution}" ${what}.` } })
    if (state === 'gone') return says(404, 'does not exist')
    if (url.searchParams.get('signature') !== tokenOf(execution)) return { status: 401, body: { error: 'Invalid token' } }
    if (state === 'running') return says(409, 'is running already')
    if (state === 'finished') return says(409, 'has finished already')
    if (state === 'failed') return says(409, 'has finished with error')
    const status = (await asking.get(execution)?.()) ?? 'done'
    if (status === 'pending') return { status: 200, body: { pending: true } }
    if (states.get(execution) !== 'waiting') return says(409, 'is running already')
    states.set(execution, 'finished')
    counts.set(execution, (counts.get(execution) ?? 0) + 1)
    return { status: 200, body: { accepted: true, awaitId } }
  }

  const host: WaitingHost = {
    get base() { return `http://127.0.0.1:${String(port)}/n8n` },
    resumeUrl: (execution) => `${host.base}/webhook-waiting/${execution}?signature=${tokenOf(execution)}`,
    set: (execution, state) => { states.set(execution, state) },
    asks: (execution, ask) => { asking.set(execution, ask) },
    trouble: (execution, ...next) => { troubles.set(execution, [...next]) },
    posted, wrong,
    resumed: (execution) => counts.get(execution) ?? 0,
    async down() {
      const closing = server
      server = null
      if (closing === null) return
      await new Promise<void>((resolve) => {
        closing.close(() => { resolve() })
        for (const socket of sockets) socket.destroy()
      })
    },
    async up() {
      server = createServer((request, response) => void serve(request, response).catch(() => response.destroy()))
      server.on('connection', (socket) => {
        sockets.add(socket)
        socket.on('close', () => sockets.delete(socket))
      })
      await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve))
      port = (server.address() as AddressInfo).port
    },
  }
  open.add(host)
  await host.up()
  return host
}

const tokenOf = (execution: string): string => `token-of-${execution}`

function understood(request: IncomingMessage, text: string): { await_id: string; status: string } | null {
  if (request.method !== 'POST' || request.headers['content-type'] !== 'application/json') return null
  const body = JSON.parse(text) as { await_id?: unknown; status?: unknown }
  const isWhole = Object.keys(body).sort().join() === 'await_id,status' && typeof body.await_id === 'string' && (body.status === 'done' || body.status === 'timed_out')
  return isWhole ? (body as { await_id: string; status: string }) : null
}

function troubled(trouble: Trouble): { status: number; body: unknown } {
  switch (trouble) {
    case 'error':
      return { status: 500, body: { code: 0, message: 'There was a problem executing the workflow' } }
    case 'unavailable':
      return { status: 503, body: '<html>Service Unavailable</html>' }
    case 'redirect':
      return { status: 302, body: '' }
    case 'foreign_yes':
      return { status: 200, body: { accepted: true, awaitId: 'another_await_of_somebody' } }
    case 'huge':
      return { status: 200, body: `{"accepted":true,"padding":"${'x'.repeat(5_000_000)}"}` }
    default:
      return { status: 0, body: '' }
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  response.writeHead(status, { 'Content-Type': 'application/json', ...(status === 302 ? { Location: '/n8n/webhook-waiting/elsewhere' } : {}) }).end(text)
}
