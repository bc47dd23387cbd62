/* Folding the record gives what the rows must be, and tells what cannot have happened. */
import { auditText } from '../../core/audit/chain'
import { differences, foldRow, parseChanges, statusesOf, type FoldedObject, type FoldState, type RecordedChange } from '../../core/audit/fold'
import { commitsOf, type Recorded } from '../support/record'

/** The record of one turn: what each of its rows in the session's chain holds. */
function recorded(): { readonly rows: readonly (readonly RecordedChange[])[]; readonly turn: Recorded } {
  const rows: (readonly RecordedChange[])[] = []
  const commits = commitsOf()
  for (;;) {
    const next = commits.next()
    if (next.done === true) return { rows, turn: next.value }
    rows.push(parseChanges(auditText(next.value.changes.filter(({ type }) => type !== 'execution.accepted')))!)
  }
}

function folded(rows: readonly (readonly RecordedChange[])[]): { readonly state: FoldState; readonly complaints: readonly string[] } {
  const state: FoldState = new Map()
  return { state, complaints: rows.flatMap((row) => foldRow(state, row)) }
}

const statusOf = (state: FoldState, id: string): string | null | undefined => Object.fromEntries(statusesOf(state))[id]

it('[audit.folds-to-rows] the record of a turn folds to its status and those of its calls and approvals, after each row', () => {
  const { rows, turn } = recorded()
  const seen = rows.map((_, index) => {
    const { state, complaints } = folded(rows.slice(0, index + 1))
    expect(complaints).toEqual([])
    return [turn.turn_id, turn.call_id, turn.approval_id].map((id) => statusOf(state, id))
  })
  expect(seen).toEqual([
    ['queued', undefined, undefined],
    ['running', undefined, undefined],
    ['running', undefined, undefined],
    ['awaiting_functions', 'held', 'pending'],
    ['awaiting_functions', 'held', 'approved'],
    ['running', 'held', 'approved'],
    ['running', 'started', 'approved'],
    ['completed', 'succeeded', 'approved'],
  ])
})

it('[audit.folds-to-rows] it folds to the digests and texts too', () => {
  const { rows, turn } = recorded()
  const { state } = folded(rows)
  const { approval_id, result } = turn
  const facts = { function_digest: 'f'.repeat(64), started_epoch: '2', approval_id, arguments: turn.arguments, result }
  expect(state.get(turn.call_id)?.facts).toMatchObject(facts)
  expect(state.get(turn.approval_id)?.facts).toMatchObject({ approval_digest: 'd'.repeat(64), decided_by: 'ann' })
  expect(state.get(turn.session_id)?.facts).toMatchObject({ owner: 'user:ann' })
  const messages = [...state.values()].filter(({ kind }) => kind === 'message')
  expect(messages.map(({ facts }) => facts['content'])).toContain(turn.question)
})

it('[audit.texts-by-digest] the record holds no text, only its digest', () => {
  for (const { changes } of commitsOf()) {
    expect(auditText(changes)).not.toMatch(/blue|chairs|I order|salt|"ok"/)
  }
})

it('rows taken out, put in twice or in another order do not fold without complaint', () => {
  const { rows } = recorded()
  const places = [...rows.keys()].slice(0, -1)
  const told = (change: (index: number) => (typeof rows)[number][]): number[] => places.filter((index) => folded(change(index)).complaints.length > 0)
  // nothing follows from a message that was delivered: that it is gone shows in the rows alone
  expect(told((index) => rows.toSpliced(index, 1))).toEqual(places.filter((index) => index !== 2))
  expect(told((index) => rows.toSpliced(index, 0, rows[index]!))).toEqual(places)
  // only neighbours of which one builds on the other: begun and claimed, held and decided, started and finished
  expect(told((index) => rows.with(index, rows[index + 1]!).with(index + 1, rows[index]!))).toEqual([0, 3, 6])
})

