/* Sending calls. A write was recorded as started before; reads run side by side and leave no trace until their answers are there. */
import type { Json } from '../../digest'
import type { FunctionOutcome } from '../../functions/function'
import type { Change } from '../../turn/changes'
import { newResult } from '../../turn/content'
import type { Call } from '../../turn/call'
import type { Turn } from '../../turn/turn'
import type { Engine, StepResult } from '../engine'
import { judgeStart, type Judgement } from '../judge'
import { interrupted, judged, recorded, sentBefore } from './judge'

/** Sends the one write that is started under this lease. */
export async function runWrite(call: Call, turn: Turn, engine: Engine, signal: AbortSignal): Promise<StepResult> {
  const judgement = judgeStart(call, turn, engine)
  // a reload between recording and sending took the right away: nothing was sent, and nothing will be
  if (judgement.effect !== 'allow') {
    const denial = { error: 'denied', message: 'The right to make this call was taken away before it was sent. It did not run.' }
    return { changes: [settled(call, 'revoked', denial, engine), ...(judgement.effect === 'deny' ? recorded(call, judgement) : [])] }
  }
  // last line before the wire: survives a rewound or restored database, and a row that says started without having been
  if (engine.sentLog.has(call.call_id)) {
    return { changes: [interrupted(call, engine, 'This call was already sent once.'), ...recorded(call, { tampering: sentBefore(call) })] }
  }
  const askedAt = engine.clock.now()
  // planned for a workflow that was there: if its row was changed since, what stands there now has not registered here
  const isAway = engine.registrations.liveAt(judgement.entry) === null
  if (!isAway && !judgement.entry.idempotent) await engine.sentLog.append(call.call_id)
  const outcome = isAway ? notThere(judgement.entry.id) : await send(call, turn, judgement, engine, signal)
  if (outcome.kind === 'not_live') {
    engine.registrations.lost(call.function_id, askedAt)
    // it was handed out before, under an earlier lease: that this time nothing ran says nothing of that one
    if (call.attempts > 1) return { changes: [interrupted(call, engine, `${engine.mask(outcome.message)}, and it was called once before.`)] }
  }
  return { changes: [outcome.kind === 'cut' ? interrupted(call, engine, engine.mask(outcome.message)) : settledBy(call, outcome, engine)] }
}

/** Runs reads side by side. Those cut by a stop stay allowed; the end of the turn denies them. */
export async function runReads(calls: readonly Call[], turn: Turn, engine: Engine, signal: AbortSignal): Promise<StepResult> {
  const changes = await Promise.all(
    calls.map(async (call): Promise<readonly Change[]> => {
      const judgement = judgeStart(call, turn, engine)
      if (judgement.effect !== 'allow') return judged(call, turn, judgement, engine)
      const askedAt = engine.clock.now()
      const outcome = await send(call, turn, judgement, engine, signal)
      if (outcome.kind === 'cut' && signal.aborted) return []
      if (outcome.kind === 'not_live') {
        engine.registrations.lost(call.function_id, askedAt)
        // it stays allowed, and waits until the workflow is active again
        if ((engine.registrations.liveAt(judgement.entry) ?? Infinity) > engine.clock.now()) return []
      }
      return [settledBy(call, outcome, engine)]
    }),
  )
  return { changes: changes.flat() }
}

function notThere(functionId: string): FunctionOutcome {
  return { kind: 'not_live', message: `The workflow of ${functionId} is not active any more` }
}

async function send(call: Call, turn: Turn, judgement: Extract<Judgement, { effect: 'allow' }>, engine: Engine, signal: AbortSignal): Promise<FunctionOutcome> {
  const { entry, args } = judgement
  engine.log.info({ call_id: call.call_id, turn_id: turn.turn_id, function_id: entry.id }, 'call sent')
  return engine.source(entry).call({ call_id: call.call_id, turn_id: turn.turn_id, session_id: turn.session_id, entry, arguments: args }, signal)
}

function settledBy(call: Call, outcome: FunctionOutcome, engine: Engine): Change {
  switch (outcome.kind) {
    case 'answered':
      return settled(call, outcome.is_error ? 'function_failed' : null, outcome.value, engine)
    case 'not_sent':
      return settled(call, 'not_sent', { error: 'not_sent', message: `${outcome.message} Nothing was sent.` }, engine)
    case 'not_live':
      return settled(call, 'not_sent', { error: 'not_sent', message: `${outcome.message}. Nothing ran.` }, engine)
    case 'cut':
      return settled(call, 'cut', { error: 'cut', message: outcome.message }, engine)
  }
}

/** Why a call failed: the function said so; nothing reached it; a read was cut; the right to make it was taken away. Null: it succeeded. */
type FailureReason = 'function_failed' | 'not_sent' | 'cut' | 'revoked'

function settled(call: Call, reason: FailureReason | null, value: Json, engine: Engine): Change {
  return {
    type: 'call.settled', turn_id: call.turn_id, call_id: call.call_id, from: call.status, to: reason === null ? 'succeeded' : 'failed', reason,
    result: newResult(call.call_id, masked(value, engine), engine), at: engine.clock.now(),
  }
}

/** A function may say back what it was sent: no secret is written down or told to a model. Member by member, so that it stays JSON. */
function masked(value: Json, engine: Engine): Json {
  if (typeof value === 'string') return engine.mask(value)
  if (Array.isArray(value)) return value.map((item: Json) => masked(item, engine))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]: [string, Json]) => [engine.mask(key), masked(member, engine)]))
}
