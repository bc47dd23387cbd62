/*
 * A foreign HTTP server for tests. It writes down every request and does what it is told, crudely where told so; it never answers
 * anything else, and knows nothing of our code.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface SeenRequest {
  readonly method: string
  /** Path without query. */
  readonly path: string
  readonly query: string
  readonly headers: IncomingHttpHeaders
  /** From the header Harness-Call-Id, null without one. */
  readonly call_id: string | null
  /** Raw, as it came. */
  readonly body: string
}

/**
 * - `answer`: status (200), headers (JSON), body ({"ok":true}); a body that is no string is sent as JSON. After `delay_ms` (0).
 * - `hold`: no byte until {@link CountingServer.release}.
 * - `first_byte`: headers for 100 bytes and one of them, then silence.
 * - `cut`: the connection is reset once the request was read.
 * - `cut_in_body`: headers for 100 bytes, ten of them, then the connection ends.
 * - `raw`: these bytes instead of an HTTP answer, then the end.
 */
export type Plan =
  | { kind: 'answer'; status?: number; headers?: Record<string, string>; body?: unknown; delay_ms?: number }
  | { readonly kind: 'hold' | 'first_byte' | 'cut' | 'cut_in_body' }
  | { readonly kind: 'raw'; readonly bytes: string }

export interface CountingServer {
  /** Without a slash at its end. */
  readonly url: string
  readonly port: number
  /** All whole requests in the order they came, those held included. */
  readonly requests: readonly SeenRequest[]
  /** How many requests came to this path. */
  count(path: string): number
  /** From now on requests to this path are treated so. */
  plan(path: string, plan: Plan): void
  /** Short for `plan(path, { kind: 'hold' })`. */
  hold(path: string): void
  /** Answers all that is held with the default, and holds nothing any more. */
  release(): void
  /** Resolves when `count` requests came to the path; rejects after 5 s. */
  seen(path: string, count: number): Promise<void>
  /** How many TCP connections were ever opened. */
  connections(): number
  /** How many of them are open now. */
  open(): number
  stop(): Promise<void>
}

export async function startCountingServer(): Promise<CountingServer> {
  const requests: SeenRequest[] = []
  const plans = new Map<string, Plan>()
  const sockets = new Set<Socket>()
  const watchers = new Set<() => void>()
  let held: ServerResponse[] = []
  let opened = 0

  const server = createServer((request, response) => {
    void (async () => {
      const seen = await readRequest(request)
      if (seen === null) return
      requests.push(seen)
      const plan = plans.get(seen.path) ?? { kind: 'answer' }
      if (plan.kind === 'hold') held.push(response)
      else await carryOut(plan, response)
      for (const watcher of watchers) watcher()
    })()
  })
  server.on('connection', (socket) => {
    opened += 1
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const count = (path: string): number => requests.filter((seen) => seen.path === path).length

  return {
    url: `http://127.0.0.1:${String(port)}`,
    port,
    requests,
    count,
    plan: (path, plan) => { plans.set(path, plan) },
    hold: (path) => { plans.set(path, { kind: 'hold' }) },
    release: () => {
      for (const [path, plan] of plans) if (plan.kind === 'hold') plans.delete(path)
      for (const response of held) void carryOut({ kind: 'answer' }, response)
      held = []
    },
    seen: (path, wanted) => new Promise((resolve, reject) => {
      const done = (error?: Error): void => {
        clearTimeout(timer)
        watchers.delete(look)
        if (error === undefined) resolve()
        else reject(error)
      }
      const look = (): void => { if (count(path) >= wanted) done() }
      const timer = setTimeout(() => { done(new Error(`${path} was asked ${String(count(path))} times, not ${String(wanted)}`)) }, 5000)
      watchers.add(look)
      look()
    }),
    connections: () => opened,
    open: () => sockets.size,
    stop: () => new Promise((resolve) => {
      server.close(() => { resolve() })
      for (const socket of sockets) socket.destroy()
    }),
  }
}

/** The whole request, or null if it broke off. */
async function readRequest(request: IncomingMessage): Promise<SeenRequest | null> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer)
  } catch {
    return null
  }
  const url = new URL(request.url ?? '/', 'http://127.0.0.1')
  const callId = request.headers['harness-call-id']
  return {
    method: request.method ?? '', path: url.pathname, query: url.search, headers: request.headers,
    call_id: typeof callId === 'string' ? callId : null, body: Buffer.concat(chunks).toString(),
  }
}

async function carryOut(plan: Exclude<Plan, { kind: 'hold' }>, response: ServerResponse): Promise<void> {
  if (plan.kind === 'cut') response.socket?.resetAndDestroy()
  else if (plan.kind === 'raw') response.socket?.end(plan.bytes)
  else if (plan.kind === 'answer') {
    if (plan.delay_ms !== undefined) await new Promise((resolve) => setTimeout(resolve, plan.delay_ms))
    const body = typeof plan.body === 'string' || Buffer.isBuffer(plan.body) ? plan.body : JSON.stringify(plan.body ?? { ok: true })
    response.writeHead(plan.status ?? 200, { 'Content-Type': 'application/json', ...plan.headers }).end(body)
  } else {
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '100' })
    if (plan.kind === 'first_byte') response.write('{')
    else response.write('{"ok":true', () => response.socket?.end())
  }
}