describe('a change that cannot follow is told', () => {
  const { rows, turn } = recorded()
  const call = { turn_id: turn.turn_id, call_id: turn.call_id, at: 1 }
  const result = { content_id: 'k_1', digest: 'd' }
  it.each<[string, number, unknown]>([
    ['a session created twice', 2, rows[0]![0]],
    ['a call that is judged from another status', 4, { type: 'call.judged', ...call, from: 'proposed', to: 'allowed' }],
    ['a call that starts while it is held', 4, { type: 'call.started', ...call, from: 'held', epoch: 1 }],
    ['a call that moves after its end', 8, { type: 'call.settled', ...call, from: 'succeeded', to: 'failed', result }],
    ['a call that nobody proposed', 4, { type: 'call.started', ...call, call_id: 'c_none', from: 'allowed' }],
    ['a late outcome of a call that was not cut', 8, { type: 'call.late', ...call, outcome: 'succeeded', result }],
    ['a second decision', 5, { type: 'approval.closed', turn_id: turn.turn_id, approval_id: turn.approval_id, status: 'expired', at: 1 }],
    ['a turn that is claimed after its end', 8, { type: 'turn.claimed', turn_id: turn.turn_id, epoch: 3, worker: 'w', at: 1 }],
    ['a claim that leaves an epoch out', 2, { type: 'turn.claimed', turn_id: turn.turn_id, epoch: 3, worker: 'w', at: 1 }],
    ['a turn that parks while it is parked', 4, { type: 'turn.parked', turn_id: turn.turn_id, park: 'approval', wake_at: null, inbox_seen: 0 }],
    ['an id of another kind', 4, { type: 'turn.released', turn_id: turn.call_id, epoch: 1 }],
    ['a change of no known type', 4, { type: 'call.blessed', ...call }],
    ['a move that only looks like one', 4, { type: 'call.started', ...call, from: '__proto__' }],
  ])('%s', (_what, after, change) => {
    const { state } = folded(rows.slice(0, after))
    expect(foldRow(state, [change as RecordedChange])).toHaveLength(1)
  })
})

it('awaits are on record, and are no part of what a session folds to', () => {
  const state: FoldState = new Map()
  const changes = [
    { type: 'await.opened', await: { await_id: 'w' }, seal: 's', callback: null }, { type: 'await.readdressed', await_id: 'w' }, { type: 'await.closed', await_id: 'w' },
  ]
  expect(foldRow(state, changes as never)).toEqual([])
  expect(state.size).toBe(0)
})

it('what is no list of changes is no record', () => {
  const texts = ['', '{', '{}', 'null', '"text"', '[1]', '[null]', '[{}]', '[{"type":1}]', '['.repeat(100_000)]
  expect(texts.map(parseChanges)).toEqual(texts.map(() => null))
  expect(parseChanges('[{"type":"turn.released"}]')).toHaveLength(1)
})

describe('rows beside the fold', () => {
  const objects: readonly FoldedObject[] = [
    { kind: 'turn', id: 't_1', facts: { status: 'running', reason: null } },
    { kind: 'call', id: 'c_1', facts: { status: 'held', reason: 'policy' } },
  ]
  const state = new Map(objects.map((object) => [object.id, object]))

  it('equal rows differ in nothing, in any order', () => {
    expect(differences(state, [...objects].reverse())).toEqual([])
  })

  const [turn, call] = objects as [FoldedObject, FoldedObject]
  const differs = { kind: 'state_differs', id: 'c_1' }
  const byHand = { kind: 'state_unrecorded', text: expect.stringContaining('by hand') }
  it.each<[string, readonly FoldedObject[], unknown]>([
    ['another status', [turn, { ...call, facts: { status: 'allowed', reason: 'policy' } }], {
      ...differs, text: 'The call c_1 has status allowed; the record says held.',
    }],
    ['a column emptied', [turn, { ...call, facts: { status: 'held' } }], {
      ...differs, text: 'The call c_1 has reason none; the record says policy.',
    }],
    ['a row gone', [turn], { kind: 'state_removed', id: 'c_1', text: expect.stringContaining('gone') }],
    ['a row more', [...objects, { kind: 'call', id: 'c_2', facts: {} }], { ...byHand, id: 'c_2' }],
    ['a row of another kind', [turn, { ...call, kind: 'approval' }], { ...byHand, id: 'c_1' }],
  ])('%s is told', (_what, rows, difference) => {
    expect(differences(state, rows)).toEqual([difference])
  })
})
