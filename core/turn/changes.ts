/*
 * A change is one fact that a commit records. The store writes its rows from it, the record keeps it (texts by digest), and
 * `applyChanges` moves the turn in memory by it: three readings of one list, so that they cannot disagree.
 */
import { HarnessError, unreachable } from '../errors'
import type { Approval, SignedDecision } from '../approvals/approval'
import type { Execution } from '../executions/execution'
import type { Reason } from '../policy/policy'
import type { RegistrationRow } from '../policy/registration'
import type { AwaitFacts, AwaitOutcome } from './await'
import { callMoves, type Call, type CallStatus } from './call'
import type { Content } from './content'
import type { InboxItem } from './inbox'
import { turnMoves, type EndReason, type Message, type ParkReason, type TerminalStatus, type Turn, type TurnRow } from './turn'

export interface Session {
  readonly session_id: string
  readonly owner: string
  readonly title: Content | null
  readonly created_at: number
}

export type CallOutcome = 'succeeded' | 'failed' | 'interrupted' | 'denied' | 'rejected' | 'expired'

/** Facts about a turn and what belongs to it; in the chain of its session. */
export type TurnChange =
  | { readonly type: 'session.created'; readonly session: Session }
  | { readonly type: 'turn.created'; readonly turn: Omit<TurnRow, 'spec'> }
  | { readonly type: 'turn.claimed'; readonly turn_id: string; readonly epoch: number; readonly worker: string; readonly at: number }
  | { readonly type: 'turn.parked'; readonly turn_id: string; readonly park: ParkReason; readonly wake_at: number | null; readonly inbox_seen: number }
  /** The worker gives the lease up, at shutdown or after a run that broke off; the status stays. */
  | { readonly type: 'turn.released'; readonly turn_id: string; readonly epoch: number }
  | {
      readonly type: 'turn.finished'
      readonly turn_id: string
      readonly status: TerminalStatus
      readonly reason: EndReason
      readonly detail: string | null
      readonly result: Content | null
      /** The finish holds only if nothing was posted since. */
      readonly inbox_seen: number
      readonly at: number
    }
  | { readonly type: 'message.appended'; readonly message: Message }
  | { readonly type: 'call.proposed'; readonly call: Call }
  | {
      readonly type: 'call.judged'
      readonly turn_id: string
      readonly call_id: string
      readonly from: CallStatus
      readonly to: 'allowed' | 'held' | 'denied'
      readonly reason: string | null
      readonly reasons: readonly Reason[]
      readonly function_digest: string | null
      readonly approval_id: string | null
      /** What the model is told, when denied. */
      readonly result: Content | null
      readonly at: number
    }
  | { readonly type: 'call.started'; readonly turn_id: string; readonly call_id: string; readonly from: CallStatus; readonly epoch: number; readonly attempts: number; readonly at: number }
  | { readonly type: 'call.settled'; readonly turn_id: string; readonly call_id: string; readonly from: CallStatus; readonly to: CallOutcome; readonly reason: string | null; readonly result: Content; readonly at: number }
  /** What came after the call had been given up: on record, without effect. */
  | { readonly type: 'call.late'; readonly turn_id: string; readonly call_id: string; readonly outcome: 'succeeded' | 'failed'; readonly result: Content; readonly at: number }
  | { readonly type: 'approval.opened'; readonly approval: Approval }
  | { readonly type: 'approval.decided'; readonly turn_id: string; readonly approval_id: string; readonly status: 'approved' | 'rejected'; readonly decided: SignedDecision }
  | { readonly type: 'approval.closed'; readonly turn_id: string; readonly approval_id: string; readonly status: 'expired' | 'cancelled'; readonly at: number }
  | { readonly type: 'inbox.posted'; readonly item: InboxItem }
  | { readonly type: 'inbox.folded'; readonly turn_id: string; readonly inbox_id: string; readonly seq: number; readonly kind: InboxItem['kind']; readonly principal: string; readonly fate: 'done' | 'moved' | 'refused' }

/** In the chain of the execution. */
export type ExecutionChange = { readonly type: 'execution.accepted'; readonly execution: Execution }

/** In the chain of the deployment. */
export type DeploymentChange =
  | { readonly type: 'deployment.opened'; readonly worker: string; readonly fingerprint: string; readonly version: string }
  | { readonly type: 'authority.loaded'; readonly worker: string; readonly fingerprint: string }
  | { readonly type: 'approver.failed'; readonly approver: string; readonly failures: number; readonly locked_until: number | null; readonly at: number }
  | { readonly type: 'approver.unlocked'; readonly approver: string; readonly at: number }
  | { readonly type: 'decision.refused'; readonly approval_id: string; readonly approver: string; readonly why: string }
  | { readonly type: 'tampering.found'; readonly object: string; readonly what: string }
  /** `replaces`: the seal of the row that stood there, null when there was none. */
  | { readonly type: 'function.registered'; readonly registration: RegistrationRow; readonly replaces: string | null }
  | { readonly type: 'function.unregistered'; readonly registration: RegistrationRow; readonly replaces: string }
  | { readonly type: 'await.opened'; readonly await: AwaitFacts; readonly seal: string; readonly callback: Content | null }
  /** The same await, to be called at another address from now on. */
  | { readonly type: 'await.readdressed'; readonly owner: string; readonly await_id: string; readonly callback: Content; readonly at: number }
  | AwaitClosed

export interface AwaitClosed {
  readonly type: 'await.closed'
  readonly owner: string
  readonly await_id: string
  readonly status: 'answered' | 'delivered' | 'orphaned' | 'cancelled'
  readonly outcome: AwaitOutcome | null
  readonly answered: string | null
  /** How often it was called. The end holds only if nobody called it since. */
  readonly attempts: number
  /** What it was told last, for people. */
  readonly answer: string | null
}

