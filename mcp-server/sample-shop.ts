/*
 * A tiny shop on this machine, to try the harness with: orders that may be looked up, and refunds that must not happen twice. It plays
 * the foreign server, so it never helps: a refund sent twice is paid twice, and counted. Keeps all in memory.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono, type Context } from 'hono'
import { HarnessError, isHarnessError, parseStrictJson, validateArguments, verifySignature, type FunctionEntry } from '../core/index'

const shopName = 'agent-harness sample'
const host = '127.0.0.1'
const bodyBytes = 64 * 1024

export interface SampleShopOptions {
  /** 0 takes any free one. */
  readonly port: number
  /** The key that calls are signed with; others are refused. */
  readonly signingKey: Buffer
  /** One line for people for each thing that happens. */
  readonly log: (line: string) => void
}

export interface SampleRefund {
  readonly refund_id: string
  readonly order: string
  /** EUR. */
  readonly amount: number
  readonly reason: string
  /** The call that asked for it; the same twice means it was sent twice. */
  readonly call_id: string
}

export interface SampleShop {
  readonly alreadyRunning: false
  readonly url: string
  readonly port: number
  /** All refunds since the start, in order. */
  refunds(): readonly SampleRefund[]
  /** Ends all connections and frees the port. */
  stop(): Promise<void>
}

interface Order {
  readonly order: string
  readonly customer: string
  readonly item: string
  readonly amount: number
  readonly currency: 'EUR'
  readonly status: 'paid' | 'shipped' | 'delivered' | 'returned'
}

const orders: readonly Order[] = [
  { order: 'A-1001', customer: 'Ada Brandt', item: 'Desk lamp', amount: 49.9, currency: 'EUR', status: 'delivered' },
  { order: 'A-1002', customer: 'Emil Novak', item: 'Mechanical keyboard', amount: 129, currency: 'EUR', status: 'returned' },
  { order: 'A-1003', customer: 'Ines Duarte', item: 'Standing desk', amount: 599, currency: 'EUR', status: 'shipped' },
  { order: 'A-1004', customer: 'Jonas Keller', item: 'Notebooks, pack of five', amount: 17.5, currency: 'EUR', status: 'delivered' },
  { order: 'A-1005', customer: 'Mira Lindqvist', item: 'Office chair', amount: 349, currency: 'EUR', status: 'paid' },
]

/**
 * Starts the shop on 127.0.0.1. When another sample shop has the port, that one is named instead, and nothing was started; it may
 * have been started with another key and then refuses calls. Throws `conflict` when something else has the port.
 */
export async function startSampleShop(options: SampleShopOptions): Promise<SampleShop | { readonly alreadyRunning: true; readonly url: string }> {
  const refunds: SampleRefund[] = []
  const server = createAdaptorServer({ fetch: shopApp(options, refunds).fetch, hostname: host }) as Server
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(options.port, host, resolve)
    })
  } catch (error) {
    const url = `http://${host}:${String(options.port)}`
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') {
      throw new HarnessError('conflict', `The sample shop cannot listen on port ${String(options.port)}. Choose another port.`, { cause: error })
    }
    if (await isSampleShop(url)) return { alreadyRunning: true, url }
    throw new HarnessError('conflict', `Port ${String(options.port)}, for the sample shop, is taken by another program. Choose another port.`)
  }
  const { port } = server.address() as AddressInfo
  return {
    alreadyRunning: false,
    url: `http://${host}:${String(port)}`,
    port,
    refunds: () => [...refunds],
    stop: () => new Promise((resolve) => {
      server.close(() => { resolve() })
      server.closeAllConnections()
    }),
  }
}

