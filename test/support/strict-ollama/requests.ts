/* Model requests for the tests of the driver, and the settings it is opened with. */
import type { Json } from '../../../core/digest'
import type { FunctionOffer, Model, ModelFailure, ModelMessage, ModelReply, ModelRequest } from '../../../core/model/model'
import { ollamaModel } from '../../../core/model/ollama'

export const settings = { num_ctx: 8_192, first_byte_ms: 5_000, idle_ms: 5_000 }

export function modelAt(url: string, more: Partial<typeof settings> = {}): Model {
  return ollamaModel({ ...settings, ...more, url })
}

const system: ModelMessage = { role: 'system', text: 'You work with files.' }

export function user(text: string): ModelMessage {
  return { role: 'user', text }
}

export function offer(id: string, properties: { [key: string]: Json } = { path: { type: 'string' } }): FunctionOffer {
  return { id, description: `Does ${id}.`, schema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false } }
}

export function request(more: Partial<ModelRequest> = {}): ModelRequest {
  return { model: 'qwen3:8b', messages: [system, user('Read a.md.')], functions: [], thinking_level: null, allow_cloud: false, ...more }
}

/** A call with its result, as the conversation holds them. */
export function answered(
  function_id: string, given: { [key: string]: Json }, text: string, more: { thinking?: string; is_error?: boolean } = {},
): ModelMessage[] {
  const call_id = `c_${function_id}`
  return [
    { role: 'assistant', text: '', thinking: more.thinking ?? null, calls: [{ call_id, function_id, arguments: given }] },
    { role: 'function_result', call_id, function_id, text, is_error: more.is_error ?? false },
  ]
}

export function conversation(...messages: readonly ModelMessage[]): ModelMessage[] {
  return [system, ...messages]
}

export async function ask(model: Model, asked: ModelRequest = request(), signal = new AbortController().signal): Promise<ModelReply | ModelFailure> {
  return model.generate(asked, signal)
}

/** Throws when the model failed. */
export async function reply(model: Model, asked: ModelRequest = request()): Promise<ModelReply> {
  const result = await ask(model, asked)
  if (result.kind === 'failure') throw new Error(`${result.error_kind}, ${result.cause}: ${result.message}`)
  return result
}

/** Throws when the model answered. */
export async function failed(model: Model, asked: ModelRequest = request()): Promise<ModelFailure> {
  const result = await ask(model, asked)
  if (result.kind === 'reply') throw new Error(`answered ${JSON.stringify(result)}`)
  return result
}
