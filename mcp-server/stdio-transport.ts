/*
 * JSON-RPC over two streams, one message a line, in front of the SDK: keeps lines within bounds, reads calls strictly, and accepts
 * arguments as null or as text. It outlives every bad line; a client that goes away is told to the owner once.
 */
import type { Readable } from 'node:stream'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js'
import { isHarnessError, parseStrictJson, type Json, type Log } from '../core/index'
import { toolError } from './mcp-error'
import { objectOf } from './tool-input'

/** Most bytes of a line. */
export const lineBytes = 10 * 1024 * 1024

export interface Streams {
  readonly input: Readable
  /** Writes to the client; stdout itself is guarded against everybody else. */
  readonly write: (text: string) => void
  readonly log: Log
  /** The client is gone: end of input, or an error on it. */
  readonly onGone: () => void
}

interface Request {
  readonly id?: unknown
  readonly method?: unknown
  readonly params?: Readonly<Record<string, unknown>> | null
}

/** A transport for the SDK's server. */
export function stdioTransport({ input, write, log, onGone }: Streams): Transport {
  const reply = (message: object): void => {
    write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  }
  const transport: Transport = {
    start: async () => {
      eachLine(input, lineBytes, onLine, () => {
        log.warn({ most: lineBytes }, 'a line that is too long was passed over')
        reply({ error: { code: -32600, message: `A message may have at most ${String(lineBytes)} bytes. This one was passed over.` } })
      })
      input.once('end', onGone).once('close', onGone).once('error', onGone)
    },
    send: async (message) => write(`${JSON.stringify(message)}\n`),
    close: async () => transport.onclose?.(),
  }
  return transport

  function onLine(line: string): void {
    if (line.trim() === '') return
    const read = readMessage(line)
    if (read.kind === 'message') {
      const parsed = JSONRPCMessageSchema.safeParse(read.message)
      if (parsed.success) transport.onmessage?.(parsed.data)
      else reply({ ...idOf(read.message), error: { code: -32600, message: 'This is no JSON-RPC message.' } })
    } else if (read.kind === 'bad_call') {
      if (read.request.id !== undefined) reply({ ...idOf(read.request), result: toolError(read.problem) })
    } else reply({ error: { code: read.code, message: read.problem } })
  }
}

type Read =
  | { readonly kind: 'message'; readonly message: Request }
  | { readonly kind: 'bad_call'; readonly request: Request; readonly problem: string }
  | { readonly kind: 'bad_line'; readonly code: number; readonly problem: string }

/** One line as a message; a call of a tool is read strictly, and its arguments are made an object. */
export function readMessage(line: string): Read {
  let message: unknown
  try {
    message = JSON.parse(line)
  } catch {
    return { kind: 'bad_line', code: -32700, problem: 'This line is no JSON.' }
  }
  if (typeof message !== 'object' || message === null || Array.isArray(message)) {
    return { kind: 'bad_line', code: -32600, problem: 'A line must be one JSON-RPC message. Batches are not supported.' }
  }
  const request: Request = message
  const { params } = request
  if (request.method !== 'tools/call' || typeof params !== 'object' || params === null) return { kind: 'message', message: request }
  try {
    parseStrictJson(line, { bytes: lineBytes })
    const args = argumentsOf((params['arguments'] ?? null) as Json)
    if (args === undefined) return { kind: 'bad_call', request, problem: 'The arguments of a tool are a JSON object.' }
    return { kind: 'message', message: { ...request, params: { ...params, arguments: args } } }
  } catch (error) {
    return { kind: 'bad_call', request, problem: `The call cannot be read: ${isHarnessError(error) ? error.message : 'it is no plain JSON.'}` }
  }
}

function argumentsOf(value: Json): object | undefined {
  return value === null || value === '' ? {} : objectOf(value)
}

function idOf({ id }: Request): { id?: string | number } {
  return typeof id === 'string' || typeof id === 'number' ? { id } : {}
}

/** Calls back for each whole line. A line over the limit is dropped as it comes, so it never fills the memory. */
function eachLine(input: Readable, most: number, onLine: (line: string) => void, onTooLong: () => void): void {
  let parts: Buffer[] = []
  let size = 0
  input.on('data', (data: Buffer) => {
    let rest = data
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      keep(rest.subarray(0, end))
      const line = size > most ? null : Buffer.concat(parts).toString('utf8')
      parts = []
      size = 0
      rest = rest.subarray(end + 1)
      if (line === null) onTooLong()
      else onLine(line)
    }
    keep(rest)
  })

  function keep(part: Buffer): void {
    size += part.length
    if (size > most) parts = []
    else parts.push(part)
  }
}
