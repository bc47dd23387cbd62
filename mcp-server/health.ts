/* One address on loopback that says whether this harness is well. Tells counts only, and only to programs on this machine. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { HarnessError } from '../core/index'

/** Where it is when nobody says otherwise and the port is free. */
export const usualPort = 4477

export interface Health {
  readonly address: string
  close(): Promise<void>
}

/** What `/healthz` answers; throwing means unwell. */
export type ReadHealth = () => Promise<Readonly<Record<string, unknown>>>

/** Listens on 127.0.0.1, on `port` or else on the usual one, or on any that is free. Throws `conflict` when the given port is taken. */
export async function startHealth(port: number | null, read: ReadHealth): Promise<Health> {
  const app = new Hono()
  app.get('/healthz', async (context) => {
    // a page in a browser may reach loopback under a name of its own; it gets nothing
    if (!/^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(context.req.header('host') ?? '')) return context.json({ status: 'forbidden' }, 403)
    try {
      return context.json({ status: 'ok', ...(await read()) })
    } catch {
      return context.json({ status: 'unavailable' }, 503)
    }
  })
  const server = createAdaptorServer({ fetch: app.fetch, hostname: '127.0.0.1' }) as Server
  try {
    await listen(server, port ?? usualPort)
  } catch (error) {
    if (port !== null)
      throw new HarnessError('conflict', `Port ${String(port)} cannot be used; it may be taken. Choose another with --port, or leave it out.`, {
        cause: error,
      })
    await listen(server, 0)
  }
  return {
    address: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/healthz`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve()
        })
        server.closeAllConnections()
      }),
  }
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
}
