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
  const calls = new Map<string, Call[]>()
  for (const call of [...turn.history, ...turn.calls]) {
    const key = `${call.turn_id} ${String(call.step)}`
    const list = calls.get(key)
    if (list === undefined) calls.set(key, [call])
    else list.push(call)
  }
  const messages = turn.messages.flatMap((message) => toModelMessages(message, calls.get(`${message.turn_id} ${String(message.step)}`) ?? [], turn))
  return { messages: [{ role: 'system', text: systemPrompt(turn, engine) }, ...messages], functions: offers(turn, engine) }
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

function toModelMessages(message: Message, calls: readonly Call[], turn: Turn): ModelMessage[] {
  const blocks = blocksOf(message)
  const text = joined(blocks, 'text')
  if (message.role === 'user') return [{ role: 'user', text }]
  const thinking = message.turn_id === turn.turn_id ? joined(blocks, 'thinking') : ''
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
