/*
 * PURE. From the parameters of Send to the inputs of operations. What a person left empty is left out, so that the harness's own default
 * holds; what cannot be read is refused before anything is sent.
 */
import { createHash } from 'node:crypto'
import { jsonParse, UserError, type IDataObject } from 'n8n-workflow'
import type { InputOf } from '../../core/index'

/** The same item of the same run of the same execution has the same key: a retry inside n8n never sends twice. */
export function keyOf(parts: { execution: string; node: string; run: number; item: number; operation: string }): string {
  const { execution, node, run, item, operation } = parts
  return `n8n-${createHash('sha256').update(JSON.stringify([execution, node, run, item, operation])).digest('hex')}`
}

export interface SendOptions {
  readonly allow?: string
  readonly deny?: string
  readonly idempotencyKey?: string
  readonly maxRounds?: number
  readonly metadata?: unknown
  readonly mode?: string
  readonly systemPrompt?: string
}

export interface SendFields {
  readonly message: string
  readonly sessionId: string
  readonly agent: string
  readonly model: string
  readonly options: SendOptions
}

export function sendInput(fields: SendFields, key: string): InputOf<'send'> {
  const { message, options } = fields
  if (message.trim() === '') throw new UserError('Message is empty.')
  const given = turnOptions(options)
  return {
    message,
    ...named('session_id', fields.sessionId),
    ...named('agent', fields.agent),
    ...named('model', fields.model),
    ...(Object.keys(given).length === 0 ? {} : { options: given }),
    idempotency_key: (options.idempotencyKey ?? '').trim() || key,
  }
}

type TurnOptions = NonNullable<InputOf<'send'>['options']>

function turnOptions(options: SendOptions): TurnOptions {
  const allow = globs(options.allow)
  const deny = globs(options.deny)
  return {
    ...(allow.length === 0 && deny.length === 0 ? {} : { functions: { ...(allow.length === 0 ? {} : { allow }), ...(deny.length === 0 ? {} : { deny }) } }),
    ...(options.maxRounds === undefined ? {} : { max_turns: options.maxRounds }),
    ...(options.metadata === undefined || options.metadata === '' ? {} : { metadata: parsed(options.metadata, 'Metadata') as NonNullable<TurnOptions['metadata']> }),
    ...(options.mode === undefined || options.mode === '' ? {} : { mode: options.mode as NonNullable<TurnOptions['mode']> }),
    ...((options.systemPrompt ?? '').trim() === '' ? {} : { system_prompt: options.systemPrompt ?? '' }),
  }
}

/** One a line, or with commas between. */
export function globs(text: string | undefined): string[] {
  return (text ?? '').split(/[\n,]/).map((glob) => glob.trim()).filter((glob) => glob !== '')
}

export function runInput(fields: { functionId: string; arguments: unknown; sessionId: string; waitSeconds: number }, key: string): InputOf<'trigger'> {
  if (fields.functionId.trim() === '') throw new UserError('Function is empty: choose one.')
  const args = parsed(fields.arguments, 'Arguments')
  if (typeof args !== 'object' || args === null || Array.isArray(args)) throw new UserError('Arguments is no JSON object.')
  return {
    call: { function_id: fields.functionId.trim(), arguments: args as InputOf<'trigger'>['call']['arguments'] },
    ...named('session_id', fields.sessionId),
    idempotency_key: key,
    wait_seconds: Math.min(45, Math.max(0, fields.waitSeconds)),
  }
}

/** n8n gives a JSON field as text or, from an expression, as the value. */
function parsed(value: unknown, name: string): unknown {
  if (typeof value !== 'string') return value
  const unreadable = Symbol('unreadable')
  const read = jsonParse<unknown>(value, { fallbackValue: unreadable })
  if (read === unreadable) throw new UserError(`${name} is no valid JSON.`)
  return read
}

export function named(name: string, value: string): Record<string, string> {
  return value.trim() === '' ? {} : { [name]: value.trim() }
}

/** Snake case, with the one name that n8n has for something else. */
export function sentFacts(sent: { execution_id: string; session_id: string; turn_id: string; deduplicated: boolean; merged?: boolean }, state: string): IDataObject {
  const { execution_id, ...rest } = sent
  return { harness_execution_id: execution_id, ...rest, state }
}
