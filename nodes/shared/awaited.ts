/*
 * PURE. What Await Turn and Approve make of what the harness answers: ids that are the same when n8n asks again, and items sorted into
 * outputs. A key of an approval's link goes into an item for people only, never into what a model reads; and nothing is Approved but
 * what the harness says is.
 */
import { createHash } from 'node:crypto'
import type { IDataObject, INodeExecutionData } from 'n8n-workflow'
import type { OutputOf, TurnView } from '../../core/index'

export type Awaited = OutputOf<'await'>
type Approval = Awaited['approvals'][number]

/** The items of a node by what they ask for; several items may ask for the same. */
export interface Asked {
  readonly id: string
  readonly items: readonly number[]
}

export function askedBy(ids: readonly string[]): Asked[] {
  const places = new Map<string, number[]>()
  ids.forEach((id, item) => places.set(id, [...(places.get(id) ?? []), item]))
  return [...places].map(([id, items]) => ({ id, items }))
}

/** The same wait of the same run has the same id, whenever and how often n8n asks. */
export function awaitIdOf(parts: { kind: 'turns' | 'approvals'; execution: string; node: string; run: number; ids: readonly string[] }): string {
  const { kind, execution, node, run, ids } = parts
  return createHash('sha256').update(JSON.stringify([kind, execution, node, run, ids])).digest('hex')
}

/** Null where this credential has no right to decide: then a person decides elsewhere. */
export type LinkOf = (approval: { approval_id: string; link_key: string | null }) => string | null

/** Done, Needs Approval, Not Done. */
export type TurnOutputs = [INodeExecutionData[], INodeExecutionData[], INodeExecutionData[]]

const over = new Set<TurnView['state']>(['completed', 'failed', 'cancelled'])

const openOnes = (awaited: Awaited, turn: TurnView): Approval[] => awaited.approvals.filter((one) => one.turn_id === turn.turn_id && one.status === 'pending')

/** Done once, yet a turn works again: a decision came in before the news of the question was taken. Soon there is other news. */
export function worksAgain(awaited: Awaited): boolean {
  return awaited.status === 'done' && awaited.turns.some((turn) => turn.state === 'working' || (turn.state === 'held' && openOnes(awaited, turn).length === 0))
}

/** One item for each turn, for a held one one for each open approval, each to the output it belongs to. */
export function sortTurns(awaited: Awaited, asked: readonly Asked[], facts: { linkOf: LinkOf; now: number }): TurnOutputs {
  const outputs: TurnOutputs = [[], [], []]
  const timedOut = awaited.status === 'timed_out'
  for (const turn of awaited.turns) {
    const pairedItem = pairedWith(asked, turn.turn_id)
    const base = { ...turnFacts(turn), timed_out: timedOut && !over.has(turn.state) }
    const open = openOnes(awaited, turn)
    if (turn.state === 'completed') outputs[0].push({ json: base, pairedItem })
    else if (turn.state === 'held' && open.length > 0 && !timedOut) {
      for (const approval of open) outputs[1].push({ json: { ...base, approval: { ...approvalFacts(approval, facts.now), url: facts.linkOf(approval) } }, pairedItem })
    } else outputs[2].push({ json: base, pairedItem })
  }
  return outputs
}

/** For a model: all turns on one output, and no way to an approval in them. */
export function turnsForModel(awaited: Awaited, asked: readonly Asked[]): [INodeExecutionData[]] {
  return [awaited.turns.map((turn) => ({
    json: { ...turnFacts(turn), timed_out: awaited.status === 'timed_out' && !over.has(turn.state) }, pairedItem: pairedWith(asked, turn.turn_id),
  }))]
}

/** What n8n lets out if nobody ever calls back: the turns as they were last seen, marked as timed out. */
export function timedOutTurns(awaited: Awaited, asked: readonly Asked[]): INodeExecutionData[] {
  return awaited.turns.map((turn) => ({ json: { ...turnFacts(turn), timed_out: true }, pairedItem: pairedWith(asked, turn.turn_id) }))
}

