/*
 * A fetch for one request to Ollama. The client package cannot stop a request that has no headers yet, follows redirects with the whole
 * prompt, skips lines it cannot read and prints to stdout; this one stops at any moment with its socket closed, refuses redirects, and
 * hands on nothing but good answers. It sends only to the address it was opened for, and never prints.
 */
import { lookup as resolveName } from 'node:dns'
import * as http from 'node:http'
import * as https from 'node:https'
import type { LookupFunction } from 'node:net'
import { addressLocality, staysLocal } from './ollama-locality'
import { lineGate, type GatedLines } from './ollama-lines'
import { callTrouble, isCallTrouble, type CallTrouble } from './ollama-trouble'

export interface CallOptions {
  /** From {@link ollamaUrl}; requests to any other origin are refused. */
  readonly url: string
  readonly signal: AbortSignal
  /** From the request to the headers of its answer, ms. Ollama sends none while it loads the model and reads the prompt. */
  readonly first_byte_ms: number
  /** Longest silence inside an answer, ms. */
  readonly idle_ms: number
  /** Refuse to connect where the name of the host leads out of the local network. Literal addresses are checked by the caller. */
  readonly only_local: boolean
  /** The answer is a stream of JSON lines that ends with `done: true`. */
  readonly stream: boolean
}

export interface OllamaCall {
  readonly fetch: typeof fetch
  /** Closes the socket, whatever state the request is in. May be called twice. */
  close(): void
}

/** A local server accepts a connection at once or never. */
const connectLimitMs = 10_000
/** More than any model writes; a server that goes on for ever is cut here. */
const answerLimitBytes = 32 * 1024 * 1024
const errorBodyLimitBytes = 64 * 1024
const errorBodyLimitMs = 5_000

/** Opens one call. Contract: what its fetch rejects with, or its body fails with, is a {@link CallTrouble}. */
export function openCall(options: CallOptions): OllamaCall {
  let close = (): void => undefined
  const send = (input: string | URL | Request, init: RequestInit = {}): Promise<Response> =>
    new Promise((resolve, reject) => {
      const url = new URL(input instanceof Request ? input.url : input)
      if (options.signal.aborted) reject(callTrouble('aborted'))
      else if (url.origin !== new URL(options.url).origin) reject(callTrouble('not_local'))
      else close = exchange(url, init, options, resolve, reject)
    })
  return { fetch: send, close: () => { close() } }
}

