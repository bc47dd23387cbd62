/* What people are told of a turn, beside the seed's word for the same. */
import { stateOf, turnView } from '../../core/harness-views'
import { states } from '../../core/protocol/operations'
import { isTerminal, turnStatuses, type TurnRow } from '../../core/turn/turn'
import { aCall, anApproval, aTurn, content } from './turn-fixtures'

const view = (turn: Partial<TurnRow>): ReturnType<typeof turnView> => turnView(aTurn(turn), { calls: [], approvals: [], worker: 'w' })
const parked = { status: 'awaiting_functions', park: 'approval', inbox_posted: 1, inbox_seen: 1 } as const

it('[words.working] queued, running, and parked with something to look at, are working', () => {
  for (const turn of [{ status: 'queued' }, { status: 'running' }, { ...parked, inbox_posted: 2 }, { ...parked, park: null }] as const) {
    expect(stateOf(aTurn(turn))).toBe('working')
  }
})

it('[words.held] parked for a person, and nothing to look at, is held', () => {
  expect(stateOf(aTurn(parked))).toBe('held')
  expect(stateOf(aTurn({ status: 'waiting_approval' }))).toBe('held')
})

it('[words.ended] a turn that is over is shown by its end, with the reason and what there is to say beside it', () => {
  for (const status of turnStatuses.filter(isTerminal)) expect(stateOf(aTurn({ status }))).toBe(status)
  const failed = view({ status: 'failed', reason: 'max_turns', detail: 'Used up.', finished_at: 9 })
  expect(failed).toMatchObject({ state: 'failed', reason: 'max_turns', detail: 'Used up.', result_error: 'Used up.' })
  expect(
    view({ status: 'cancelled', reason: 'stopped', detail: 'Stopped by local.', finished_at: 9 })
  ).toMatchObject({ state: 'cancelled', reason: 'stopped' })
  const done = view({ status: 'completed', reason: 'done', finished_at: 9, result: content('"Hello."') })
  expect(done).toMatchObject({ state: 'completed', reason: 'done', result: 'Hello.' })
  expect(done).not.toHaveProperty('result_error')
})

it('every status has one word for people and one of the seed', () => {
  const seed = ['running', 'awaiting_functions', 'completed', 'cancelled', 'failed']
  for (const status of turnStatuses) {
    expect(states).toContain(stateOf(aTurn({ status })))
    expect(seed).toContain(view({ status }).status)
  }
})

it('calls that are not settled are named as pending, and a question is shown without what it would do', () => {
  const calls = [aCall('succeeded', { result: content('{"ok":true}') }), aCall('held'), aCall('started')]
  const shown = turnView(aTurn(parked), { calls, approvals: [anApproval()], worker: 'w' })
  expect(shown.pending_function_calls).toEqual(['c_held', 'c_started'])
  expect(shown.calls[0]).toEqual({
    function_call_id: 'c_succeeded', function_id: 'shop::note', status: 'succeeded', reason: null, result: { ok: true },
  })
  expect(shown.approvals).toEqual([expect.objectContaining({ approval_id: 'a_1', status: 'pending', function_call_id: 'c_held', decided_by: null })])
})
