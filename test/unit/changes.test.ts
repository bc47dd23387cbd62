/* A turn in memory moves by changes along the tables of moves and no other way; what is over or settled stays as it is. */
import { isHarnessError } from '../../core/errors'
import { callMoves, callStatuses, isSettled, type CallStatus } from '../../core/turn/call'
import { applyChanges, chainOf, type CallOutcome, type Change } from '../../core/turn/changes'
import { isTerminal, turnMoves, turnStatuses, type Turn, type TurnStatus } from '../../core/turn/turn'
import { aCall, aQuestion, anAnswer, anApproval, anItem, aTurn, content } from './turn-fixtures'

const at = 7
const claimed: Change = { type: 'turn.claimed', turn_id: 't_1', epoch: 2, worker: 'w_1', at }
const parked: Change = { type: 'turn.parked', turn_id: 't_1', park: 'approval', wake_at: 9, inbox_seen: 1 }
const finished = (status: 'completed' | 'failed' | 'cancelled'): Change => ({
  type: 'turn.finished', turn_id: 't_1', status, reason: 'done', detail: null, result: content('end'), inbox_seen: 0, at,
})
/** Every way to bring a turn into a status. */
const turnChanges: readonly (readonly [TurnStatus, Change])[] = [
  ['running', claimed], ['awaiting_functions', parked], ['completed', finished('completed')], ['failed', finished('failed')],
  ['cancelled', finished('cancelled')],
]

const judged = (from: CallStatus, to: 'allowed' | 'held' | 'denied'): Change => ({
  type: 'call.judged', turn_id: 't_1', call_id: `c_${from}`, from, to, reason: null, reasons: [], function_digest: 'f', approval_id: null,
  result: to === 'denied' ? content('no') : null, at,
})
const settled = (from: CallStatus, to: CallOutcome): Change => ({
  type: 'call.settled', turn_id: 't_1', call_id: `c_${from}`, from, to, reason: null, result: content('r'), at,
})
const ofAwaits: readonly Change[] = [
  { type: 'await.opened', await: { await_id: 'w', owner: 'o', kind: 'turn', until: 'ended', subjects: ['t_1'], deadline: null, created_at: at }, seal: 's', callback: null },
  { type: 'await.readdressed', owner: 'o', await_id: 'w', callback: content('address'), at },
  { type: 'await.closed', owner: 'o', await_id: 'w', status: 'delivered', outcome: 'done', answered: null, attempts: 1, answer: null },
]
const started = (from: CallStatus): Change => ({ type: 'call.started', turn_id: 't_1', call_id: `c_${from}`, from, epoch: 1, attempts: 1, at })
const outcomes: readonly CallOutcome[] = ['succeeded', 'failed', 'interrupted', 'denied', 'rejected', 'expired']
/** Every way to bring a call into a status from another one. */
const callChanges = (from: CallStatus): readonly (readonly [CallStatus, Change])[] => [
  ['allowed', judged(from, 'allowed')], ['held', judged(from, 'held')], ['denied', judged(from, 'denied')], ['started', started(from)],
  ...outcomes.map((to) => [to, settled(from, to)] as const),
]

const codeOf = (work: () => unknown): string | null => {
  try {
    work()
    return null
  } catch (error) {
    return isHarnessError(error) ? error.code : 'another error'
  }
}

describe('a turn', () => {
  it('[turn.no-other-move] makes every move of its table and no other', () => {
    for (const from of turnStatuses) {
      for (const [to, change] of turnChanges) {
        const turn = aTurn({ status: from })
        if (turnMoves[from].includes(to)) expect(applyChanges(turn, [change]).status).toBe(to)
        else expect([from, to, codeOf(() => applyChanges(turn, [change]))]).toEqual([from, to, 'invariant_broken'])
      }
    }
  })

  it('[turn.terminal-absorbs] leaves no status in which it is over', () => {
    for (const status of turnStatuses.filter(isTerminal)) {
      expect(turnMoves[status]).toEqual([])
      for (const [, change] of turnChanges) expect(codeOf(() => applyChanges(aTurn({ status }), [change]))).toBe('invariant_broken')
    }
  })

  it('[turn.claim-runs] only a claim makes it run, under the new epoch, and counts as one', () => {
    const makers = turnChanges.filter(([to]) => to === 'running').map(([, change]) => change.type)
    expect(makers).toEqual(['turn.claimed'])
    const asleep = aTurn({ status: 'awaiting_functions', park: 'approval', wake_at: 9, claims: 0, started_at: null })
    expect(applyChanges(asleep, [claimed])).toMatchObject({ status: 'running', park: null, wake_at: null, lease_epoch: 2, claims: 1, started_at: at })
    expect(applyChanges(aTurn({ status: 'queued', started_at: 3 }), [claimed])).toMatchObject({ status: 'running', started_at: 3 })
  })

  it('[turn.parks] parks from running, with the reason beside it', () => {
    expect(applyChanges(aTurn({ claims: 2 }), [parked])).toMatchObject({
      status: 'awaiting_functions', park: 'approval', wake_at: 9, inbox_seen: 1, claims: 0,
    })
  })

  it('[turn.ends] ends from running, with its reason and result', () => {
    expect(applyChanges(aTurn(), [finished('completed')])).toMatchObject({
      status: 'completed', reason: 'done', finished_at: at, result: content('end'),
    })
  })

  it('is not moved by changes of other turns, nor by those that are only for the record', () => {
    const turn = aTurn({ status: 'queued' })
    const others: Change[] = [
      { ...claimed, turn_id: 't_2' }, { type: 'message.appended', message: { ...aQuestion(), turn_id: 't_2' } },
      { type: 'inbox.posted', item: { ...anItem('message'), turn_id: 't_2' } }, { type: 'turn.released', turn_id: 't_1', epoch: 1 },
      { type: 'turn.created', turn: aTurn({ turn_id: 't_2' }) }, { type: 'tampering.found', object: 't_1', what: 'x' }, ...ofAwaits,
      { type: 'call.late', turn_id: 't_1', call_id: 'c_interrupted', outcome: 'succeeded', result: content('late'), at },
    ]
    expect(applyChanges(turn, others)).toEqual(turn)
  })
})

