/*
 * The end of a turn: whatever is open gets its one answer, questions are withdrawn, and messages that came too late get a turn of
 * their own, with the rights and limits of the first.
 */
import { derivedId } from '../../ids'
import { turnCreated, type Change } from '../../turn/changes'
import type { InboxItem } from '../../turn/inbox'
import type { Step } from '../../turn/next-step'
import { askedIn, questionOf } from '../../turn/ask-person'
import { isSettled, type Call } from '../../turn/call'
import { newContent, type Content } from '../../turn/content'
import type { EndReason, Turn } from '../../turn/turn'
import type { Engine, StepResult } from '../engine'
import { newTurn } from '../new-turn'
import { blocksOf, joined } from '../conversation'
import { deliver, folded, isGenuine, newInboxItem, refused, wasDelivered } from './inbox'
import { deny, interrupted } from './judge'

export async function finish(step: Extract<Step, { kind: 'finish' }>, turn: Turn, engine: Engine): Promise<StepResult> {
  const changes: Change[] = turn.calls.filter((call) => !isSettled(call.status)).flatMap((call) => closeCall(call, step, engine))
  for (const approval of turn.approvals) {
    if (approval.status === 'pending') changes.push({ type: 'approval.closed', turn_id: turn.turn_id, approval_id: approval.approval_id, status: 'cancelled', at: engine.clock.now() })
  }
  changes.push(...(await leftMessages(step, turn, engine)))
  changes.push({
    type: 'turn.finished', turn_id: turn.turn_id, status: step.status, reason: step.reason, detail: step.detail, result: step.reason === 'tampered' ? null : resultOf(turn, step.reason, engine),
    inbox_seen: turn.inbox_posted, at: engine.clock.now(),
  })
  return { changes }
}

function closeCall(call: Call, step: Extract<Step, { kind: 'finish' }>, engine: Engine): Change[] {
  if (call.status === 'started') return [interrupted(call, engine, 'The turn ended while this call was under way.')]
  const told = 'The turn ended before this call was made. It did not run.'
  return deny(call, { effect: 'deny', code: step.reason === 'stopped' ? 'stopped' : 'turn_ended', told, reasons: call.reasons, digest: call.function_digest, tampering: null }, engine)
}

/** The question to a person, the agent's last text, or the function's answer; the same content, not a copy, where it is one. */
function resultOf(turn: Turn, reason: EndReason, engine: Engine): Content | null {
  if (turn.kind === 'function') return turn.calls[0]?.result ?? null
  const question = reason === 'asked_person' ? questionOf(askedIn(turn.calls, turn.rounds)) : null
  if (question !== null) return newContent(engine.ids, JSON.stringify(question.text))
  const last = turn.messages.findLast((message) => message.turn_id === turn.turn_id && message.role === 'assistant')
  if (last === undefined) return null
  const text = joined(blocksOf(last), 'text')
  return text === '' ? null : newContent(engine.ids, JSON.stringify(text))
}

/** After such an end nothing goes on by itself: it would end the same way again. */
const endsForGood: ReadonlySet<EndReason> = new Set<EndReason>(['tampered', 'owner_inactive', 'crash_loop'])

/** A stop silences what was said before it; what was said after it, or to a turn that ended by itself, is answered by a turn that follows. */
async function leftMessages(step: Extract<Step, { kind: 'finish' }>, turn: Turn, engine: Engine): Promise<Change[]> {
  const genuine: InboxItem[] = []
  const changes: Change[] = []
  for (const item of turn.inbox) {
    if (item.kind !== 'message') changes.push(folded(item, 'done'))
    else if (isGenuine(item, turn, engine) && !wasDelivered(item, turn)) genuine.push(item)
    else changes.push(...refused(item))
  }
  const mayFollow = turn.kind === 'agent' && !endsForGood.has(step.reason)
  const stop = turn.stop
  const unanswered = genuine.filter((item) => !mayFollow || (stop !== null && item.seq < stop.seq))
  const late = genuine.filter((item) => !unanswered.includes(item))
  // stopped while it waited for an earlier turn: the conversation is still that one's, and what nobody heard is not put into it
  const waits = unanswered.length > 0 && (await engine.store.firstUnfinishedTurn(turn.session_id))?.turn_id !== turn.turn_id
  changes.push(...(waits ? unanswered.map((item) => folded(item, 'done')) : deliver(unanswered, turn, engine).changes))
  if (late.length === 0) return changes

  const now = engine.clock.now()
  const follower = newTurn({ ...turn, created_at: now, deadline_at: now + engine.authority().limits.turn_ms }, engine)
  changes.push(turnCreated(follower))
  let posted = 0
  for (const item of late) {
    if (item.kind !== 'message') continue
    const moved = newInboxItem({ ...follower, inbox_posted: posted }, { kind: 'message', content: item.content }, { principal: item.principal, at: now }, engine, derivedId('i', item.inbox_id))
    changes.push(folded(item, 'moved'), { type: 'inbox.posted', item: moved })
    posted += 1
  }
  return changes
}
