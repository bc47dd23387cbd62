/*
 * Functions behind HTTP. One call is one request on a connection of its own, made to an address that was checked, so that "it was not
 * sent" and "we do not know" are never mixed up. Never retries, follows no redirect, reuses no connection, uses no proxy. On node:http
 * because fetch neither pins the address nor tells whether a byte was written.
 */
import { lookup, type LookupAddress } from 'node:dns'
import { request as httpRequest, type OutgoingHttpHeaders, validateHeaderValue } from 'node:http'
import { BlockList, connect as connectPlain, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectSecure } from 'node:tls'
import type { Clock } from '../clock'
import { canonical } from '../digest'
import type { FunctionEntry } from '../policy/policy'
import type { FunctionCall, FunctionOutcome, FunctionSource } from './function'
import { CutOff, readAnswer } from './http-answer'
import { callHeaders, signatureOf } from './signature'

const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'GET'] as const

/** What a target of kind `http` says. Secrets appear only as `${NAME}` in header values and as a name in `signing`. */
export interface HttpTarget {
  readonly kind: 'http'
  /** http or https, without user and password. */
  readonly url: string
  /** POST if not given. GET only for a function without side effects: its arguments, scalars all, go into the query. */
  readonly method?: (typeof methods)[number]
  readonly headers?: { readonly [name: string]: string }
  /** Name of the secret to sign with instead of the home's key. */
  readonly signing?: string
}

export interface HttpSourceOptions {
  readonly signingKey: Buffer
  /** The value of a secret by its name (without `${}`), undefined when there is none. */
  readonly secret: (name: string) => string | undefined
  readonly clock: Clock
}

/**
 * The source of HTTP functions. The body is the canonical JSON of the arguments; the call id goes along as `Idempotency-Key` and
 * `Harness-Call-Id`, the time as `Harness-Timestamp`, and `Harness-Signature` signs method, path, call id, time and body (signature.ts).
 * A complete answer is `answered` by its status: 2xx with the body as value (JSON when it says so), anything else as an error
 * `{ status, body }`. What fails before the connection stands is `not_sent`; what fails later is `cut`, time-out and abort included.
 */
export function httpSource(options: HttpSourceOptions): FunctionSource {
  return { call: async (call, signal) => (await callOnce(options, call, signal)).outcome }
}

/** One call over HTTP. `refused`: no connection came about, since nobody listens there; the outcome is then `not_sent`. Never throws. */
export async function callOnce(options: HttpSourceOptions, call: FunctionCall, signal: AbortSignal): Promise<{ readonly outcome: FunctionOutcome; readonly refused: boolean }> {
  const stop = stopOf(signal, call.entry.timeout_ms)
  const progress = { sent: false, host: 'the function' }
  try {
    return { outcome: await connectAndSend({ options, call, stop: stop.signal, progress }), refused: false }
  } catch (error) {
    const why = error instanceof Problem ? error.message : wordsFor(error)
    if (progress.sent) {
      return { outcome: { kind: 'cut', message: `${call.entry.id}: ${progress.host} may have got the request, but ${why}; whether it acted is unknown.` }, refused: false }
    }
    return { outcome: { kind: 'not_sent', message: `${call.entry.id} was not called: ${why}.` }, refused: codeOf(error) === 'ECONNREFUSED' }
  } finally {
    stop.clear()
  }
}

/** What is wrong with the target of a function, one clause for people, or null. Looks at no secret and opens no connection. */
export function httpTargetProblem(entry: FunctionEntry): string | null {
  try {
    readTarget(entry)
    return null
  } catch (error) {
    return error instanceof Problem ? error.message : 'the target cannot be read'
  }
}

/** A reason that is safe to show, the middle of a sentence. */
class Problem extends Error {}

interface Work {
  readonly options: HttpSourceOptions
  readonly call: FunctionCall
  readonly stop: AbortSignal
  readonly progress: { sent: boolean; host: string }
}

async function connectAndSend({ options, call, stop, progress }: Work): Promise<FunctionOutcome> {
  const request = prepare(options, call)
  progress.host = request.url.host
  const addresses = await stoppable(stop, resolve(hostOf(request.url)))
  const socket = await connect(request.url, addresses, stop)
  try {
    return await exchange({ request, socket, stop, progress })
  } finally {
    socket.destroy()
  }
}

// ------------------------------------------------------------------ what is sent

interface Prepared {
  readonly url: URL
  readonly method: string
  readonly path: string
  readonly headers: OutgoingHttpHeaders
  readonly body: string
}

const ownHeaders = new Set([
  'host', 'connection', 'content-length', 'transfer-encoding', 'content-type', 'expect', 'upgrade', 'te', 'trailer', 'idempotency-key',
])

