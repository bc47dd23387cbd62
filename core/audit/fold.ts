/*
 * The record of one session, folded: what each of its objects must look like now. It is what verify compares with the rows, and the
 * proof that the record is whole. Pure and total for what `parseChanges` lets through; it throws on members of a wrong type.
 */
import { canonical } from '../digest'
import { callMoves } from '../turn/call'
import type { Change } from '../turn/changes'
import type { Content } from '../turn/content'
import { isTerminal, turnStatuses } from '../turn/turn'

/** A text as the record keeps it. */
export type TextRef = Pick<Content, 'content_id' | 'digest'>

/** A value as the record keeps it: each text by id and digest. */
export type Recorded<T> = T extends Content
  ? TextRef
  : T extends readonly (infer Item)[]
    ? readonly Recorded<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Recorded<T[Key]> }
      : T

export type RecordedChange = Recorded<Change>

export type ObjectKind = 'session' | 'turn' | 'call' | 'approval' | 'message' | 'inbox'

/** Statuses, reasons, digests and ids of texts; the columns of the same names. */
export type Facts = Readonly<Record<string, string | null>>

export interface FoldedObject {
  readonly kind: ObjectKind
  readonly id: string
  readonly facts: Facts
}

/** Objects by id. */
export type FoldState = Map<string, FoldedObject>

/** The changes of an audit row; null when its text is no list of changes. */
export function parseChanges(text: string): readonly RecordedChange[] | null {
  try {
    const value: unknown = JSON.parse(text)
    const whole = Array.isArray(value) && value.every((item) => typeof item === 'object' && item !== null && 'type' in item && typeof item.type === 'string')
    return whole ? (value as RecordedChange[]) : null
  } catch {
    return null
  }
}

/** Moves `state` by the changes of one row. Answers, for each change that cannot follow what came before, a sentence that says so. */
export function foldRow(state: FoldState, changes: readonly RecordedChange[]): readonly string[] {
  return changes.flatMap((change) => foldChange(state, change) ?? [])
}

/** The folded status of every turn, call and approval. */
export function* statusesOf(state: FoldState): Iterable<readonly [id: string, status: string | null]> {
  for (const { kind, id, facts } of state.values()) {
    if (kind === 'turn' || kind === 'call' || kind === 'approval') yield [id, facts['status'] ?? null]
  }
}

export interface Difference {
  readonly kind: 'state_differs' | 'state_removed' | 'state_unrecorded'
  readonly id: string
  readonly text: string
}

/** Where the rows are not what the record folds to. */
export function differences(state: FoldState, rows: readonly FoldedObject[]): readonly Difference[] {
  const seen = new Set(rows.map((row) => row.id))
  const removed = [...state.values()].filter((object) => !seen.has(object.id))
  return [
    ...rows.flatMap((row) => differencesOf(state.get(row.id), row)),
    ...removed.map(({ kind, id }) => ({ kind: 'state_removed' as const, id, text: `The ${kind} ${id} is on record, but its row is gone.` })),
  ]
}

function differencesOf(object: FoldedObject | undefined, row: FoldedObject): Difference[] {
  const { kind, id } = row
  if (object?.kind !== kind) return [{ kind: 'state_unrecorded', id, text: `The ${kind} ${id} is in the database, but not on record: its row was made by hand.` }]
  return Object.keys(object.facts).flatMap((name): Difference[] => {
    const [recorded, found] = [object.facts[name] ?? null, row.facts[name] ?? null]
    return recorded === found ? [] : [{ kind: 'state_differs', id, text: `The ${kind} ${id} has ${name} ${shown(found)}; the record says ${shown(recorded)}.` }]
  })
}

const shown = (fact: string | null): string => (fact === null ? 'none' : fact.length > 80 ? `${fact.slice(0, 80)}…` : fact)

