/* Puts an answer on the socket: whole, in small writes, cut, silent, or wrong, as the script says. */
import type { ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { errorBody, stubErrors, type StubError } from './errors'
import type { StubFault, StubReply } from './script'
import type { Features } from './versions'
import { goJson } from './wire'
import type { ReplyPlan } from './ways'

export function sendJson(response: ServerResponse, status: number, value: unknown): ServerResponse {
  return response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(goJson(value))
}

export function sendText(response: ServerResponse, status: number, text: string): ServerResponse {
  return response.writeHead(status, { 'content-type': 'text/plain' }).end(text)
}

/** As Ollama words a refusal. */
export function sendError(response: ServerResponse, status: number, error: string): ServerResponse {
  return sendJson(response, status, { error })
}

/** A fault instead of an answer, before any header. False when the fault belongs inside the stream. */
export async function sendFault(response: ServerResponse, fault: StubFault, features: Features): Promise<boolean> {
  switch (fault.kind) {
    case 'http':
      response.writeHead(fault.status, { 'content-type': fault.type ?? 'application/json; charset=utf-8' })
      response.end(fault.body)
      return true
    case 'redirect':
      response.writeHead(fault.status ?? 307, { location: fault.location })
      response.end()
      return true
    case 'error': {
      if (fault.after !== undefined) return false
      const error: StubError = stubErrors[fault.error]
      const { body, type } = errorBody(error)
      // before 0.12.6 what failed while running came as a line under a 200
      response.writeHead(error.in_stream && !features.error_status ? 200 : error.status, body === '' ? {} : { 'content-type': type })
      response.end(body)
      return true
    }
    case 'silence':
      if (fault.after !== undefined) return false
      await new Promise<void>((resolve) => response.once('close', () => { resolve() }))
      return true
    case 'cut':
      if (fault.bytes > 0) return false
      response.socket?.destroy()
      return true
    default: return false
  }
}

/** The stream of a reply, with its fault. Ends early, and quietly, when the client hangs up. */
export async function sendStream(response: ServerResponse, plan: ReplyPlan, reply: StubReply, repeats: readonly string[]): Promise<void> {
  const fault = reply.fault
  const end = reply.line_end ?? '\n'
  const whole = fault?.kind === 'no_done' ? plan.lines : [...plan.lines, plan.last]
  const lines = fault?.kind === 'repeats' ? repeats.map((json) => ({ json, wait: 0 })) : whole
  let budget = fault?.kind === 'cut' ? fault.bytes : Infinity
  let sent = 0
  const write = async (text: string): Promise<boolean> => {
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    const bytes = Buffer.from(text + end)
    const size = reply.write_bytes ?? bytes.length
    for (let from = 0; from < bytes.length; from += size) {
      if (response.destroyed) return false
      const part = bytes.subarray(from, Math.min(from + size, bytes.length, from + budget))
      budget -= part.length
      await new Promise<void>((resolve) => response.write(part, () => { resolve() }))
      if (budget <= 0) {
        // the bytes written so far arrive; what follows never comes
        response.socket?.destroySoon()
        return false
      }
      if (reply.write_bytes !== undefined) await new Promise((resolve) => setImmediate(resolve))
    }
    return true
  }
  for (const line of lines) {
    if (fault !== undefined && 'after' in fault && fault.after === sent && !(await sendInner(response, fault, write))) return
    if (line.wait > 0) await wait(line.wait, undefined, { ref: false })
    if (response.destroyed || !(await write(line.json))) return
    sent += 1
  }
  response.end()
}

/** A fault between two chunks; true when the stream goes on after it. */
async function sendInner(response: ServerResponse, fault: StubFault, write: (text: string) => Promise<boolean>): Promise<boolean> {
  if (fault.kind === 'line') return write(fault.line)
  if (fault.kind === 'error') {
    await write(JSON.stringify({ error: stubErrors[fault.error].text }))
    response.end()
  }
  if (fault.kind === 'silence') await new Promise<void>((resolve) => response.once('close', () => { resolve() }))
  return false
}
