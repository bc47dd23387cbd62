/* One model call: from the conversation to an answer and the calls it asks for. A failure ends the turn with its reason. */
import { seal, type Json } from '../../digest'
import { unreachable } from '../../errors'
import { callId } from '../../ids'
import type { AskedCall, ModelFailure, ModelMessage, ModelReply, ModelRequest } from '../../model/model'
import type { Change } from '../../turn/changes'
import { newContent } from '../../turn/content'
import { callSealFacts, messageSealFacts, type Message, type Turn } from '../../turn/turn'
import type { Call } from '../../turn/call'
import { conversation } from '../conversation'
import type { Engine, StepResult } from '../engine'
import { resolveModel } from '../resolve-model'

export async function callModel(turn: Turn, engine: Engine, signal: AbortSignal): Promise<StepResult> {
  // what did not come about because of a stop or the end of this process is no failure of the turn
  const failed = (failure: NonNullable<Turn['failure']>): StepResult => ({ changes: [], ...(signal.aborted ? {} : { failure }) })
  const model = await resolveModel(turn, engine, signal)
  if (model.name === null) return failed({ reason: 'model_unavailable', detail: engine.mask(model.problem) })
  const request: ModelRequest = { model: model.name, ...conversation(turn, engine), thinking_level: turn.spec.thinking_level, allow_cloud: false }
  let reply = await engine.model.generate(request, signal)
  if (isEmpty(reply) && !signal.aborted) {
    // some models answer nothing now and then; asked again with a nudge they do, and a second silence is honest failure
    const nudge: ModelMessage = { role: 'user', text: 'Your last answer was empty. Answer in words, or call a function.' }
    reply = await engine.model.generate({ ...request, messages: [...request.messages, nudge] }, signal)
  }
  if (reply.kind === 'failure') return failed(failureOf(reply, engine))
  if (isEmpty(reply)) return failed({ reason: 'empty_reply', detail: `${model.name} answered nothing, twice.` })
  return { changes: changesOf(reply, turn, engine) }
}

function isEmpty(reply: ModelReply | ModelFailure): boolean {
  return reply.kind === 'reply' && reply.text.trim() === '' && reply.calls.length === 0
}

function failureOf(failure: ModelFailure, engine: Engine): NonNullable<Turn['failure']> {
  const detail = engine.mask(failure.message)
  switch (failure.error_kind) {
    case 'context_overflow':
      return { reason: 'context_overflow', detail }
    case 'transient':
    case 'rate_limited':
      return { reason: 'model_unavailable', detail }
    case 'auth_expired':
    case 'permanent':
      return { reason: failure.cause === 'model_missing' || failure.cause === 'unreachable' ? 'model_unavailable' : 'model_failed', detail }
    default:
      return unreachable(failure.error_kind)
  }
}

function changesOf(reply: ModelReply, turn: Turn, engine: Engine): Change[] {
  const at = engine.clock.now()
  const step = turn.rounds + 1
  const calls = reply.calls.map((asked, ordinal) => proposedCall(asked, { turn, step, ordinal, at }, engine))
  const blocks: Json[] = []
  if (reply.thinking !== null) blocks.push({ type: 'thinking', text: reply.thinking })
  if (reply.text !== '') blocks.push({ type: 'text', text: reply.text })
  for (const call of calls) blocks.push({ type: 'function_call', id: call.call_id, function_id: call.function_id, arguments: JSON.parse(call.arguments.text ?? 'null') as Json })
  const facts = {
    message_id: engine.ids.next('m'), session_id: turn.session_id, turn_id: turn.turn_id, ordinal: nextOrdinal(turn), step, role: 'assistant' as const,
    content: newContent(engine.ids, JSON.stringify(blocks)), created_at: at,
    reply: {
      model: reply.model, provider: reply.provider, stop_reason: reply.stop_reason, native_stop_reason: reply.native_stop_reason, usage: reply.usage,
      warnings: reply.warnings, calls: calls.length,
    },
  }
  const message: Message = { ...facts, seal: seal(engine.sealKey, 'message', messageSealFacts(facts, turn.owner)) }
  return [{ type: 'message.appended', message }, ...calls.map((call): Change => ({ type: 'call.proposed', call }))]
}

/** A call as it enters the record. Its id comes from its place, so that the step done again proposes the same call. */
export function proposedCall(asked: Pick<AskedCall, 'function_id' | 'arguments'>, place: { turn: Pick<Turn, 'turn_id'>; step: number; ordinal: number; at: number }, engine: Pick<Engine, 'ids' | 'sealKey'>): Call {
  const { turn, step, ordinal, at } = place
  const facts = {
    call_id: callId(turn.turn_id, step, ordinal), turn_id: turn.turn_id, step, ordinal, function_id: asked.function_id,
    arguments: newContent(engine.ids, JSON.stringify(asked.arguments)),
  }
  return {
    ...facts, seal: seal(engine.sealKey, 'call', callSealFacts(facts)), status: 'proposed', reason: null, reasons: [], function_digest: null, approval_id: null,
    started_epoch: null, attempts: 0, result: null, proposed_at: at, started_at: null, settled_at: null,
  }
}

export function nextOrdinal(turn: Turn): number {
  return (turn.messages.at(-1)?.ordinal ?? 0) + 1
}
