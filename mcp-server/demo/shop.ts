/*
 * The shop of a demo that was given none. It counts what it is asked, sends the beginning of an answer at once and the rest never, as a
 * server does whose answer is cut.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface DemoShop {
  readonly url: string
  /** Whole POSTs to {@link url}. */
  refunds(): number
  /** Everything else that came. */
  others(): number
  stop(): Promise<void>
}

export async function startDemoShop(): Promise<DemoShop> {
  let refunds = 0
  let others = 0
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const isRefund = request.method === 'POST' && request.url === '/refund'
      if (!isRefund) {
        others += 1
        response.writeHead(404).end()
        return
      }
      refunds += 1
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '64' }).write('{')
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${String(port)}/refund`,
    refunds: () => refunds,
    others: () => others,
    stop: () => new Promise((resolve) => {
      server.close(() => { resolve() })
      server.closeAllConnections()
    }),
  }
}