/** One request and its answer. Returns what closes it. */
function exchange(
  url: URL, init: RequestInit, options: CallOptions, answer: (response: Response) => void, refuse: (trouble: CallTrouble) => void,
): () => void {
  const secure = url.protocol === 'https:'
  const body = typeof init.body === 'string' ? init.body : ''
  const request = (secure ? https : http).request(url, {
    method: init.method ?? 'GET',
    headers: { ...(init.headers as Record<string, string>), ...(body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }) },
    // a socket of its own: destroying it ends this request and nothing else
    agent: false,
    ...(options.only_local ? { lookup: localLookup } : {}),
  })
  let over = false
  let answered = false
  let timer: NodeJS.Timeout | undefined
  let report = refuse
  const end = (trouble: CallTrouble | null): void => {
    if (over) return
    over = true
    clearTimeout(timer)
    options.signal.removeEventListener('abort', stop)
    request.destroy()
    if (trouble !== null) report(trouble)
  }
  const stop = (): void => { end(callTrouble('aborted')) }
  const within = (milliseconds: number, trouble: CallTrouble): void => {
    clearTimeout(timer)
    if (!over) timer = setTimeout(() => { end(trouble) }, milliseconds)
  }
  options.signal.addEventListener('abort', stop, { once: true })
  within(Math.min(connectLimitMs, options.first_byte_ms), callTrouble('no_connection', { code: 'ETIMEDOUT' }))
  request.on('socket', (socket) => {
    socket.once(secure ? 'secureConnect' : 'connect', () => { within(options.first_byte_ms, callTrouble('first_byte')) })
  })
  request.on('error', (error) => { end(connectionTrouble(error)) })
  request.on('close', () => { if (!answered) end(callTrouble('cut')) })
  request.on('response', (response) => {
    // from here on the answer itself says when it is over: the request may close while parts of a whole answer wait to be read
    answered = true
    const status = response.statusCode ?? 0
    if (status >= 300 && status < 400) end(callTrouble('redirect', { status, text: originOf(response.headers.location, url) }))
    else if (status !== 200) readError(response, status)
    else answer(new Response(readBody(response), { headers: { 'content-type': response.headers['content-type'] ?? '' } }))
  })
  request.end(body)

  /** The body of an error answer, as far as it comes soon and is not long. */
  const readError = (response: http.IncomingMessage, status: number): void => {
    const parts: Buffer[] = []
    let bytes = 0
    const finish = (): void => { end(callTrouble('status', { status, text: Buffer.concat(parts).toString('utf8') })) }
    clearTimeout(timer)
    timer = setTimeout(finish, errorBodyLimitMs)
    response.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes <= errorBodyLimitBytes) parts.push(part)
      else finish()
    })
    response.on('end', finish)
    response.on('error', finish)
    response.on('close', finish)
  }

  const readBody = (response: http.IncomingMessage): ReadableStream<Uint8Array> => {
    const gate = options.stream ? lineGate() : null
    let bytes = 0
    const watchSilence = (): void => { within(options.idle_ms, callTrouble('idle')) }
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        report = (trouble) => { controller.error(trouble) }
        watchSilence()
        const complete = (): void => {
          if (over) return
          // closed before the socket is destroyed: an error on a stream throws away what was not read yet
          controller.close()
          end(null)
        }
        const take = ({ lines, trouble, done }: GatedLines): void => {
          for (const line of lines) controller.enqueue(line)
          if (trouble !== null) end(trouble)
          else if (done) complete()
        }
        response.on('data', (part: Buffer) => {
          if (over) return
          watchSilence()
          bytes += part.length
          if (bytes > answerLimitBytes) end(callTrouble('too_large'))
          else if (gate === null) controller.enqueue(part)
          else take(gate.push(part))
          if ((controller.desiredSize ?? 1) > 0) return
          response.pause()
          clearTimeout(timer)
        })
        response.on('end', () => {
          if (over) return
          if (gate === null) complete()
          else take(gate.end())
          end(callTrouble('no_done'))
        })
        response.on('error', () => { end(callTrouble('cut')) })
        response.on('close', () => { end(callTrouble('cut')) })
      },
      pull: () => {
        if (over || !response.isPaused()) return
        response.resume()
        watchSilence()
      },
      cancel: () => { end(null) },
    }, new CountQueuingStrategy({ highWaterMark: 64 }))
  }

  return () => { end(null) }
}

/** Resolves a host and refuses it when any of its addresses is outside: the address that is connected to is the one that was checked. */
const localLookup: LookupFunction = (hostname, options, callback) => {
  resolveName(hostname, { ...options, all: true }, (error, addresses) => {
    // without an address there is an error
    if (error !== null) callback(error, [])
    else if (!addresses.every((entry) => staysLocal(addressLocality(entry.address)))) callback(callTrouble('not_local'), [])
    else if (options.all === true) callback(null, addresses)
    else callback(null, addresses[0]?.address ?? '', addresses[0]?.family)
  })
}

const notThere = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'EADDRNOTAVAIL', 'ETIMEDOUT'])

function connectionTrouble(error: unknown): CallTrouble {
  if (isCallTrouble(error)) return error
  const code = (error as NodeJS.ErrnoException).code ?? ''
  if (notThere.has(code)) return callTrouble('no_connection', { code })
  if (/^EPROTO$|^HPE_|^UNABLE_TO_|CERT|TLS|SSL/.test(code)) return callTrouble('not_http', { code })
  return callTrouble('cut', { code })
}

/** Only where a redirect leads, never its path: it may hold what nobody should see. */
function originOf(location: string | undefined, base: URL): string {
  try {
    return new URL(location ?? '', base).origin
  } catch {
    return 'an unreadable address'
  }
}
