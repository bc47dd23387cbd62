/*
 * The chunks of one streamed answer as a reply. Every field of a chunk is optional and foreign; calls are only ever taken from
 * `tool_calls`, never from text, however much a text looks like one.
 */
import type { Json } from '../digest'
import type { AskedCall, ModelReply } from './model'
import { saysRemote } from './ollama-locality'
import type { WireNames } from './ollama-names'
import { callTrouble } from './ollama-trouble'

interface RawCall {
  readonly call: unknown
  /** It came in the chunk that also says `done`. */
  readonly final: boolean
}

/** What the chunks said, before it is judged. */
export interface CollectedAnswer {
  readonly text: string
  readonly thinking: string
  readonly calls: readonly RawCall[]
  readonly done_reason: string | null
  readonly input: number | null
  readonly output: number | null
}

/** Appends everything, over all chunks: `index` is 0 for every call of some models. Throws `remote_model` at the first chunk that names one. */
export async function collectAnswer(chunks: AsyncIterable<unknown>, allowCloud: boolean): Promise<CollectedAnswer> {
  const texts: string[] = []
  const thoughts: string[] = []
  const calls: RawCall[] = []
  let last: Record<string, unknown> = {}
  for await (const value of chunks) {
    const chunk = asObject(value)
    if (!allowCloud && saysRemote(chunk)) throw callTrouble('remote_model')
    const message = asObject(chunk['message'])
    if (typeof message['content'] === 'string') texts.push(message['content'])
    if (typeof message['thinking'] === 'string') thoughts.push(message['thinking'])
    const final = chunk['done'] === true
    if (Array.isArray(message['tool_calls'])) for (const call of message['tool_calls'] as unknown[]) calls.push({ call, final })
    if (final) last = chunk
  }
  const reason = last['done_reason']
  return {
    text: texts.join(''), thinking: thoughts.join(''), calls,
    done_reason: typeof reason === 'string' ? reason : null, input: count(last['prompt_eval_count']), output: count(last['eval_count']),
  }
}

export interface ReplyContext {
  readonly model: string
  readonly names: WireNames
  /** Characters sent, to notice a conversation that the server cut. */
  readonly characters: number
}

/** Where a token stands for this many characters or more, something was left out: text of any kind has 1 to 6. */
const charactersPerToken = 12

export function replyFrom(answer: CollectedAnswer, { model, names, characters }: ReplyContext): ModelReply {
  const warnings: string[] = []
  const cut = answer.done_reason === 'length'
  // a cut answer may hold calls only where the server wrote them down after the cut, in the last chunk
  const usable = answer.calls.filter((raw) => !cut || raw.final)
  const dropped = answer.calls.length - usable.length
  if (dropped > 0) warnings.push(`The answer was cut at the end of the context window; ${String(dropped)} calls before the cut were left out.`)
  const calls = usable.map((raw) => askedCall(raw.call, names))
  if (answer.text === '' && calls.length === 0) {
    warnings.push(answer.thinking === '' ? 'The model answered nothing.' : 'The model only thought; it wrote no answer and asked for no call.')
  }
  if (answer.input !== null && answer.input > 0 && characters / answer.input > charactersPerToken) {
    warnings.push(`The server read only ${String(answer.input)} tokens of ${String(characters)} characters: it may have left out the oldest part.`)
  }
  return {
    kind: 'reply', provider: 'ollama', model, text: answer.text, thinking: answer.thinking === '' ? null : answer.thinking, calls,
    stop_reason: calls.length > 0 ? 'function_call' : cut ? 'length' : 'end', native_stop_reason: answer.done_reason,
    usage: { ...(answer.input === null ? {} : { input: answer.input }), ...(answer.output === null ? {} : { output: answer.output }) },
    warnings,
  }
}

function askedCall(value: unknown, names: WireNames): AskedCall {
  const call = asObject(value)
  const { name, arguments: given } = asObject(call['function'])
  const written = typeof name === 'string' ? name : ''
  const id = names.decode(written) ?? names.decode(withoutChannel(written))
  const native = call['id']
  return {
    function_id: id ?? (written === '' ? 'unnamed' : written.slice(0, 128)), offered: id !== null,
    arguments: readArguments(given), native_id: typeof native === 'string' && native !== '' ? native.slice(0, 128) : null,
  }
}

/** gpt-oss may append its channel to a name: `files__read<|channel|>analysis`. */
function withoutChannel(name: string): string {
  const at = name.indexOf('<|channel|>')
  return at < 0 ? name : name.slice(0, at)
}

/** An object as it is, a string parsed once, nothing at all as no arguments; null for anything else, which is told to the model. */
export function readArguments(given: unknown): { readonly [key: string]: Json } | null {
  let value = given
  if (typeof value === 'string') {
    try {
      value = JSON.parse(value) as unknown
    } catch {
      return null
    }
    if (value === null) return null
  }
  if (value === undefined || value === null) return {}
  return typeof value === 'object' && !Array.isArray(value) ? (value as { readonly [key: string]: Json }) : null
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

/** Ollama leaves zero numbers out; we then say nothing rather than zero. */
function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null
}
