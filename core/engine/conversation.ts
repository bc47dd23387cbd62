/*
 * The conversation as a model sees it, from messages and calls. Results stand on their calls, so every call has exactly one result right
 * behind it, in the order asked, by construction. The prefix is stable: what was told once is told the same way again.
 */
import type { Json } from '../digest'
import type { FunctionOffer, ModelMessage } from '../model/model'
import { isOffered } from '../policy/evaluate'
import type { Call } from '../turn/call'
import { jsonOf } from '../turn/content'
import type { Message, Turn } from '../turn/turn'
import { layersOf, ownerGrant, type Engine } from './engine'

const houseRules =
  'Some functions wait for a person before they run. If a result says that a call was denied, rejected or expired, it did not run: do not try to get around it. ' +
  'If a result says that the outcome is unknown, do not repeat the call.'

export function conversation(turn: Turn, engine: Engine): { readonly messages: readonly ModelMessage[]; readonly functions: readonly FunctionOffer[] } {
  const before = saidBefore(turn)
  const rounds = byRound(turn.calls)
  const since = turn.messages.slice(before.count).flatMap((message) => {
    const isOwn = message.turn_id === turn.turn_id
    return asTold(message, callsOf(message, isOwn ? rounds : before.rounds), isOwn)
  })
  return { messages: [{ role: 'system', text: systemPrompt(turn, engine) }, ...before.messages, ...since], functions: offers(turn, engine) }
}

type Rounds = ReadonlyMap<string, ReadonlyMap<number, readonly Call[]>>

interface SaidBefore {
  /** How many of the turn's messages came before its own. */
  readonly count: number
  readonly rounds: Rounds
  readonly messages: readonly ModelMessage[]
}

/** By the history that a run was loaded with, and by message: what stays the same is read once, so that a round costs the same however long the session is. */
const saidBefores = new WeakMap<readonly Call[], SaidBefore>()
const told = new WeakMap<Message, { readonly calls: readonly Call[]; readonly messages: readonly ModelMessage[] }>()

function saidBefore(turn: Turn): SaidBefore {
  const known = saidBefores.get(turn.history)
  if (known !== undefined) return known
  const rounds = byRound(turn.history)
  const firstOwn = turn.messages.findIndex((message) => message.turn_id === turn.turn_id)
  const earlier = firstOwn < 0 ? turn.messages : turn.messages.slice(0, firstOwn)
  const said = { count: earlier.length, rounds, messages: earlier.flatMap((message) => toModelMessages(message, callsOf(message, rounds), false)) }
  saidBefores.set(turn.history, said)
  return said
}

/** Calls by turn and round. */
function byRound(calls: readonly Call[]): Rounds {
  const turns = new Map<string, Map<number, Call[]>>()
  for (const call of calls) {
    const rounds = turns.get(call.turn_id) ?? new Map<number, Call[]>()
    turns.set(call.turn_id, rounds.set(call.step, [...(rounds.get(call.step) ?? []), call]))
  }
  return turns
}

function callsOf(message: Message, rounds: Rounds): readonly Call[] {
  return message.role === 'user' ? [] : (rounds.get(message.turn_id)?.get(message.step) ?? [])
}

function asTold(message: Message, calls: readonly Call[], isOwn: boolean): readonly ModelMessage[] {
  const known = told.get(message)
  if (known?.calls.length === calls.length && known.calls.every((call, index) => call === calls[index])) return known.messages
  const messages = toModelMessages(message, calls, isOwn)
  told.set(message, { calls, messages })
  return messages
}

function systemPrompt(turn: Turn, engine: Engine): string {
  const agent = engine.authority().agents.get(turn.agent)?.system_prompt ?? ''
  const given = turn.spec.system_prompt
  const own = given === null ? agent : turn.spec.system_prompt_strategy === 'override' ? given : `${agent}\n\n${given}`
  return [own.trim(), houseRules].filter((part) => part !== '').join('\n\n')
}

function offers(turn: Turn, engine: Engine): FunctionOffer[] {
  const authority = engine.authority()
  const grant = ownerGrant(authority, turn.owner)
  if (grant === null) return []
  const layers = layersOf(authority, grant, turn)
  return [...authority.functions.values()]
    .filter((entry) => isOffered(entry, grant.principal, layers, turn.spec.mode))
    .map(({ id, description, schema }) => ({ id, description, schema }))
    .sort((left, right) => (left.id < right.id ? -1 : 1))
}

function toModelMessages(message: Message, calls: readonly Call[], isOwn: boolean): ModelMessage[] {
  const blocks = blocksOf(message)
  const text = joined(blocks, 'text')
  if (message.role === 'user') return [{ role: 'user', text }]
  const thinking = isOwn ? joined(blocks, 'thinking') : ''
  return [
    { role: 'assistant', text, thinking: thinking === '' ? null : thinking, calls: calls.map((call) => ({ call_id: call.call_id, function_id: call.function_id, arguments: safeArguments(call) })) },
    ...calls.map((call): ModelMessage => ({ role: 'function_result', call_id: call.call_id, function_id: call.function_id, text: resultText(call), is_error: call.status !== 'succeeded' })),
  ]
}

export function blocksOf(message: Message): readonly { readonly [key: string]: Json }[] {
  return message.content.text === null ? [{ type: 'text', text: '[erased]' }] : (JSON.parse(message.content.text) as { readonly [key: string]: Json }[])
}

export function joined(blocks: readonly { readonly [key: string]: Json }[], type: 'text' | 'thinking'): string {
  return blocks.flatMap((block) => (block['type'] === type && typeof block['text'] === 'string' ? [block['text']] : [])).join('\n')
}

function safeArguments(call: Call): { readonly [key: string]: Json } {
  const value = jsonOf(call.arguments.text)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as { readonly [key: string]: Json }) : {}
}

function resultText(call: Call): string {
  if (call.result?.text === undefined || call.result.text === null) return '[erased]'
  const value = jsonOf(call.result.text)
  return typeof value === 'string' ? value : call.result.text
}
