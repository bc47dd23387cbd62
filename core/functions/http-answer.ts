/*
 * The answer of an HTTP function as a value: whole or not at all, except that a very long one is kept in part and says so. Never trusts
 * what the server says about length or type further than the bytes bear out.
 */
import type { IncomingMessage } from 'node:http'
import type { Json } from '../digest'
import { parseStrictJson } from '../json'
import type { FunctionOutcome } from './function'

/** Bytes of an answer that are kept. */
const keptBytes = 256 * 1024
/** Bytes of an answer after which reading stops. */
const readBytes = 1024 * 1024

/**
 * Reads the answer and says how the call went. Rejects when the answer breaks off or stops; the caller then destroys the connection, as
 * it does after a value. JSON that is not strict (json.ts) stays a text.
 */
export function readAnswer(response: IncomingMessage): Promise<FunctionOutcome> {
  const status = response.statusCode ?? 0
  if (status >= 300 && status < 400) {
    const body = 'The function answered with a redirect, which is never followed: its url has to be corrected in the configuration.'
    return Promise.resolve({ kind: 'answered', value: { status, body }, is_error: true })
  }
  return new Promise((settle, fail) => {
    const chunks: Buffer[] = []
    let size = 0
    const finish = (isWhole: boolean): void => {
      const body = valueOf({ response, bytes: Buffer.concat(chunks), size, isWhole })
      const isError = status < 200 || status >= 300
      settle({ kind: 'answered', value: isError ? { status, body } : body, is_error: isError })
    }
    response.on('data', (chunk: Buffer) => {
      if (size < keptBytes) chunks.push(chunk)
      size += chunk.length
      if (size > readBytes) finish(false)
    })
    const cutOff = (): void => { fail(new CutOff()) }
    response.on('end', () => { if (response.complete) finish(true) })
    response.on('error', cutOff)
    response.on('close', cutOff)
  })
}

/** The answer broke off. */
export class CutOff extends Error {}

interface Answer {
  readonly response: IncomingMessage
  /** The beginning of the answer, at least as far as it is kept. */
  readonly bytes: Buffer
  /** How much was read. */
  readonly size: number
  readonly isWhole: boolean
}

function valueOf({ response, bytes, size, isWhole }: Answer): Json {
  const kept = bytes.subarray(0, keptBytes)
  const note = size > keptBytes ? `\n[cut: ${isWhole ? '' : 'at least '}${String(size - keptBytes)} bytes]` : ''
  const type = response.headers['content-type'] ?? ''
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(kept, { stream: note !== '' })
  } catch {
    return `[${String(size)} bytes that are no text]`
  }
  if (note !== '') return text + note
  if (text === '') return null
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type)) return text
  try {
    return parseStrictJson(text, { bytes: keptBytes })
  } catch {
    return text
  }
}
