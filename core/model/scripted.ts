/*
 * A model that says what a script says: for the demo and for tests, part of the published package. It keeps no position: which reply comes
 * next is read off the conversation, so a process that was killed and started again goes on with the same script. It reaches no network.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { HarnessError } from '../errors'
import type { AskedCall, Model, ModelFailure, ModelReply, ModelRequest } from './model'

const callShape = z.strictObject({
  function_id: z.string(),
  /** Default `{}`; null stands for arguments that are no JSON object. Handed on untouched, odd keys and all. */
  arguments: z.custom<AskedCall['arguments']>((value) => typeof value === 'object' && !Array.isArray(value)).default({}),
})

const replyShape = z.strictObject({
  text: z.string().default(''),
  thinking: z.string().nullable().default(null),
  calls: z.array(callShape).default([]),
  stop_reason: z.enum(['end', 'length', 'function_call']).optional(),
  /** How long it takes to answer, ms; default 0. A stop ends it at once. */
  delay_ms: z.int().min(0).default(0),
  /** Fail instead of answering. */
  fail: z.strictObject({
    error_kind: z.enum(['auth_expired', 'rate_limited', 'context_overflow', 'transient', 'permanent']),
    cause: z.enum(['unreachable', 'model_missing', 'cloud', 'other']).default('other'),
    message: z.string().default('The script says that the model fails here.'),
  }).optional(),
})

const repliesShape = z.array(replyShape).min(1)
const scriptShape = z.union([
  repliesShape,
  z.strictObject({ cases: z.array(z.strictObject({ when: z.string().default(''), replies: repliesShape })).min(1) }),
])

/** One reply; everything has a default. Without `stop_reason` it is `function_call` if there are calls, else `end`. */
export type ScriptedReply = z.input<typeof replyShape>

/**
 * A list of replies: the first answers a user message, the next ones the results of calls, the last one whatever comes after it. Or a
 * function of the request and of the number of model calls since the last user message; it must not throw.
 */
export type Script = readonly ScriptedReply[] | ((request: ModelRequest, callNumber: number) => ScriptedReply)

export interface ScriptedModel extends Model {
  /** Every request so far, oldest first. */
  readonly requests: readonly ModelRequest[]
}

/** A model port that answers from a script. `model` is the name that its probe lists, default `scripted`. */
export function scriptedModel(script: Script, options: { readonly model?: string } = {}): ScriptedModel {
  const name = options.model ?? 'scripted'
  const requests: ModelRequest[] = []
  return {
    provider: 'scripted',
    requests,
    generate: async (request, signal) => {
      requests.push(request)
      const number = answersSinceUser(request)
      const given = typeof script === 'function' ? script(request, number) : script[Math.min(number, script.length - 1)]
      const parsed = replyShape.safeParse(given)
      if (!parsed.success) return failure('permanent', 'other', 'The script has no reply that can be used here.')
      await pause(parsed.data.delay_ms, signal)
      if (signal.aborted) return failure('transient', 'aborted', 'The model call was stopped.')
      return answerFrom(parsed.data, request)
    },
    probe: () => Promise.resolve({
      address: 'a script', reachable: true, problem: null, models: [{ name, locality: 'this_machine', functions: true }],
    }),
  }
}

/**
 * A script as JSON text, for a process that is given one in a file: `[reply, …]`, or `{"cases": [{"when": "refund", "replies": [reply, …]}]}`,
 * where the first case counts whose `when` is in the last user message (in any case; left out it always is). Throws `bad_config`.
 */
export function parseScript(text: string): Script {
  const parsed = scriptShape.safeParse(readJson(text))
  if (!parsed.success) throw new HarnessError('bad_config', `The script of the model cannot be used: ${z.prettifyError(parsed.error).slice(0, 500)}`)
  if (Array.isArray(parsed.data)) return parsed.data
  const { cases } = parsed.data
  return (request, callNumber) => {
    const asked = request.messages.findLast((message) => message.role === 'user')?.text.toLowerCase() ?? ''
    const replies = cases.find((entry) => asked.includes(entry.when.toLowerCase()))?.replies ?? []
    return replies[Math.min(callNumber, replies.length - 1)] ?? { text: 'The script has no case for this message.' }
  }
}

function failure(error_kind: ModelFailure['error_kind'], cause: ModelFailure['cause'], message: string): ModelFailure {
  return { kind: 'failure', error_kind, cause, message }
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new HarnessError('bad_config', 'The script of the model is not JSON.')
  }
}

function answersSinceUser({ messages }: ModelRequest): number {
  const lastUser = messages.findLastIndex((message) => message.role === 'user')
  return messages.slice(lastUser + 1).filter((message) => message.role === 'assistant').length
}

function answerFrom(reply: z.output<typeof replyShape>, request: ModelRequest): ModelReply | ModelFailure {
  if (reply.fail !== undefined) return { kind: 'failure', ...reply.fail }
  const offered = new Set(request.functions.map((offer) => offer.id))
  const calls = reply.calls.map((call): AskedCall => ({
    function_id: call.function_id.slice(0, 128), offered: offered.has(call.function_id),
    arguments: call.arguments, native_id: null,
  }))
  const stop_reason = reply.stop_reason ?? (calls.length > 0 ? 'function_call' : 'end')
  const { text, thinking } = reply
  const told = { native_stop_reason: null, usage: {}, warnings: [] }
  return { kind: 'reply', provider: 'scripted', model: request.model, text, thinking, calls, stop_reason, ...told }
}

async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (milliseconds === 0 || signal.aborted) return
  // rejects when stopped, and the caller looks at the signal itself
  await wait(milliseconds, undefined, { signal }).catch(() => undefined)
}