interface ReadTarget extends Pick<Prepared, 'url' | 'method'> {
  readonly headers: readonly (readonly [name: string, template: string])[]
  readonly signing: string | null
}

function readTarget({ target, side_effects }: FunctionEntry): ReadTarget {
  const text = target['url']
  if (typeof text !== 'string' || !URL.canParse(text)) throw new Problem('its url is no URL')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new Problem('its url is neither http nor https')
  if (url.username !== '' || url.password !== '') throw new Problem('its url holds a user or password; use a header with a ${REFERENCE} instead')
  const method = target['method'] ?? 'POST'
  if (!methods.some((known) => known === method)) throw new Problem(`its method is none of ${methods.join(', ')}`)
  if (method === 'GET' && side_effects === 'write') throw new Problem('its method is GET although it has side effects')
  const signing = target['signing'] ?? null
  if (signing !== null && typeof signing !== 'string') throw new Problem('its signing is no name of a secret')
  const headers = Object.entries((target['headers'] ?? {}) as object).map(([name, value]: [string, unknown]) => {
    if (typeof value !== 'string') throw new Problem(`its header ${name} is no text`)
    if (!/^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name)) throw new Problem('one of its headers has no valid name')
    const lower = name.toLowerCase()
    if (ownHeaders.has(lower) || lower.startsWith('harness-')) throw new Problem(`its header ${name} is set by the harness`)
    return [name, value] as const
  })
  return { url, method: method as string, headers, signing }
}

function prepare(options: HttpSourceOptions, call: FunctionCall): Prepared {
  const { url, method, headers: configured, signing } = readTarget(call.entry)
  if (method === 'GET') addQuery(url, call.arguments)
  const body = method === 'GET' ? '' : canonical(call.arguments)
  const path = url.pathname + url.search
  const timestamp = String(options.clock.now())
  const key = signing === null ? options.signingKey : secretOf(options, /^\$\{(.*)\}$/.exec(signing)?.[1] ?? signing)
  const headers: OutgoingHttpHeaders = {
    Host: url.host,
    Accept: 'application/json, text/plain;q=0.9, */*;q=0.1',
    'User-Agent': 'n8n-nodes-agent-harness',
  }
  for (const [name, template] of configured) headers[name] = headerValue(options, name, template)
  if (method !== 'GET') Object.assign(headers, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  headers[callHeaders.idempotencyKey] = call.call_id
  headers[callHeaders.callId] = call.call_id
  headers[callHeaders.timestamp] = timestamp
  headers[callHeaders.signature] = signatureOf({ key, method, path, callId: call.call_id, timestamp, body })
  return { url, method, path, headers, body }
}

function addQuery(url: URL, given: FunctionCall['arguments']): void {
  for (const name of Object.keys(given).sort()) {
    const value = given[name]
    if (value === undefined || value === null) continue
    if (typeof value === 'object') throw new Problem(`its method is GET, which cannot carry the argument ${JSON.stringify(name.slice(0, 80))}`)
    url.searchParams.append(name, String(value))
  }
}

function headerValue(options: HttpSourceOptions, name: string, template: string): string {
  const value = template.replaceAll(/\$\{([^}]*)\}/g, (_, reference: string) => secretOf(options, reference))
  try {
    validateHeaderValue(name, value)
  } catch {
    throw new Problem(`the value of its header ${name} cannot be sent`)
  }
  return value
}

function secretOf(options: HttpSourceOptions, name: string): string {
  let value: string | undefined
  try {
    value = options.secret(name)
  } catch {
    // One that is not to be had, for whatever reason, is not set.
  }
  if (value === undefined || value === '') throw new Problem(`the secret ${name.slice(0, 80)} is not set`)
  return value
}

// ------------------------------------------------------------------ where to

/** Metadata services, link-local, unspecified, multicast and broadcast. Loopback and private networks are the operator's to name. */
const blocked = new BlockList()
for (const [network, prefix, family] of [
  ['0.0.0.0', 8, 'ipv4'], ['169.254.0.0', 16, 'ipv4'], ['224.0.0.0', 4, 'ipv4'], ['255.255.255.255', 32, 'ipv4'], ['100.100.100.200', 32, 'ipv4'],
  ['192.0.0.192', 32, 'ipv4'], ['::', 128, 'ipv6'], ['fe80::', 10, 'ipv6'], ['ff00::', 8, 'ipv6'], ['fd00:ec2::254', 128, 'ipv6'],
  ['fd20:ce::254', 128, 'ipv6'], ['64:ff9b::a9fe:0', 112, 'ipv6'], ['::a9fe:0', 112, 'ipv6'],
] as const) blocked.addSubnet(network, prefix, family)

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1')
}

