/* What Await Turn and Approve put on which output, and that nothing but the harness's word makes an item Approved. */
import { askedBy, awaitIdOf, worksAgain, sortApprovals, sortTurns, timedOutApprovals, timedOutTurns, timeLeft, turnsForModel, type Awaited } from '../../nodes/shared/awaited'

type Turn = Awaited['turns'][number]
type Approval = Awaited['approvals'][number]

const approval = (over: Partial<Approval> = {}): Approval => ({
  approval_id: 'a_1', status: 'pending', session_id: 's_1', turn_id: 't_1', function_call_id: 'c_1', function_id: 'shop::refund', requested_by: 'local',
  approver_roles: ['approver'], created_at: 0, expires_at: 3_600_000, decided_by: null, decided_at: null, channel: null, responder: null, reason: null, arguments: { amount: 120 }, why: ['too much'],
  description: 'Refunds.', risk: 'medium', side_effects: 'write', approval_digest: 'd', is_current: true, how_to_decide: '', link_key: 'the-key', ...over,
})
const turn = (over: Partial<Turn> = {}): Turn => ({
  session_id: 's_1', turn_id: 't_1', execution_id: 'x_1', kind: 'agent', status: 'completed', state: 'completed', reason: 'completed', detail: null, step: 1, turn_count: 1,
  max_turns: 16, depth: 0, children: [], pending_function_calls: [], calls: [], approvals: [], result: 'done', question: null, worker: '', ...over,
})
const held = (over: Partial<Turn> = {}): Turn => turn({ status: 'awaiting_functions', state: 'held', reason: null, approvals: [approval()], ...over })
const awaited = (turns: Turn[], approvals: Approval[] = [], status: Awaited['status'] = 'done'): Awaited => ({ await_id: 'x'.repeat(64), status, deadline: null, turns, approvals })
const facts = { linkOf: ({ approval_id, link_key }: { approval_id: string; link_key: string | null }) => link_key && `https://n8n/${approval_id}?key=${link_key}`, now: 0 }
const counts = (outputs: unknown[][]): number[] => outputs.map((items) => items.length)

describe('await ids', () => {
  const parts = { kind: 'turns' as const, execution: '7', node: 'n', run: 0, ids: ['t_1'] }

  it('[n8n.await-id] the same wait has the same id, and any other wait another one', () => {
    expect(awaitIdOf(parts)).toBe(awaitIdOf({ ...parts }))
    expect(awaitIdOf(parts)).toMatch(/^[0-9a-f]{64}$/)
    const others = [{ kind: 'approvals' as const }, { execution: '8' }, { node: 'm' }, { run: 1 }, { ids: ['t_2'] }, { ids: ['t_1', 't_2'] }]
    expect(new Set([parts, ...others.map((other) => ({ ...parts, ...other }))].map(awaitIdOf)).size).toBe(others.length + 1)
  })

  it('items that ask for the same are asked for once and stay paired with all of them', () => {
    expect(askedBy(['t_1', 't_2', 't_1'])).toEqual([{ id: 't_1', items: [0, 2] }, { id: 't_2', items: [1] }])
  })
})