function foldChange(state: FoldState, change: RecordedChange): string | null {
  const make = (kind: ObjectKind, id: string, facts: Facts): string | null => {
    if (state.has(id)) return `The ${kind} ${id} comes into being twice.`
    state.set(id, { kind, id, facts })
    return null
  }
  /** `isLegal` judges the facts it starts from, as the store's guard did. */
  const move = (kind: ObjectKind, id: string, isLegal: (facts: Facts) => boolean, facts: Facts): string | null => {
    const object = state.get(id)
    if (object?.kind !== kind) return `The ${kind} ${id} changes (${change.type}), but is not on record before.`
    state.set(id, { kind, id, facts: { ...object.facts, ...facts } })
    return isLegal(object.facts) ? null : `The ${kind} ${id} changes (${change.type}) from a state that does not allow it.`
  }
  const moveCall = (moved: { readonly call_id: string; readonly from: string }, to: string, facts: Facts): string | null =>
    move('call', moved.call_id, ({ status }) => status === moved.from && isCallMove(moved.from, to), { status: to, ...facts })
  const isRunning = (facts: Facts): boolean => facts['status'] === 'running'
  const isPending = (facts: Facts): boolean => facts['status'] === 'pending'

  switch (change.type) {
    case 'session.created':
      return make('session', change.session.session_id, { owner: change.session.owner, title: change.session.title?.content_id ?? null })
    case 'turn.created':
      return make('turn', change.turn.turn_id, { status: change.turn.status, reason: null, spec: change.turn.spec_content.content_id, result: null })
    case 'turn.claimed':
      return move('turn', change.turn_id, ({ status }) => isUnfinished(status), { status: 'running' })
    case 'turn.parked':
      return move('turn', change.turn_id, isRunning, { status: 'awaiting_functions' })
    case 'turn.released':
      return move('turn', change.turn_id, () => true, {})
    case 'turn.finished':
      return move('turn', change.turn_id, isRunning, { status: change.status, reason: change.reason, result: change.result?.content_id ?? null })
    case 'message.appended':
      return make('message', change.message.message_id, { content: change.message.content.content_id })
    case 'call.proposed': {
      const { call } = change
      const facts = { status: call.status, reason: null, function_digest: null, approval_id: null, arguments: call.arguments.content_id, result: null, late_result: null }
      return make('call', call.call_id, facts)
    }
    case 'call.judged': {
      const { reason, function_digest, approval_id, result } = change
      return moveCall(change, change.to, { reason, function_digest, approval_id, result: result?.content_id ?? null })
    }
    case 'call.started':
      return moveCall(change, 'started', {})
    case 'call.settled':
      return moveCall(change, change.to, { reason: change.reason, result: change.result.content_id })
    case 'call.late':
      return move('call', change.call_id, ({ status, late_result }) => (status === 'interrupted' || status === 'started') && late_result === null, { late_result: change.result.content_id })
    case 'approval.opened': {
      const { approval } = change
      const { status, function_digest, approval_digest } = approval
      return make('approval', approval.approval_id, { status, function_digest, approval_digest, decided: decidedFact(approval.decided), decided_by: approval.decided?.approver ?? null })
    }
    case 'approval.decided':
      return move('approval', change.approval_id, isPending, { status: change.status, decided: decidedFact(change.decided), decided_by: change.decided.approver })
    case 'approval.closed':
      return move('approval', change.approval_id, isPending, { status: change.status })
    case 'inbox.posted': {
      const { item } = change
      return make('inbox', item.inbox_id, { fate: null, content: item.kind === 'message' ? item.content.content_id : null })
    }
    case 'inbox.folded':
      return move('inbox', change.inbox_id, ({ fate }) => fate === null, { fate: change.fate })
    case 'execution.accepted':
    case 'deployment.opened':
    case 'authority.loaded':
    case 'approver.failed':
    case 'approver.unlocked':
    case 'decision.refused':
    case 'tampering.found':
      return null
    default:
      return `There is no change ${JSON.stringify((change as { readonly type: string }).type)}.`
  }
}

/** Canonical, so that it does not matter how a row spells it. */
export function decidedFact(decided: unknown): string | null {
  return decided === null || decided === undefined ? null : canonical(decided)
}

function isUnfinished(status: string | null | undefined): boolean {
  const known = turnStatuses.find((candidate) => candidate === status)
  return known !== undefined && !isTerminal(known)
}

function isCallMove(from: string, to: string): boolean {
  return Object.entries(callMoves).some(([status, next]) => status === from && next.some((candidate) => candidate === to))
}
