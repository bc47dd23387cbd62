/*
 * What a worker checks of a turn before it runs it: the turn, its messages and its calls carry seals made with a key that is not in the
 * database, so that rows put in or changed by hand are found before anything is done on their word.
 */
import { sealHolds } from '../digest'
import { callSealFacts, messageSealFacts, turnSealFacts, type Turn } from '../turn/turn'
import type { Engine } from './engine'

/** What was altered, for the record; null when all seals hold. */
export function tampering(turn: Turn, engine: Pick<Engine, 'sealKey'>): string | null {
  const key = engine.sealKey
  if (!sealHolds(key, 'turn', turnSealFacts(turn), turn.seal)) return `turn ${turn.turn_id} does not carry its seal`
  const message = turn.messages.find((candidate) => !sealHolds(key, 'message', messageSealFacts(candidate), candidate.seal))
  if (message !== undefined) return `message ${message.message_id} does not carry its seal`
  const call = [...turn.calls, ...turn.history].find((candidate) => !sealHolds(key, 'call', callSealFacts(candidate), candidate.seal))
  if (call !== undefined) return `call ${call.call_id} does not carry its seal`
  return null
}