async function isSampleShop(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/health`, { redirect: 'error', signal: AbortSignal.timeout(2000) })
    return ((await answer.json()) as { shop?: unknown } | null)?.shop === shopName
  } catch {
    return false
  }
}

function shopApp({ signingKey, log }: SampleShopOptions, refunds: SampleRefund[]): Hono {
  const app = new Hono()
  const [lookUp, refund] = sampleFunctions('')

  app.get('/health', (context) => context.json({ shop: shopName, refunds: refunds.length }))

  app.post('/look_up_order', (context) => answer(context, { signingKey, schema: lookUp.schema }, (given) => {
    const found = orders.find(({ order }) => order === given['order'])
    log(`look_up_order ${String(given['order'])}: ${found === undefined ? 'no such order' : found.status}`)
    return found ?? null
  }))

  app.post('/refund', (context) => answer(context, { signingKey, schema: refund.schema }, (given, callId) => {
    const found = orders.find(({ order }) => order === given['order'])
    if (found === undefined) return null
    const { order, amount, reason } = given as unknown as Pick<SampleRefund, 'order' | 'amount' | 'reason'>
    if (amount > found.amount) throw new HarnessError('invalid_input', `Order ${order} cost ${String(found.amount)} EUR; more cannot be refunded.`)
    const done: SampleRefund = { refund_id: `R-${String(refunds.length + 1)}`, order, amount, reason, call_id: callId }
    refunds.push(done)
    log(`refund ${done.refund_id}: ${amount.toFixed(2)} EUR for ${order} (${callId})`)
    return { refund_id: done.refund_id, order, amount, currency: found.currency, status: 'refunded' }
  }))

  return app
}

interface Route {
  readonly signingKey: Buffer
  readonly schema: FunctionEntry['schema']
}

type Work = (given: Readonly<Record<string, unknown>>, callId: string) => object | null

/** Checks signature and arguments, then does the work; null is an order that does not exist. */
async function answer(context: Context, { signingKey, schema }: Route, work: Work): Promise<Response> {
  const { pathname, search } = new URL(context.req.url)
  const body = await context.req.text()
  const header = (name: string): string | undefined => context.req.header(name)
  const signed = verifySignature({ key: signingKey, method: context.req.method, path: pathname + search, body, header, now: Date.now() })
  if (!signed.ok) return context.json({ error: signed.problem }, 401)
  try {
    const given = parseStrictJson(body, { bytes: bodyBytes })
    const valid = validateArguments(schema, given)
    if (!valid.ok) return context.json({ error: valid.problem }, 400)
    const result = work(given as Readonly<Record<string, unknown>>, signed.callId)
    return result === null ? context.json({ error: 'There is no such order.' }, 404) : context.json(result)
  } catch (error) {
    if (isHarnessError(error)) return context.json({ error: error.message }, 422)
    return context.json({ error: 'The shop failed.' }, 500)
  }
}

/** The two functions of a sample shop at this address, as configuration would declare them. */
export function sampleFunctions(url: string): readonly [FunctionEntry, FunctionEntry] {
  const order = { type: 'string', description: 'Order number, e.g. A-1001.', pattern: '^A-[0-9]{4}$' }
  return [
    {
      id: 'shop::look_up_order',
      description: 'Looks up an order: customer, item, amount paid, and status.',
      schema: { type: 'object', properties: { order }, required: ['order'], additionalProperties: false },
      risk: 'low', side_effects: 'read', idempotent: true, roles: [], approver_roles: ['approver'],
      approval_ttl_ms: 86_400_000, timeout_ms: 300_000, unattended: [],
      target: { kind: 'http', method: 'POST', url: `${url}/look_up_order` },
    },
    {
      id: 'shop::refund',
      description: 'Pays money back to the customer of an order. It cannot be undone, and a second call pays a second time.',
      schema: {
        type: 'object',
        properties: {
          order,
          amount: { type: 'number', description: 'Amount to pay back, in EUR; at most what was paid.', exclusiveMinimum: 0, multipleOf: 0.01 },
          reason: { type: 'string', description: 'Why, in a sentence; kept with the refund.', minLength: 1, maxLength: 500 },
        },
        required: ['order', 'amount', 'reason'],
        additionalProperties: false,
      },
      risk: 'high', side_effects: 'write', idempotent: false, roles: [], approver_roles: ['approver'],
      approval_ttl_ms: 86_400_000, timeout_ms: 300_000, unattended: [],
      target: { kind: 'http', method: 'POST', url: `${url}/refund` },
    },
  ]
}
