/*
 * What n8n's webhook of a workflow answers, over real HTTP: not registered, all items of the last node, a failed workflow, a slow one, and
 * the 401 of a trigger that does not know the signature.
 */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Json } from '../../core/digest'
import { verifyCall } from '../../core/index'

export interface Received {
  readonly path: string
  readonly callId: string
  readonly arguments: Json
}

export interface Webhook {
  readonly url: string
  /** Runs that began: what a workflow that is active was called with. */
  readonly runs: readonly Received[]
  /** Requests of any kind. */
  requests(): number
  /** How a path answers; `away` as if no workflow were active. */
  behave(path: string, how: Behaviour): void
  /** Nobody listens any more; the port stays free for `listen`. */
  deafen(): Promise<void>
  listen(): Promise<void>
  close(): Promise<void>
}

export type Behaviour =
  | { readonly as: 'away' | 'failed' | 'silent' | 'hangs_up' }
  | { readonly as: 'items'; readonly items: Json }
  | { readonly as: 'status'; readonly status: number; readonly body: Json }

/** `key`: what the trigger verifies with. */
export async function n8nWebhook(key: () => Buffer): Promise<Webhook> {
  const runs: Received[] = []
  const behaviours = new Map<string, Behaviour>()
  let requests = 0
  let server: Server | null = null
  let port = 0

  const answer = async (request: IncomingMessage): Promise<{ status: number; body: Json } | 'silent' | 'hangs_up'> => {
    requests += 1
    const path = request.url ?? ''
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const how = behaviours.get(path) ?? { as: 'away' }
    if (how.as === 'away') {
      return { status: 404, body: { code: 404, message: `The requested webhook "${String(request.method)} ${path.slice(1)}" is not registered.`, hint: 'The workflow must be active for a production URL to run successfully.' } }
    }
    const header = (name: string): string | null => [request.headers[name.toLowerCase()]].flat()[0] ?? null
    const verdict = verifyCall({ method: request.method ?? '', path, body, header, now: Date.now() }, key())
    if (!verdict.ok) return { status: 401, body: { message: verdict.problem } }
    runs.push({ path, callId: verdict.callId, arguments: JSON.parse(body.toString()) as Json })
    switch (how.as) {
      case 'items':
        return { status: 200, body: how.items }
      case 'failed':
        return { status: 500, body: { message: 'Error in workflow' } }
      case 'status':
        return { status: how.status, body: how.body }
      default:
        return how.as
    }
  }
  const listen = async (): Promise<void> => {
    const made = createServer((request, response) => {
      void answer(request).then((given) => {
        if (given === 'silent') return
        if (given === 'hangs_up') {
          request.socket.destroy()
          return
        }
        response.writeHead(given.status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(given.body))
      })
    })
    await new Promise<void>((resolve) => made.listen(port, '127.0.0.1', resolve))
    port = (made.address() as AddressInfo).port
    server = made
  }
  const deafen = async (): Promise<void> => {
    const made = server
    server = null
    made?.closeAllConnections()
    if (made !== null) await new Promise((resolve) => made.close(resolve))
  }
  await listen()
  return {
    url: `http://127.0.0.1:${String(port)}`,
    runs,
    requests: () => requests,
    behave: (path, how) => { behaviours.set(path, how) },
    deafen,
    listen,
    close: deafen,
  }
}