/** Approved, Rejected, Timed Out. */
export type ApprovalOutputs = [INodeExecutionData[], INodeExecutionData[], INodeExecutionData[]]

/** Closed in its default: what is not approved in so many words is not approved. Whose turn was stopped meanwhile counts as rejected. */
export function sortApprovals(awaited: Awaited, asked: readonly Asked[], given: readonly INodeExecutionData[]): ApprovalOutputs {
  const outputs: ApprovalOutputs = [[], [], []]
  for (const approval of awaited.approvals) {
    const { status } = approval
    const output = status === 'approved' ? 0 : status === 'expired' || status === 'pending' ? 2 : 1
    outputs[output].push(decidedItem(approval, status === 'pending' ? 'expired' : status, { asked, given }))
  }
  return outputs
}

/** What n8n lets out of Timed Out if nobody ever calls back. */
export function timedOutApprovals(awaited: Awaited, asked: readonly Asked[], given: readonly INodeExecutionData[]): INodeExecutionData[] {
  return awaited.approvals.map((approval) => decidedItem(approval, 'expired', { asked, given }))
}

function decidedItem(approval: Approval, decision: string, from: { asked: readonly Asked[]; given: readonly INodeExecutionData[] }): INodeExecutionData {
  const paired = pairedWith(from.asked, approval.approval_id)
  const first = from.given[paired[0]?.item ?? 0]?.json['harness_execution_id']
  return {
    json: {
      decision,
      approval_id: approval.approval_id,
      function_id: approval.function_id,
      ...argumentFacts(approval),
      decided_by: approval.decided_by,
      responder: approval.responder,
      channel: approval.channel,
      decided_at: approval.decided_at === null ? null : new Date(approval.decided_at).toISOString(),
      reason: approval.reason,
      harness_execution_id: typeof first === 'string' ? first : null,
      session_id: approval.session_id,
      turn_id: approval.turn_id,
    },
    pairedItem: paired,
  }
}

/** What became of the last approval of the turn that is over; null when nobody was asked. */
function lastDecision({ approvals }: TurnView): string | null {
  return approvals.filter(({ status }) => status !== 'pending').at(-1)?.status ?? null
}

export function turnFacts(turn: TurnView): IDataObject {
  return {
    harness_execution_id: turn.execution_id,
    session_id: turn.session_id,
    turn_id: turn.turn_id,
    state: turn.state,
    reason: turn.reason,
    detail: turn.detail,
    result: turn.result ?? null,
    question: turn.question,
    decision: lastDecision(turn),
    calls: turn.calls.map(({ function_call_id, function_id, status, reason }) => ({ function_call_id, function_id, status, reason })),
  }
}

function approvalFacts(approval: Approval, now: number): IDataObject {
  return {
    approval_id: approval.approval_id,
    function_id: approval.function_id,
    description: approval.description,
    ...argumentFacts(approval),
    why: [...approval.why],
    risk: approval.risk,
    who_may_decide: [...approval.approver_roles],
    requested_by: approval.requested_by,
    expires_at: new Date(approval.expires_at).toISOString(),
    time_left: timeLeft(approval.expires_at - now),
  }
}

/** Twice, since n8n lets no expression read a field of the name `arguments`. */
function argumentFacts({ arguments: exact }: Approval): IDataObject {
  return { arguments: exact, arguments_text: JSON.stringify(exact) }
}

/** In words, cut off to what people care for: `23 h 59 min`. */
export function timeLeft(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000))
  const hours = Math.floor(minutes / 60)
  const days = Math.floor(hours / 24)
  if (days >= 3) return `${days} days`
  return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`
}

const pairedWith = (asked: readonly Asked[], id: string): Array<{ item: number }> => (asked.find((one) => one.id === id)?.items ?? [0]).map((item) => ({ item }))