/** All addresses of a host. One that is blocked refuses the host: a name that is half honest is not honest. */
function resolve(host: string): Promise<readonly LookupAddress[]> {
  return new Promise((settle, fail) => {
    lookup(host, { all: true }, (error, addresses) => {
      if (error !== null) fail(error)
      else if (addresses.length === 0) fail(new Problem(`the name ${host} has no address`))
      else if (addresses.some(isBlocked)) fail(new Problem(`${host} leads to an address that is never called (link-local, metadata or multicast)`))
      else settle(addresses)
    })
  })
}

function isBlocked({ address, family }: LookupAddress): boolean {
  return blocked.check(address.replace(/%.*$/, ''), family === 6 ? 'ipv6' : 'ipv4')
}

/** A connection to one of the addresses that were checked, TLS included; nothing of the request is on it yet. */
function connect(url: URL, addresses: readonly LookupAddress[], stop: AbortSignal): Promise<Socket> {
  const host = hostOf(url)
  const isSecure = url.protocol === 'https:'
  const checked: LookupFunction = (_host, options, done) => {
    const [first] = addresses
    if (options.all === true) done(null, [...addresses])
    else done(null, first?.address ?? '', first?.family)
  }
  const to = { host, port: Number(url.port === '' ? (isSecure ? 443 : 80) : url.port), lookup: checked, noDelay: true }
  const socket = isSecure ? connectSecure({ ...to, servername: isIP(host) === 0 ? host : '', ALPNProtocols: ['http/1.1'] }) : connectPlain(to)
  // Kept for good: an error after we have settled must not end the process.
  socket.on('error', () => undefined)
  const connected = new Promise<Socket>((settle, fail) => {
    socket.once(isSecure ? 'secureConnect' : 'connect', () => { settle(socket) })
    socket.once('error', fail)
    socket.once('close', () => { fail(new Problem('the connection was closed')) })
  })
  return stoppable(stop, connected).catch((error: unknown) => {
    socket.destroy()
    throw error
  })
}

// ------------------------------------------------------------------ the answer

interface Exchange extends Pick<Work, 'stop' | 'progress'> {
  readonly request: Prepared
  readonly socket: Socket
}

function exchange({ request, socket, stop, progress }: Exchange): Promise<FunctionOutcome> {
  const answered = new Promise<FunctionOutcome>((settle, fail) => {
    stop.throwIfAborted()
    const { method, path, headers } = request
    const sending = httpRequest({ createConnection: () => socket, method, path, headers, setHost: false })
    let hasAnswer = false
    sending.on('error', fail)
    // The request may close while the end of a whole answer still waits to be read: then readAnswer says how it went.
    sending.on('close', () => { if (!hasAnswer) fail(new Problem('the connection was closed before an answer came')) })
    sending.on('response', (response) => {
      hasAnswer = true
      readAnswer(response).then(settle, fail)
    })
    progress.sent = true
    sending.end(request.body)
  })
  return stoppable(stop, answered)
}

// ------------------------------------------------------------------ stopping, words

/** One signal for our stop and for the time limit; its reason is a {@link Problem}. */
function stopOf(signal: AbortSignal, limit: number): { signal: AbortSignal; clear(): void } {
  const controller = new AbortController()
  const abort = (): void => { controller.abort(new Problem('it was stopped')) }
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  const timer = setTimeout(() => { controller.abort(new Problem(`it took longer than ${String(limit)} ms`)) }, Math.min(limit, 2 ** 31 - 1))
  return {
    signal: controller.signal,
    clear: () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
    },
  }
}

/** Settles as the work does, or rejects at once when stopped. */
function stoppable<T>(stop: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((settle, fail) => {
    const onAbort = (): void => { fail(stop.reason as Error) }
    if (stop.aborted) onAbort()
    stop.addEventListener('abort', onAbort, { once: true })
    work.then(settle, fail).finally(() => { stop.removeEventListener('abort', onAbort) })
  })
}

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused', ENOTFOUND: 'its name could not be resolved', EAI_AGAIN: 'its name could not be resolved',
  ECONNRESET: 'the connection was lost', EPIPE: 'the connection was lost', ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'its host cannot be reached', ENETUNREACH: 'its network cannot be reached',
}

/** From the code alone: messages of Node may hold addresses, headers or paths. */
function wordsFor(error: unknown): string {
  if (error instanceof CutOff) return 'the answer broke off'
  const code = codeOf(error)
  return words[code] ?? (/^[A-Z0-9_]{3,60}$/.test(code) ? `the connection failed (${code})` : 'the connection failed')
}

function codeOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
}