describe('a call', () => {
  const turnWith = (status: CallStatus): Turn => aTurn({ calls: [aCall(status)] })

  it('[call.no-other-move] makes every move of its table and no other', () => {
    for (const from of callStatuses) {
      for (const [to, change] of callChanges(from)) {
        const move = (): Turn => applyChanges(turnWith(from), [change])
        if (callMoves[from].includes(to)) expect(move().calls[0]?.status).toBe(to)
        else expect([from, to, codeOf(move)]).toEqual([from, to, 'invariant_broken'])
      }
    }
  })

  it('[call.settled-absorbs] leaves no status in which it is settled', () => {
    for (const status of callStatuses.filter(isSettled)) {
      for (const [, change] of callChanges(status)) expect(codeOf(() => applyChanges(turnWith(status), [change]))).toBe('invariant_broken')
    }
  })

  it('[call.judged-first] is denied, held or allowed before anything else', () => {
    expect([...callMoves.proposed].sort()).toEqual(['allowed', 'denied', 'held'])
    expect(applyChanges(turnWith('proposed'), [judged('proposed', 'denied')]).calls[0]).toMatchObject({
      status: 'denied', result: content('no'), settled_at: at,
    })
  })

  it('[call.started-settles] ends as succeeded, failed or interrupted once it was started', () => {
    const ends = callMoves.started.filter((to) => isSettled(to))
    expect([...ends].sort()).toEqual(['failed', 'interrupted', 'succeeded'])
  })

  it('is not moved by a change that starts from another status, nor when it is not there', () => {
    const lost = codeOf(() => applyChanges(turnWith('allowed'), [{ ...started('allowed'), from: 'started' } as Change]))
    expect(lost).toBe('invariant_broken')
    expect(codeOf(() => applyChanges(aTurn(), [started('allowed')]))).toBe('invariant_broken')
  })
})

it('an answer counts as a round; a message from outside does not', () => {
  const turn = applyChanges(aTurn(), [{ type: 'message.appended', message: aQuestion() }, { type: 'message.appended', message: anAnswer(1) }])
  expect(turn).toMatchObject({ rounds: 1, messages: [{ role: 'user' }, { role: 'assistant' }] })
})

it('a stop takes effect when it is folded in, the first one counts, and one that is refused never does', () => {
  const fold = (seq: number, fate: 'done' | 'refused', principal = 'local'): Change => ({
    type: 'inbox.folded', turn_id: 't_1', inbox_id: `i_${String(seq)}`, seq, kind: 'stop', principal, fate,
  })
  const turn = aTurn({ inbox: [anItem('stop'), anItem('stop', 2)] })
  expect(applyChanges(turn, [fold(1, 'done'), fold(2, 'done', 'watcher')])).toMatchObject({ stop: { by: 'local', seq: 1 }, inbox: [] })
  expect(applyChanges(turn, [fold(1, 'refused')])).toMatchObject({ stop: null, inbox: [{ seq: 2 }] })
})

it('questions open, close and are decided by their changes', () => {
  const decided = { decision: 'approve' as const, approver: 'alice', decided_at: 1, reason: null, channel: 'command_line' as const, signature: 's' }
  const opened = applyChanges(aTurn(), [{ type: 'approval.opened', approval: anApproval() }])
  const answer: Change = { type: 'approval.decided', turn_id: 't_1', approval_id: 'a_1', status: 'approved', decided }
  expect(applyChanges(opened, [answer]).approvals).toEqual([anApproval({ status: 'approved', decided })])
  const closed: Change = { type: 'approval.closed', turn_id: 't_1', approval_id: 'a_1', status: 'expired', at }
  expect(applyChanges(opened, [closed]).approvals[0]?.status).toBe('expired')
})

it('a change goes to the chain of what it changes: session, execution or deployment', () => {
  expect(chainOf(claimed, 's_1')).toBe('session:s_1')
  expect(chainOf({ type: 'tampering.found', object: 'o', what: 'w' }, 's_1')).toBe('deployment')
  expect(ofAwaits.map((change) => chainOf(change, 's_1'))).toEqual(['deployment', 'deployment', 'deployment'])
  expect(chainOf({ type: 'authority.loaded', worker: 'w', fingerprint: 'f' }, null)).toBe('deployment')
  expect(codeOf(() => chainOf(claimed, null))).toBe('invariant_broken')
})
