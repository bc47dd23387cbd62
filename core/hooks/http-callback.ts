/* Callbacks over HTTP: one POST, ten seconds, no redirect, a small answer. The address is never logged: who has it can resume. */
import type { PostCallback } from './callback'

const timeLimitMs = 10_000
const mostBytes = 16_384

export const postOverHttp: PostCallback = async (url, body, signal) => {
  try {
    const response = await fetch(url, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeLimitMs)]),
    })
    return { status: response.status, body: await firstBytes(response) }
  } catch (error) {
    return { failed: failureOf(error) }
  }
}

async function firstBytes(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined
  while (reader !== undefined && length < mostBytes) {
    const { done, value } = await reader.read()
    if (done) return text(chunks)
    chunks.push(value)
    length += value.byteLength
  }
  await reader?.cancel()
  return text(chunks)
}

const text = (chunks: readonly Uint8Array[]): string => Buffer.concat(chunks).toString('utf8').slice(0, mostBytes)

/** A code of the operating system, or that it took too long; nothing that holds the address. */
function failureOf(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined
  if (typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string') return cause.code
  return error instanceof Error && error.name === 'TimeoutError' ? 'no answer in time' : 'no answer'
}
