/* A turn's row as it enters the record, sealed. */
import { seal } from '../digest'
import { newContent } from '../turn/content'
import { turnSealFacts, type TurnRow } from '../turn/turn'
import type { Engine } from './engine'

export type TurnFacts = Pick<TurnRow, 'session_id' | 'execution_id' | 'owner' | 'kind' | 'agent' | 'spec' | 'created_at' | 'deadline_at'> & { readonly turn_id?: string }

export function newTurn(given: TurnFacts, engine: Pick<Engine, 'ids' | 'sealKey'>, turnId = engine.ids.next('t')): TurnRow {
  const { session_id, execution_id, owner, kind, agent, spec, created_at, deadline_at } = given
  const spec_content = newContent(engine.ids, JSON.stringify(spec))
  const facts = { turn_id: turnId, session_id, execution_id, owner, kind, agent, spec, spec_content, created_at, deadline_at }
  return {
    ...facts, seal: seal(engine.sealKey, 'turn', turnSealFacts(facts)), status: 'queued', reason: null, detail: null, park: null, wake_at: null, rounds: 0,
    claims: 0, lease_epoch: 0, inbox_posted: 0, inbox_seen: 0, result: null, started_at: null, finished_at: null,
  }
}
