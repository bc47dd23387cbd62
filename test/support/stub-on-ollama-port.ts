/*
 * The strict Ollama stub where a user's Ollama is, on 127.0.0.1:11434, so that an n8n with nothing typed finds it. What the model does is told
 * by scenes: a message that holds certain words makes it call functions (tools), and it then says what became of each call. The answer
 * depends on the request alone, so the harness may be killed and come back.
 */
import { toWireName } from '../../core/model/wire-names'
import { startStrictOllama, type StrictOllama, type StubChat, type StubReply } from './strict-ollama'

export interface Scene {
  /** Words of the last user message. The first scene that matches plays; where none does, the model says `ok`. */
  readonly when: string | RegExp
  /** Rounds of calls, one after the other; default none. */
  readonly rounds?: readonly (readonly SceneCall[])[]
  /** What it says in the end. Default: {@link whatBecame} of each call. */
  readonly says?: string | ((results: readonly ToolResult[]) => string)
  /** How long it thinks before each answer, ms: time to kill something meanwhile. */
  readonly thinks_ms?: number
}

export interface SceneCall {
  /** `workflow::refund` */
  readonly function_id: string
  readonly arguments: Readonly<Record<string, unknown>>
}

export type Outcome = 'succeeded' | 'denied' | 'rejected' | 'expired' | 'unknown_outcome' | 'not_sent' | 'cut' | 'failed'

/** A result as the model was told it. */
export interface ToolResult {
  readonly outcome: Outcome
  readonly name: string
  readonly text: string
}

export const ollamaPort = 11_434

/** On any port, for an n8n that is told where its Ollama is; 0 takes a free one. */
export function startStub(port: number, scenes: readonly Scene[]): Promise<StrictOllama> {
  return startStrictOllama({ port, models: [{ name: 'qwen3:8b' }], script: (chat, step) => reply(chat, step, scenes) })
}

export async function startOnOllamaPort(scenes: readonly Scene[]): Promise<StrictOllama> {
  try {
    return await startStub(ollamaPort, scenes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    throw new Error(`Port ${String(ollamaPort)} is taken on 127.0.0.1, most likely by an Ollama. This suite must put a stub there; stop what is there and run it again.`)
  }
}

function reply(chat: StubChat, step: number, scenes: readonly Scene[]): StubReply {
  const lastUser = chat.messages.findLastIndex(({ role }) => role === 'user')
  const asked = chat.messages[lastUser]?.content ?? ''
  const scene = scenes.find(({ when }) => (typeof when === 'string' ? asked.includes(when) : when.test(asked)))
  if (scene === undefined) return { text: 'ok' }
  const thinks = scene.thinks_ms === undefined ? {} : { load_ms: scene.thinks_ms }
  const round = scene.rounds?.[step]
  if (round !== undefined) {
    const calls = round.map((call) => ({ name: offeredName(chat, call.function_id), arguments: call.arguments, function_id: call.function_id }))
    const missing = calls.filter(({ name }) => name === null).map(({ function_id }) => function_id)
    if (missing.length > 0) return { text: `I was not offered ${missing.join(', ')}.`, ...thinks }
    return { tool_calls: calls.map((call) => ({ name: call.name ?? '', arguments: call.arguments })), ...thinks }
  }
  const results = chat.messages.slice(lastUser + 1).filter(({ role }) => role === 'tool').map(toolResult)
  const says = scene.says ?? ((all: readonly ToolResult[]) => all.map(whatBecame).join(' '))
  return { text: typeof says === 'string' ? says : says(results), ...thinks }
}

/** The name under which this request offers a function: its wire name, or that with a tail where another name holds it. */
function offeredName(chat: StubChat, functionId: string): string | null {
  const wire = toWireName(functionId)
  const names = (chat.tools ?? []).map((tool) => tool.function.name)
  return names.find((name) => name === wire || (name.startsWith(`${wire}___`) && name.length === wire.length + 5)) ?? null
}

const outcomes: readonly Outcome[] = ['denied', 'rejected', 'expired', 'unknown_outcome', 'not_sent', 'cut']

function toolResult({ content, tool_name: name = '' }: StubChat['messages'][number]): ToolResult {
  let error: unknown
  try {
    error = (JSON.parse(content) as { error?: unknown } | null)?.error
  } catch {
    // a text is no error
  }
  const outcome = error === undefined ? 'succeeded' : (outcomes.find((known) => known === error) ?? 'failed')
  return { outcome, name, text: content }
}

/** What the model says of a result when its scene says nothing else. */
export function whatBecame({ outcome, name }: ToolResult): string {
  switch (outcome) {
    case 'succeeded': return `${name} is done.`
    case 'denied': return `${name} is not allowed, so it did not run.`
    case 'rejected': return `A person said no to ${name}, so it did not run.`
    case 'expired': return `Nobody decided about ${name} in time, so it did not run.`
    case 'unknown_outcome': return `Whether ${name} ran is unknown; a person must look.`
    case 'not_sent':
    case 'cut':
    case 'failed': return `${name} failed.`
  }
}
