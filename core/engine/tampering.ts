/*
 * What a worker checks of a turn before it runs it: the turn, its messages and its calls carry seals made with a key that is not in the
 * database, so that rows put in, changed or taken out by hand are found before anything is done on their word.
 */
import { sealHolds } from '../digest'
import { callMoves } from '../turn/call'
import { resultHolds } from '../turn/content'
import { callSealFacts, messageSealFacts, turnSealFacts, type Turn } from '../turn/turn'
import type { Engine } from './engine'

/** What was altered, for the record; null when all seals hold and nothing is missing. */
export function tampering(turn: Turn, engine: Pick<Engine, 'sealKey'>): string | null {
  const key = engine.sealKey
  const { turn_id, owner, messages } = turn
  const calls = [...turn.calls, ...turn.history]
  if (!sealHolds(key, 'turn', turnSealFacts(turn), turn.seal)) return `turn ${turn_id} does not carry its seal`
  const message = messages.find((candidate) => !sealHolds(key, 'message', messageSealFacts(candidate, owner), candidate.seal))
  if (message !== undefined) return `message ${message.message_id} does not carry its seal`
  const call = calls.find((candidate) => !sealHolds(key, 'call', callSealFacts(candidate), candidate.seal))
  if (call !== undefined) return `call ${call.call_id} does not carry its seal`
  const told = calls.find((candidate) => !resultHolds(candidate.call_id, candidate.result, key))
  if (told !== undefined) return `the result of call ${told.call_id} is not the one that was recorded`
  const odd = calls.find((candidate) => !Object.hasOwn(callMoves, candidate.status))
  if (odd !== undefined) return `call ${odd.call_id} has a status that does not exist`
  if (messages.some(({ ordinal }, index) => ordinal !== index + 1)) return `a message of session ${turn.session_id} is missing`
  const short = messages.find(({ reply, ...place }) => reply !== null && reply.calls !== calls.filter((one) => one.turn_id === place.turn_id && one.step === place.step).length)
  if (short !== undefined || (turn.kind === 'function' && calls.every((one) => one.turn_id !== turn_id))) return `a call of turn ${short?.turn_id ?? turn_id} is missing`
  if (turn.rounds !== messages.filter((one) => one.turn_id === turn_id && one.role === 'assistant').length) return `turn ${turn_id} has another number of rounds than its messages`
  return null
}
