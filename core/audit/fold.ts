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

/** Statuses, reasons, epochs, digests and ids of texts; the columns of the same names. */
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
    return Array.isArray(value) && value.every(hasType) ? (value as RecordedChange[]) : null
  } catch {
    return null
  }
}

function hasType(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
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
  if (object?.kind !== kind) {
    return [{ kind: 'state_unrecorded', id, text: `The ${kind} ${id} is in the database, but not on record: its row was made by hand.` }]
  }
  return Object.keys(object.facts).flatMap((name): Difference[] => {
    const [recorded, found] = [object.facts[name] ?? null, row.facts[name] ?? null]
    if (recorded === found) return []
    return [{ kind: 'state_differs', id, text: `The ${kind} ${id} has ${name} ${shown(found)}; the record says ${shown(recorded)}.` }]
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

  switch (change.type) {
    case 'session.created':
      return make('session', change.session.session_id, { owner: change.session.owner, title: idOf(change.session.title) })
    case 'turn.created':
      return make('turn', change.turn.turn_id, {
        status: change.turn.status, reason: null, spec: idOf(change.turn.spec_content), result: null, lease_epoch: '0',
      })
    case 'turn.claimed':
      return move('turn', change.turn_id, ({ status, lease_epoch }) => isUnfinished(status) && Number(lease_epoch) === change.epoch - 1, {
        status: 'running', lease_epoch: String(change.epoch),
      })
    case 'turn.parked':
      return move('turn', change.turn_id, isRunning, { status: 'awaiting_functions' })
    case 'turn.released':
      return move('turn', change.turn_id, () => true, {})
    case 'turn.finished':
      return move('turn', change.turn_id, isRunning, { status: change.status, reason: change.reason, result: idOf(change.result) })
    case 'message.appended':
      return make('message', change.message.message_id, { content: idOf(change.message.content) })
    case 'call.proposed': {
      const { call } = change
      return make('call', call.call_id, {
        status: call.status, reason: null, function_digest: null, approval_id: null, arguments: idOf(call.arguments), started_epoch: null,
        result: null, late_result: null,
      })
    }
    case 'call.judged': {
      const { reason, function_digest, approval_id, result } = change
      return moveCall(change, change.to, { reason, function_digest, approval_id, result: idOf(result) })
    }
    case 'call.started':
      return moveCall(change, 'started', { started_epoch: String(change.epoch) })
    case 'call.settled':
      return moveCall(change, change.to, { reason: change.reason, result: idOf(change.result) })
    case 'call.late':
      return move('call', change.call_id, isOutcomeUnknown, { late_result: idOf(change.result) })
    case 'approval.opened': {
      const { approval_id, status, function_digest, approval_digest, decided } = change.approval
      return make('approval', approval_id, { status, function_digest, approval_digest, ...decidedFacts(decided) })
    }
    case 'approval.decided':
      return move('approval', change.approval_id, isPending, { status: change.status, ...decidedFacts(change.decided) })
    case 'approval.closed':
      return move('approval', change.approval_id, isPending, { status: change.status })
    case 'inbox.posted': {
      const { item } = change
      return make('inbox', item.inbox_id, { fate: null, content: item.kind === 'message' ? idOf(item.content) : null })
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
    case 'function.registered':
    case 'function.unregistered':
    case 'await.opened':
    case 'await.readdressed':
    case 'await.closed':
      return null
    default:
      return `There is no change ${JSON.stringify((change as { readonly type: string }).type)}.`
  }
}

const isRunning = (facts: Facts): boolean => facts['status'] === 'running'
const isPending = (facts: Facts): boolean => facts['status'] === 'pending'
/** Given up, or about to be by the next worker. */
const isOutcomeUnknown = ({ status, late_result }: Facts): boolean => (status === 'interrupted' || status === 'started') && late_result === null

const idOf = (text: TextRef | null): string | null => text?.content_id ?? null

function decidedFacts(decided: { readonly approver: string } | null): Facts {
  return { decided: decidedFact(decided), decided_by: decided?.approver ?? null }
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
