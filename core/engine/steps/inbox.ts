/* What outsiders left for the turn: folded in at a commit of its worker. An item without its seal is refused and put on record. */
import { seal, sealHolds } from '../../digest'
import { derivedId } from '../../ids'
import type { Change } from '../../turn/changes'
import { inboxSealFacts, type InboxBody, type InboxItem } from '../../turn/inbox'
import { messageSealFacts, type Message, type Turn, type TurnRow } from '../../turn/turn'
import type { Engine, StepResult } from '../engine'
import { nextOrdinal } from './call-model'

type Folded = Extract<Change, { type: 'inbox.folded' }>

/** Stops and decisions take effect at once. What a decision says stands on its approval, which the run has read again. */
export function foldUrgent(items: readonly InboxItem[], turn: Turn, engine: Engine): StepResult {
  return { changes: items.flatMap((item) => (isGenuine(item, turn, engine) ? [folded(item, 'done')] : refused(item))) }
}

/** Messages become part of the conversation. */
export function deliver(items: readonly InboxItem[], turn: Turn, engine: Engine): StepResult {
  const changes: Change[] = []
  let ordinal = nextOrdinal(turn)
  for (const item of items) {
    if (item.kind !== 'message') continue
    if (!isGenuine(item, turn, engine) || wasDelivered(item, turn)) {
      changes.push(...refused(item))
      continue
    }
    const facts = {
      message_id: derivedId('m', item.inbox_id), session_id: turn.session_id, turn_id: turn.turn_id, ordinal, step: 0, role: 'user' as const, content: item.content, reply: null,
      created_at: engine.clock.now(),
    }
    const message: Message = { ...facts, seal: seal(engine.sealKey, 'message', messageSealFacts(facts, turn.owner)) }
    changes.push({ type: 'message.appended', message }, folded(item, 'done'))
    ordinal += 1
  }
  return { changes }
}

export function isGenuine(item: InboxItem, turn: Pick<TurnRow, 'owner'>, engine: Pick<Engine, 'sealKey'>): boolean {
  return sealHolds(engine.sealKey, 'inbox', factsOf(item, turn), item.seal)
}

/** Whether the message was said before, here or in the turn that followed: its id comes from its item, so that one set back to unread is known. */
export function wasDelivered(item: InboxItem, turn: Pick<Turn, 'messages'>): boolean {
  const ids = [derivedId('m', item.inbox_id), derivedId('m', derivedId('i', item.inbox_id))]
  return turn.messages.some((message) => ids.includes(message.message_id))
}

export function folded(item: InboxItem, fate: Folded['fate']): Folded {
  return { type: 'inbox.folded', turn_id: item.turn_id, inbox_id: item.inbox_id, seq: item.seq, kind: item.kind, principal: item.principal, fate }
}

export function refused(item: InboxItem): Change[] {
  return [folded(item, 'refused'), { type: 'tampering.found', object: item.inbox_id, what: `an inbox item of turn ${item.turn_id} does not carry its seal, or was read before` }]
}

function factsOf(item: Pick<InboxItem, 'inbox_id' | 'turn_id' | 'seq' | 'principal'> & InboxBody, { owner }: Pick<TurnRow, 'owner'>): ReturnType<typeof inboxSealFacts> {
  return inboxSealFacts({ ...item, owner, content_digest: item.kind === 'message' ? item.content.digest : null })
}

/** An item as it is posted to a turn. The turn's row says which place is next. */
export function newInboxItem(
  turn: Pick<TurnRow, 'turn_id' | 'session_id' | 'owner' | 'inbox_posted'>, body: InboxBody, from: { principal: string; at: number },
  engine: Pick<Engine, 'ids' | 'sealKey'>, inboxId = engine.ids.next('i'),
): InboxItem {
  const item = { inbox_id: inboxId, session_id: turn.session_id, turn_id: turn.turn_id, seq: turn.inbox_posted + 1, principal: from.principal, posted_at: from.at, ...body }
  return { ...item, seal: seal(engine.sealKey, 'inbox', factsOf(item, turn)) }
}