describe('Await Turn', () => {
  it('[n8n.await-outputs] each turn leaves once, through the output it belongs to', () => {
    const turns = [turn(), held({ turn_id: 't_2' }), turn({ turn_id: 't_3', state: 'failed' }), turn({ turn_id: 't_4', state: 'cancelled' }), turn({ turn_id: 't_5', state: 'working' })]
    const outputs = sortTurns(awaited(turns, [approval({ turn_id: 't_2' })]), askedBy(['t_1', 't_2', 't_3', 't_4', 't_5']), facts)
    expect(outputs.map((items) => items.map(({ json, pairedItem }) => [json['turn_id'], json['state'], pairedItem]))).toEqual([
      [['t_1', 'completed', [{ item: 0 }]]],
      [['t_2', 'held', [{ item: 1 }]]],
      [['t_3', 'failed', [{ item: 2 }]], ['t_4', 'cancelled', [{ item: 3 }]], ['t_5', 'working', [{ item: 4 }]]],
    ])
  })

  it('a held turn gives one item for each open approval, with exact arguments and the link', () => {
    const two = [approval(), approval({ approval_id: 'a_2', arguments: { amount: 7 } })]
    const [, needs] = sortTurns(awaited([held({ approvals: two })], two), askedBy(['t_1']), facts)
    expect(needs.map(({ json }) => json['approval'])).toEqual([
      expect.objectContaining({ approval_id: 'a_1', arguments: { amount: 120 }, arguments_text: '{"amount":120}', time_left: '1 h 0 min', url: 'https://n8n/a_1?key=the-key' }),
      expect.objectContaining({ approval_id: 'a_2', arguments: { amount: 7 }, url: 'https://n8n/a_2?key=the-key' }),
    ])
  })

  it('[n8n.await-timeout] a turn that timed out leaves through Not Done; one that ended meanwhile is what it is', () => {
    const outputs = sortTurns(awaited([held(), turn({ turn_id: 't_2' })], [approval()], 'timed_out'), askedBy(['t_1', 't_2']), facts)
    expect(counts(outputs)).toEqual([1, 0, 1])
    expect(outputs[2][0]?.json).toMatchObject({ turn_id: 't_1', timed_out: true })
    expect(timedOutTurns(awaited([held()]), askedBy(['t_1']))[0]?.json).toMatchObject({ turn_id: 't_1', timed_out: true })
  })

  it('[n8n.tool-no-link] what a model reads holds no key and no link', () => {
    const [items] = turnsForModel(awaited([held(), turn({ turn_id: 't_2' })], [approval()]), askedBy(['t_1', 't_2']))
    expect(items).toHaveLength(2)
    expect(JSON.stringify(items)).not.toMatch(/the-key|url|link/)
  })

  it('the facts of a turn hold the key nowhere but in approval.url', () => {
    const [, [item]] = sortTurns(awaited([held()], [approval()]), askedBy(['t_1']), facts)
    const { approval: shown, ...rest } = item!.json
    expect(JSON.stringify(rest)).not.toContain('the-key')
    expect(Object.entries(shown as object).flatMap(([name, value]) => (JSON.stringify(value).includes('the-key') ? [name] : []))).toEqual(['url'])
  })

  it('a held turn whose decision is in is not news yet', () => {
    expect(worksAgain(awaited([held({ approvals: [approval({ status: 'approved' })] })]))).toBe(true)
    expect(worksAgain(awaited([held(), turn({ turn_id: 't_2' })], [approval()]))).toBe(false)
  })
})

describe('Approve', () => {
  const asked = askedBy(['a_1'])
  const given = [{ json: { harness_execution_id: 'x_1' } }]

  it('[n8n.approve-closed] nothing but the status approved leaves through Approved', () => {
    const ends = { approved: [1, 0, 0], rejected: [0, 1, 0], cancelled: [0, 1, 0], expired: [0, 0, 1], pending: [0, 0, 1] } as const
    for (const [status, expected] of Object.entries(ends)) {
      const outputs = sortApprovals(awaited([], [approval({ status: status as Approval['status'] })], 'timed_out'), asked, given)
      expect([status, ...counts(outputs)]).toEqual([status, ...expected])
    }
  })

  it('[n8n.approve-timeout] what is stamped for a wait that nobody ends says expired, also for what is already approved', () => {
    const [item] = timedOutApprovals(awaited([], [approval({ status: 'approved' })]), asked, given)
    expect(item?.json).toMatchObject({ decision: 'expired', approval_id: 'a_1', turn_id: 't_1', harness_execution_id: 'x_1' })
  })

  it('the item says who decided and leads back to Await Turn, and holds no key', () => {
    const [[item]] = sortApprovals(awaited([], [approval({ status: 'approved', decided_by: 'olga', decided_at: 0 })]), asked, given)
    expect(item).toMatchObject({ json: { decision: 'approved', decided_by: 'olga', decided_at: '1970-01-01T00:00:00.000Z', turn_id: 't_1' }, pairedItem: [{ item: 0 }] })
    expect(JSON.stringify(item)).not.toContain('the-key')
  })
})

it('time left is told in words', () => {
  expect([-1, 59_000, 90_000, 7_260_000, 4 * 86_400_000].map(timeLeft)).toEqual(['0 min', '0 min', '1 min', '2 h 1 min', '4 days'])
})
