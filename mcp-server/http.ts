/*
 * What serve offers over HTTP: an address on loopback, and the routes that are mounted on it. Each set of routes says for itself who may
 * use it; `loopbackOnly` is for those that a browser must not reach under a name of its own.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono, type MiddlewareHandler } from 'hono'
import { HarnessError } from '../core/index'

/** Where it is when nobody says otherwise and the port is free. */
export const usualPort = 4477

/** Puts routes on the address. */
export type Mount = (app: Hono) => void

export interface HttpServer {
  /** `http://127.0.0.1:PORT`, without a slash at its end. */
  readonly base: string
  close(): Promise<void>
}

/** Listens on 127.0.0.1, on `port` or else on the usual one, or on any that is free. Throws `conflict` when the given port is taken. */
export async function startHttp(port: number | null, ...mounts: readonly Mount[]): Promise<HttpServer> {
  const app = new Hono()
  for (const mount of mounts) mount(app)
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
    base: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve()
        })
        server.closeAllConnections()
      }),
  }
}

/** A page in a browser may reach loopback under a name of its own (DNS rebinding); it gets nothing. */
export const loopbackOnly: MiddlewareHandler = async (context, next) => {
  if (!isLoopback(context.req.header('host') ?? '')) return context.json({ status: 'forbidden' }, 403)
  return next()
}

function isLoopback(host: string): boolean {
  return /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(host)
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
