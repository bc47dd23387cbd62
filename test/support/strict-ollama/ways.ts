/* A scripted reply as the lines that Ollama would send for it, which differ by the way a model is run and by version. */
import { randomBytes } from 'node:crypto'
import type { StubCall, StubChat, StubModel, StubReply, Way } from './script'
import { scan } from './scanner'
import type { Features } from './versions'
import { chunk, finalChunk, goJson, tokensOf, type ChunkFacts, type WireCall } from './wire'

export interface Line {
  readonly json: string
  /** Silence before it, ms. */
  readonly wait: number
}

export interface ReplyPlan {
  /** All but the last. */
  readonly lines: readonly Line[]
  readonly last: Line
  /** The model wrote what its parser cannot read. */
  readonly unreadable: boolean
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'
const random = (length: number): string => [...randomBytes(length)].map((byte) => alphabet[byte % alphabet.length]).join('')

export function planReply(reply: StubReply, chat: StubChat, model: StubModel, features: Features, prompt: number): ReplyPlan {
  const way = model.way ?? 'B'
  const remote = way === 'D' || model.remote_host !== undefined
  const facts: ChunkFacts = {
    model: chat.model,
    ...(remote ? { remote: { remote_model: model.remote_model ?? model.name, remote_host: model.remote_host ?? 'https://ollama.com:443' } } : {}),
  }
  const read = way === 'A' ? readByScanner(reply, chat) : { text: reply.text ?? '', calls: reply.tool_calls ?? [] }
  const harmony = model.name.startsWith('gpt-oss')
  const calls = read.calls.map((call, ordinal) => wireCall(call, harmony || !numbered(model, features) ? 0 : ordinal, way, features))
  const pause = reply.chunk_ms ?? 0
  const size = reply.chunk_size ?? 4
  const lines: Line[] = []
  const thinks = chat.think !== false && chat.think !== undefined
  if (thinks) for (const thinking of pieces(reply.thinking ?? '', size)) lines.push({ json: chunk(facts, { thinking }), wait: pause })
  for (const content of pieces(read.text, size)) lines.push({ json: chunk(facts, { content }), wait: pause })
  const inFinal = way === 'C' || harmony || reply.calls_in_final === true
  const silent = reply.silent_ms ?? pause
  if (calls.length > 0 && !inFinal) {
    const groups = reply.spread === 'apart' ? calls.map((call) => [call]) : [calls]
    for (const tool_calls of groups) lines.push({ json: chunk(facts, { tool_calls }), wait: silent })
  }
  const end = { reason: reply.done_reason ?? 'stop', prompt, output: tokensOf(`${reply.thinking ?? ''}${read.text}${JSON.stringify(calls)}`) }
  const last = finalChunk(facts, calls.length > 0 && inFinal ? { tool_calls: calls } : {}, end)
  return { lines, last: { json: last, wait: inFinal ? silent : pause }, unreadable: harmony && calls.length > 1 }
}

/** Of 31 equal tokens, after which the guard closes the stream; from 0.34 it says so. */
export function repeatLines(chat: StubChat, features: Features): string[] {
  const lines = Array.from({ length: 31 }, () => chunk({ model: chat.model }, { content: '<unused50>' }))
  return features.repeat_error ? [...lines, goJson({ error: 'prediction aborted, token repeat limit reached' })] : lines
}

function numbered(model: StubModel, features: Features): boolean {
  return features.call_index || !/^(qwen3|glm)/.test(model.name)
}

function wireCall(call: StubCall, index: number, way: Way, features: Features): WireCall {
  const made = way === 'C' ? random(32) : way === 'D' ? `functions.${call.name}:0` : `call_${random(8)}`
  const id = call.id === undefined ? (features.call_ids ? made : null) : call.id
  return { ...(id === null ? {} : { id }), function: { index, name: call.name, arguments: 'arguments' in call ? call.arguments : {} } }
}

/** Way A drops a call it does not offer or whose arguments are no object, and writes arguments in any order. */
function readByScanner(reply: StubReply, chat: StubChat): { text: string; calls: StubCall[] } {
  const names = (chat.tools ?? []).map((tool) => tool.function.name)
  if (reply.raw !== undefined) {
    const { text, calls } = scan(reply.raw, reply.raw.includes('<tool_call>') ? '<tool_call>' : '{', names)
    return { text, calls: calls.map((call) => ({ name: call.name, arguments: turned(call.arguments) })) }
  }
  const calls = (reply.tool_calls ?? []).flatMap((call) => {
    const { calls: found } = scan(JSON.stringify({ name: call.name, arguments: call.arguments }), '{', names)
    return found.map((one) => ({ ...call, name: one.name, arguments: turned(one.arguments) }))
  })
  return { text: reply.text ?? '', calls }
}

function turned(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).reverse())
}

/** By characters, never through one. */
function pieces(text: string, size: number): string[] {
  const characters = Array.from(text)
  return Array.from({ length: Math.ceil(characters.length / size) }, (_, index) => characters.slice(index * size, (index + 1) * size).join(''))
}