export type Change = TurnChange | ExecutionChange | DeploymentChange

/** A new turn's change. What was asked for is in `spec_content`; the record keeps its digest. */
export function turnCreated(row: TurnRow): TurnChange {
  const { spec: _, ...turn } = row
  return { type: 'turn.created', turn }
}

const requireTurnMove = (turn: Turn, to: Turn['status']): void => {
  if (!turnMoves[turn.status].includes(to)) {
    throw new HarnessError('invariant_broken', `Turn ${turn.turn_id} cannot go from ${turn.status} to ${to}.`)
  }
}

/** The turn after these changes; pure. Changes of other objects leave it as it is. Throws `invariant_broken` on an illegal move. */
export function applyChanges(turn: Turn, changes: readonly Change[]): Turn {
  return changes.reduce(applyChange, turn)
}

function applyChange(turn: Turn, change: Change): Turn {
  switch (change.type) {
    case 'turn.claimed':
      if (change.turn_id !== turn.turn_id) return turn
      requireTurnMove(turn, 'running')
      return { ...turn, status: 'running', park: null, wake_at: null, lease_epoch: change.epoch, claims: turn.claims + 1, started_at: turn.started_at ?? change.at }
    case 'turn.parked':
      requireTurnMove(turn, 'awaiting_functions')
      return { ...turn, status: 'awaiting_functions', park: change.park, wake_at: change.wake_at, inbox_seen: change.inbox_seen, claims: 0 }
    case 'turn.finished':
      requireTurnMove(turn, change.status)
      return { ...turn, status: change.status, reason: change.reason, detail: change.detail, result: change.result, finished_at: change.at, park: null, wake_at: null }
    case 'message.appended': {
      if (change.message.turn_id !== turn.turn_id) return turn
      const rounds = change.message.role === 'assistant' ? turn.rounds + 1 : turn.rounds
      return { ...turn, rounds, messages: [...turn.messages, change.message] }
    }
    case 'call.proposed':
      return { ...turn, calls: [...turn.calls, change.call] }
    case 'call.judged': {
      const { to, reason, reasons, function_digest, approval_id, result } = change
      return moveCall(turn, change, to, { reason, reasons, function_digest, approval_id, result, settled_at: to === 'denied' ? change.at : null })
    }
    case 'call.started':
      return moveCall(turn, change, 'started', { started_epoch: change.epoch, attempts: change.attempts, started_at: change.at })
    case 'call.settled':
      return moveCall(turn, change, change.to, { reason: change.reason, result: change.result, settled_at: change.at })
    case 'approval.opened':
      return { ...turn, approvals: [...turn.approvals, change.approval] }
    case 'approval.decided':
      return mapApproval(turn, change.approval_id, { status: change.status, decided: change.decided })
    case 'approval.closed':
      return mapApproval(turn, change.approval_id, { status: change.status })
    case 'inbox.posted':
      return change.item.turn_id === turn.turn_id ? { ...turn, inbox_posted: change.item.seq, inbox: [...turn.inbox, change.item] } : turn
    case 'inbox.folded': {
      const stop = change.kind === 'stop' && change.fate === 'done' && turn.stop === null ? { by: change.principal, seq: change.seq } : turn.stop
      return { ...turn, stop, inbox: turn.inbox.filter((item) => item.inbox_id !== change.inbox_id) }
    }
    case 'session.created':
    case 'turn.created':
    case 'turn.released':
    case 'call.late':
    case 'execution.accepted':
    case 'deployment.opened':
    case 'authority.loaded':
    case 'approver.failed':
    case 'approver.unlocked':
    case 'decision.refused':
    case 'tampering.found':
    case 'function.registered':
    case 'function.unregistered':
    case 'await.opened':
    case 'await.readdressed':
    case 'await.closed':
      return turn
    default:
      return unreachable(change)
  }
}

function moveCall(turn: Turn, change: { readonly call_id: string; readonly from: CallStatus }, to: CallStatus, facts: Partial<Call>): Turn {
  const call = turn.calls.find((candidate) => candidate.call_id === change.call_id)
  if (call === undefined || call.status !== change.from || !callMoves[call.status].includes(to)) {
    throw new HarnessError('invariant_broken', `Call ${change.call_id} cannot go from ${call?.status ?? 'nowhere'} (expected ${change.from}) to ${to}.`)
  }
  return { ...turn, calls: turn.calls.map((candidate) => (candidate === call ? { ...candidate, ...facts, status: to } : candidate)) }
}

function mapApproval(turn: Turn, approvalId: string, facts: Partial<Approval>): Turn {
  return { ...turn, approvals: turn.approvals.map((approval) => (approval.approval_id === approvalId ? { ...approval, ...facts } : approval)) }
}

/** The chain a change is recorded in: the session's for turns, the execution's own, the deployment's for the rest. */
export function chainOf(change: Change, sessionId: string | null): string {
  switch (change.type) {
    case 'execution.accepted':
      return `execution:${change.execution.execution_id}`
    case 'deployment.opened':
    case 'authority.loaded':
    case 'approver.failed':
    case 'approver.unlocked':
    case 'decision.refused':
    case 'tampering.found':
    case 'function.registered':
    case 'function.unregistered':
    case 'await.opened':
    case 'await.readdressed':
    case 'await.closed':
      return 'deployment'
    default:
      if (sessionId === null) throw new HarnessError('invariant_broken', `A change ${change.type} needs a session.`)
      return `session:${sessionId}`
  }
}
