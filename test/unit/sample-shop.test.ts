import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../../core/clock'
import type { FunctionOutcome } from '../../core/functions/function'
import { httpSource } from '../../core/functions/http'
import { checkSchema } from '../../core/functions/validate'
import { isFunctionId } from '../../core/policy/glob'
import { sampleFunctions, startSampleShop, type SampleShop } from '../../mcp-server/sample-shop'

const signingKey = Buffer.from('the key of a home')
const lines: string[] = []
let shop: SampleShop

async function start(port: number): Promise<Awaited<ReturnType<typeof startSampleShop>>> {
  return startSampleShop({ port, signingKey, log: (line) => lines.push(line) })
}

beforeEach(async () => {
  lines.length = 0
  const started = await start(0)
  if (started.alreadyRunning) throw new Error('a free port was taken')
  shop = started
})

afterEach(() => shop.stop())

function call(which: 0 | 1, args: object, key = signingKey): Promise<FunctionOutcome> {
  const source = httpSource({ signingKey: key, secret: () => undefined, clock: systemClock })
  return source.call(
    { call_id: 'c_1', turn_id: 't_1', session_id: 's_1', entry: sampleFunctions(shop.url)[which], arguments: args as never },
    new AbortController().signal,
  )
}

describe('The sample shop', () => {
  it('looks orders up, and says when there is none', async () => {
    expect(await call(0, { order: 'A-1001' })).toEqual({
      kind: 'answered',
      is_error: false,
      value: { order: 'A-1001', customer: expect.any(String), item: expect.any(String), amount: 49.9, currency: 'EUR', status: 'delivered' },
    })
    for (let number = 1001; number <= 1005; number += 1) expect(await call(0, { order: `A-${String(number)}` })).toMatchObject({ is_error: false })
    expect(await call(0, { order: 'A-9999' })).toEqual({
      kind: 'answered',
      is_error: true,
      value: { status: 404, body: { error: 'There is no such order.' } },
    })
  })

  it('pays each refund that arrives, also the same one twice, and counts them', async () => {
    const args = { order: 'A-1002', amount: 19.99, reason: 'A key is broken.' }
    expect(await call(1, args)).toMatchObject({ kind: 'answered', is_error: false, value: { refund_id: 'R-1', status: 'refunded' } })
    expect(await call(1, args)).toMatchObject({ value: { refund_id: 'R-2' } })
    expect(shop.refunds()).toEqual([
      { refund_id: 'R-1', ...args, call_id: 'c_1' },
      { refund_id: 'R-2', ...args, call_id: 'c_1' },
    ])
    expect(await (await fetch(`${shop.url}/health`)).json()).toEqual({ shop: 'agent-harness sample', refunds: 2 })
    expect(lines).toHaveLength(2)
    expect(lines[0]).toContain('19.99 EUR')
  })

  it('pays nothing for a wrong order, a wrong amount or wrong arguments', async () => {
    const reason = 'x'
    for (const args of [
      { order: 'A-9999', amount: 1, reason }, { order: 'A-1001', amount: 50, reason }, { order: 'A-1001', amount: -1, reason },
      { order: 'A-1001', amount: 1 },
    ]) {
      expect(await call(1, args)).toMatchObject({ kind: 'answered', is_error: true })
    }
    expect(shop.refunds()).toEqual([])
  })

  it('does nothing for a request that is not signed with its key', async () => {
    const args = { order: 'A-1001', amount: 1, reason: 'x' }
    expect(await call(1, args, Buffer.from('another key'))).toMatchObject({ is_error: true, value: { status: 401 } })
    expect((await fetch(`${shop.url}/refund`, { method: 'POST', body: JSON.stringify(args) })).status).toBe(401)
    expect(shop.refunds()).toEqual([])
  })

  it('is found when its port is asked for again, and says so when another program has it', async () => {
    expect(await start(shop.port)).toEqual({ alreadyRunning: true, url: shop.url })
    const foreign = await new Promise<Server>((resolve) => {
      const server = createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1', () => {
        resolve(server)
      })
    })
    await expect(start((foreign.address() as AddressInfo).port)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('taken by another program'),
    })
    foreign.closeAllConnections()
    await new Promise((resolve) => foreign.close(resolve))
  })

  it('declares its two functions so that the harness takes them, the refund as a risky write that is not repeated', () => {
    const functions = sampleFunctions('http://127.0.0.1:1')
    for (const entry of functions) {
      checkSchema(entry.schema, entry.id)
      expect(isFunctionId(entry.id)).toBe(true)
    }
    expect(functions[0]).toMatchObject({ id: 'shop::look_up_order', side_effects: 'read', risk: 'low' })
    expect(functions[1]).toMatchObject({ id: 'shop::refund', side_effects: 'write', risk: 'high', idempotent: false, approver_roles: ['approver'] })
  })
})
