/*
 * A model request in the words of POST /api/chat. Everything is said explicitly, because what is left out Ollama decides by itself and
 * differently on each machine: the window, whether to think, whether to cut the conversation. Pure.
 */
import { sha256, type Json } from '../digest'
import type { FunctionOffer, ModelMessage, ModelRequest } from './model'
import { reduceSchema, type WireParameters } from './ollama-schema'
import type { WireNames } from './ollama-names'
import type { ThinkingLevel } from '../turn/turn'

export interface WireMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  thinking?: string
  tool_calls?: { id: string; function: { name: string; arguments: { readonly [key: string]: Json } } }[]
  tool_name?: string
  tool_call_id?: string
}

export interface WireTool {
  type: 'function'
  function: { name: string; description: string; parameters: WireParameters }
}

export interface WireChat {
  model: string
  messages: WireMessage[]
  tools?: WireTool[]
  think?: boolean | 'low' | 'medium' | 'high' | 'max'
  stream: true
  truncate: false
  shift: false
  options: { num_ctx: number }
}

/** What /api/show and /api/version told about the model and its server. */
export interface WireFacts {
  /** As it is asked for on the wire, with `:local` where the server knows it. */
  readonly model: string
  /** Tokens; the same for every request to a model, because another value reloads it. */
  readonly num_ctx: number
  readonly thinking: boolean
  /** gpt-oss alone takes levels; others answer 400 to them. */
  readonly levels: boolean
  /** Null when the server does not say. */
  readonly version: Version | null
}

export type Version = readonly [major: number, minor: number, patch: number]

/** Null for `0.0.0`, which development builds say, and for what is no version. */
export function readVersion(text: unknown): Version | null {
  const parts = /^v?(\d+)\.(\d+)\.(\d+)/.exec(typeof text === 'string' ? text : '')
  if (parts === null) return null
  const version: Version = [Number(parts[1]), Number(parts[2]), Number(parts[3])]
  return version.every((part) => part === 0) ? null : version
}

export function isAtLeast(version: Version | null, [major, minor, patch]: Version): boolean {
  if (version === null) return false
  return version[0] !== major ? version[0] > major : version[1] !== minor ? version[1] > minor : version[2] >= patch
}

export function wireChat(request: ModelRequest, facts: WireFacts, names: WireNames): WireChat {
  const think = thinkValue(request.thinking_level, facts)
  return {
    model: facts.model,
    messages: wireMessages(request.messages, facts, names),
    ...(request.functions.length > 0 ? { tools: request.functions.map((offer) => wireTool(offer, names)) } : {}),
    ...(think === null ? {} : { think }),
    stream: true,
    truncate: false,
    shift: false,
    options: { num_ctx: facts.num_ctx },
  }
}

/** Null leaves it out: a model without the capability may be asked nothing about it. */
function thinkValue(level: ThinkingLevel | null, { thinking, levels, version }: WireFacts): NonNullable<WireChat['think']> | null {
  if (!thinking) return null
  if (level === null) return false
  if (!levels) return true
  switch (level) {
    case 'minimal':
    case 'low': return 'low'
    case 'medium': return 'medium'
    case 'high': return 'high'
    case 'xhigh': return isAtLeast(version, [0, 22, 0]) ? 'max' : 'high'
  }
}

function wireTool({ id, description, schema }: FunctionOffer, names: WireNames): WireTool {
  const { parameters, note } = reduceSchema(schema)
  const said = note === null ? description : `${description} ${note}`.trim()
  return { type: 'function', function: { name: names.encode(id), description: said, parameters } }
}

function wireMessages(messages: readonly ModelMessage[], facts: WireFacts, names: WireNames): WireMessage[] {
  // thoughts belong to the tool run they were thought in; older ones only fill the window
  const lastUser = messages.findLastIndex((message) => message.role === 'user')
  return messages.map((message, index) => wireMessage(message, facts.thinking && index > lastUser, names))
}

function wireMessage(message: ModelMessage, withThinking: boolean, names: WireNames): WireMessage {
  switch (message.role) {
    case 'system':
    case 'user': return { role: message.role, content: message.text }
    case 'assistant': return {
      role: 'assistant',
      content: message.text,
      ...(withThinking && message.thinking !== null && message.thinking !== '' ? { thinking: message.thinking } : {}),
      ...(message.calls.length > 0
        ? {
            tool_calls: message.calls.map((call) => ({
              id: wireCallId(call.call_id), function: { name: names.encode(call.function_id), arguments: call.arguments },
            })),
          }
        : {}),
    }
    case 'function_result': return {
      role: 'tool',
      // there is no field for it, and a model should not take an error for an answer
      content: message.is_error && !/^\W*error\b/i.test(message.text) ? `Error: ${message.text}` : message.text,
      tool_name: names.encode(message.function_id),
      tool_call_id: wireCallId(message.call_id),
    }
  }
}

/** Nine letters and digits: some templates take no other form, and models copy short ids better. Always the same for a call. */
export function wireCallId(callId: string): string {
  return BigInt(`0x${sha256('ollama-call', '\0', callId).slice(0, 16)}`).toString(36).padStart(9, '0').slice(-9)
}
