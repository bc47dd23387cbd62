/* The planner: its order of precedence row by row, each against everything that comes after it, and that it is a pure function. */
import fc from 'fast-check'
import { callStatuses, isSettled, type CallTraits } from '../../core/turn/call'
import { nextStep, type Step } from '../../core/turn/next-step'
import { isTerminal, turnStatuses, type Turn } from '../../core/turn/turn'
import { aCall, anAnswer, anApproval, anItem, aQuestion, aTurn } from './turn-fixtures'

const traits = (functionId: string): CallTraits | null => {
  if (functionId === 'shop::look_up') return { side_effects: 'read', idempotent: false }
  if (functionId === 'shop::set') return { side_effects: 'write', idempotent: true }
  return functionId.startsWith('shop::') ? { side_effects: 'write', idempotent: false } : null
}
const step = (facts: Partial<Turn>, now = 100): Step => nextStep(aTurn(facts), now, traits)
const read = { function_id: 'shop::look_up' }

/** Everything a turn may have going on at once: whatever is put before it must win over all of it. */
const busy: Partial<Turn> = {
  calls: [aCall('proposed'), aCall('started'), aCall('held'), aCall('allowed')], approvals: [anApproval()],
  messages: [aQuestion(), anAnswer(4)], inbox: [anItem('message')], rounds: 1, inbox_posted: 1,
}

describe('what comes first', () => {
  it('[planner.terminal] a turn that is over is left alone, whatever else is there', () => {
    for (const status of turnStatuses.filter(isTerminal)) {
      const inbox = [anItem('stop'), anItem('message', 2)]
      expect(step({ ...busy, status, stop: { by: 'local', seq: 1 }, inbox, claims: 9, finished_at: 5 }, 1e9)).toEqual({ kind: 'stop' })
    }
  })

  it('[planner.cancel] a stop in the inbox is folded in, then the turn finishes, before limits, calls and messages', () => {
    const inbox = [anItem('message'), anItem('stop', 2), anItem('decision', 3)]
    expect(step({ ...busy, inbox, claims: 9 }, 1e9)).toMatchObject({ kind: 'fold', items: [{ kind: 'stop' }, { kind: 'decision' }] })
    const finish = { kind: 'finish', status: 'cancelled', reason: 'stopped', detail: 'Stopped by local.' }
    expect(step({ ...busy, stop: { by: 'local', seq: 2 }, claims: 9, failure: { reason: 'model_failed', detail: '' } }, 1e9)).toEqual(finish)
  })

  it('[planner.limit] a failure, too many claims or a deadline finish the turn before its calls are looked at', () => {
    const failure = { reason: 'model_unavailable' as const, detail: 'no server' }
    expect(step({ ...busy, failure })).toEqual({ kind: 'finish', status: 'failed', ...failure })
    expect(step({ ...busy, claims: 4 })).toMatchObject({ kind: 'finish', status: 'failed', reason: 'crash_loop' })
    expect(step(busy, 10_000)).toMatchObject({ kind: 'finish', status: 'failed', reason: 'deadline' })
    expect(step(busy, 9_999)).toMatchObject({ kind: 'judge' })
  })

  it('[crash-loop.fails] the third claim in a row without a commit still runs, the fourth finishes', () => {
    expect(step({ claims: 3 })).toEqual({ kind: 'call_model' })
    expect(step({ claims: 4 })).toMatchObject({ kind: 'finish', reason: 'crash_loop' })
  })
})

describe('calls', () => {
  it('[planner.judge] all proposed calls are judged before another is recovered or run', () => {
    const proposed = [aCall('proposed'), aCall('proposed', { call_id: 'c_2', ordinal: 1 })]
    expect(step({ ...busy, calls: [...proposed, aCall('started'), aCall('allowed'), aCall('held')] })).toEqual({ kind: 'judge', calls: proposed })
  })

  it('[planner.recover] a call started by an earlier lease is recovered before anything new runs', () => {
    const started = aCall('started', { started_epoch: 1 })
    const calls = [aCall('allowed', read), started, aCall('held')]
    expect(step({ ...busy, calls, lease_epoch: 2, approvals: [anApproval({ status: 'approved' })] })).toEqual({ kind: 'recover', call: started })
  })

  it('[planner.await-started] a call started by this lease is seen to its outcome before anything new runs', () => {
    const started = aCall('started', { started_epoch: 2 })
    const calls = [aCall('allowed', read), aCall('held'), started]
    expect(step({ ...busy, calls, lease_epoch: 2, approvals: [anApproval({ status: 'approved' })] })).toEqual({ kind: 'run_write', call: started })
  })

  it('[planner.run-allowed] allowed calls run before the turn parks for held ones: reads together, then one write after the other', () => {
    const [first, second] = [aCall('allowed', read), aCall('allowed', { ...read, call_id: 'c_second', ordinal: 1 })]
    const [write, other] = [aCall('allowed', { call_id: 'c_write' }), aCall('allowed', { call_id: 'c_other' })]
    const calls = [write, first, aCall('held'), second, other]
    expect(step({ ...busy, calls })).toEqual({ kind: 'run_reads', calls: [first, second] })
    expect(step({ ...busy, calls: [aCall('held'), write, other] })).toEqual({ kind: 'start_write', call: write })
  })

  it('[write.undeclared-is-write] a call of a function that is not known is planned as a write', () => {
    const unknown = aCall('allowed', { function_id: 'gone::away' })
    expect(step({ ...busy, calls: [unknown] })).toEqual({ kind: 'start_write', call: unknown })
  })

  it('[planner.park-held] a held call parks the turn until the earliest deadline, and no model is called, not even for a message', () => {
    const calls = [aCall('held'), aCall('held', { call_id: 'c_2', approval_id: 'a_2' })]
    const approvals = [anApproval(), anApproval({ approval_id: 'a_2', call_id: 'c_2', expires_at: 3_000 })]
    expect(step({ ...busy, calls, approvals })).toEqual({ kind: 'park', park: 'approval', wake_at: 3_000 })
    expect(step({ ...busy, calls, approvals, deadline_at: 2_000 })).toEqual({ kind: 'park', park: 'approval', wake_at: 2_000 })
  })

  it('[call.held-answered] an answer, the end of time or a missing question each move a held call on', () => {
    const call = aCall('held')
    const withApproval = (facts: Parameters<typeof anApproval>[0], now = 100): Step =>
      step({ ...busy, calls: [call], approvals: [anApproval(facts)] }, now)
    expect(withApproval({ status: 'approved' })).toEqual({ kind: 'answer', call, as: 'release' })
    expect(withApproval({ status: 'rejected' })).toEqual({ kind: 'answer', call, as: 'reject' })
    expect(withApproval({ status: 'expired' })).toEqual({ kind: 'answer', call, as: 'expire' })
    expect(withApproval({ status: 'cancelled' })).toEqual({ kind: 'answer', call, as: 'expire' })
    expect(withApproval({}, 4_999)).toMatchObject({ kind: 'park' })
    expect(withApproval({}, 5_000)).toEqual({ kind: 'answer', call, as: 'expire' })
    expect(step({ ...busy, calls: [call], approvals: [] })).toEqual({ kind: 'answer', call, as: 'expire' })
  })
})

describe('a function that is away', () => {
  const liveAt = (live_at: number | null, more: Partial<CallTraits> = {}) => (): CallTraits => ({ side_effects: 'write', idempotent: false, live_at, ...more })
  const plan = (facts: Partial<Turn>, known: () => CallTraits | null, now = 100): Step => nextStep(aTurn(facts), now, known)

  it('[function.away-parks] an allowed call waits, at most to the end of the turn, or until the moment from which it is there', () => {
    const calls = [aCall('allowed')]
    for (const side_effects of ['write', 'read'] as const) {
      expect(plan({ calls }, liveAt(null, { side_effects }))).toEqual({ kind: 'park', park: 'function', wake_at: 10_000 })
      expect(plan({ calls }, liveAt(500, { side_effects }))).toEqual({ kind: 'park', park: 'function', wake_at: 500 })
      expect(plan({ calls }, liveAt(500, { side_effects }), 500).kind).toBe(side_effects === 'write' ? 'start_write' : 'run_reads')
    }
    expect(plan({ calls }, liveAt(null), 10_000)).toMatchObject({ kind: 'finish', reason: 'deadline' })
  })

  it('[function.away-parks] other calls go on meanwhile, and a person who is asked is what the turn is held for', () => {
    const known = (id: string): CallTraits => ({ side_effects: 'write', idempotent: false, live_at: id === 'shop::note' ? null : 0 })
    const other = aCall('allowed', { call_id: 'c_other', function_id: 'shop::set', ordinal: 1 })
    expect(nextStep(aTurn({ calls: [aCall('allowed'), other] }), 100, known)).toEqual({ kind: 'start_write', call: other })
    const held = nextStep(aTurn({ calls: [aCall('allowed'), aCall('held')], approvals: [anApproval()] }), 100, known)
    expect(held).toEqual({ kind: 'park', park: 'approval', wake_at: 5_000 })
  })

  it('[planner.recover] one started under an earlier lease waits only if it would be sent again; else its outcome is unknown at once', () => {
    const calls = [aCall('started', { started_epoch: 1 })]
    expect(plan({ calls, lease_epoch: 2 }, liveAt(null, { idempotent: true }))).toMatchObject({ kind: 'park', park: 'function' })
    expect(plan({ calls, lease_epoch: 2 }, liveAt(null))).toMatchObject({ kind: 'recover' })
    expect(plan({ calls, lease_epoch: 1 }, liveAt(null, { idempotent: true }))).toMatchObject({ kind: 'run_write' })
  })

  it('[workflow.edit-asks-anew] a question about a function that was edited or is gone is not waited for', () => {
    const asked = { calls: [aCall('held')], approvals: [anApproval()] }
    expect(plan(asked, liveAt(0, { isCurrent: () => false }))).toMatchObject({ kind: 'answer', as: 'ask_anew' })
    expect(plan(asked, () => null)).toMatchObject({ kind: 'answer', as: 'ask_anew' })
    expect(plan(asked, liveAt(0, { isCurrent: () => true }))).toMatchObject({ kind: 'park', park: 'approval' })
    expect(plan({ ...asked, approvals: [anApproval({ status: 'approved' })] }, liveAt(0, { isCurrent: () => false }))).toMatchObject({ as: 'release' })
  })
})

describe('a question to a person', () => {
  const asked = aCall('succeeded', { function_id: 'harness::ask_person' })
  const round = { messages: [aQuestion(), anAnswer(2)], rounds: 1 }

  it('[ask-person.ends-turn] ends the turn once its round is settled, also the last one it may have; asked earlier it does not', () => {
    const end = { kind: 'finish', status: 'completed', reason: 'asked_person', detail: null }
    expect(step({ ...round, calls: [asked, aCall('denied', { ordinal: 1 })] })).toEqual(end)
    expect(step({ ...round, calls: [asked], rounds: 16 })).toEqual(end)
    expect(step({ ...round, calls: [asked, aCall('allowed', { ordinal: 1 })] })).toMatchObject({ kind: 'start_write' })
    expect(step({ ...round, calls: [{ ...asked, status: 'denied' }] })).toEqual({ kind: 'call_model' })
    expect(step({ messages: [aQuestion(), anAnswer(1), aQuestion()], rounds: 1, calls: [asked] })).toEqual({ kind: 'call_model' })
  })

  it('[ask-person.message-first] but a message that waits is delivered first', () => {
    expect(step({ ...round, calls: [asked], inbox: [anItem('message')] })).toMatchObject({ kind: 'deliver' })
  })
})

describe('the conversation', () => {
  const settled = callStatuses.filter(isSettled).map((status) => aCall(status))

  it('[planner.deliver] messages in the inbox are delivered before the model is called and before the turn finishes', () => {
    const inbox = [anItem('message'), anItem('message', 2)]
    expect(step({ inbox })).toEqual({ kind: 'deliver', items: inbox })
    expect(step({ inbox, calls: settled, messages: [aQuestion(), anAnswer(6)], rounds: 1 })).toEqual({ kind: 'deliver', items: inbox })
    expect(step({ inbox, messages: [aQuestion(), anAnswer(0)], rounds: 1 })).toEqual({ kind: 'deliver', items: inbox })
  })

  it('[message.follow-up] a turn that may ask its model no more takes no more messages, but always those it began with', () => {
    const inbox = [anItem('message')]
    expect(step({ inbox, calls: settled, messages: [aQuestion(), anAnswer(6)], rounds: 16 })).toMatchObject({ kind: 'finish', reason: 'max_turns' })
    expect(step({ inbox, messages: [aQuestion(), anAnswer(0)], rounds: 16 })).toMatchObject({ kind: 'finish', status: 'completed' })
    const spec = { ...aTurn().spec, max_turns: 0 }
    expect(step({ inbox, spec })).toEqual({ kind: 'deliver', items: inbox })
    expect(step({ messages: [aQuestion()], spec })).toMatchObject({ kind: 'finish', reason: 'max_turns' })
  })

  it('[planner.finish] an answer that asks for nothing finishes the turn; one that was cut fails it', () => {
    expect(step({ messages: [aQuestion(), anAnswer(0)], rounds: 16 })).toEqual({ kind: 'finish', status: 'completed', reason: 'done', detail: null })
    expect(step({ messages: [aQuestion(), anAnswer(0, { stop_reason: 'length' })] })).toMatchObject({
      kind: 'finish', status: 'failed', reason: 'reply_cut',
    })
  })

  it('[planner.call-model] only when nothing else applies is the model called, and never more often than it may', () => {
    expect(step({ messages: [aQuestion()] })).toEqual({ kind: 'call_model' })
    expect(step({ messages: [aQuestion(), anAnswer(6)], calls: settled, rounds: 1 })).toEqual({ kind: 'call_model' })
    expect(step({ messages: [aQuestion(), anAnswer(0), aQuestion()], rounds: 1 })).toEqual({ kind: 'call_model' })
    expect(step({ messages: [{ ...anAnswer(0), turn_id: 't_0' }] })).toEqual({ kind: 'call_model' })
    expect(step({ messages: [aQuestion()], rounds: 16 })).toMatchObject({ kind: 'finish', status: 'failed', reason: 'max_turns' })
  })

  it('[turn.ends] a function turn ends as its one call did, and calls no model', () => {
    const endOf = (...call: Parameters<typeof aCall>): Step => step({ kind: 'function', calls: [aCall(...call)], inbox: [anItem('message')] })
    expect(endOf('succeeded')).toMatchObject({ status: 'completed', reason: 'done' })
    expect(endOf('failed', { reason: 'function_failed' })).toMatchObject({ status: 'failed', reason: 'function_failed' })
    expect(endOf('failed', { reason: 'not_sent' })).toMatchObject({ status: 'failed', reason: 'call_failed' })
    expect(endOf('interrupted')).toMatchObject({ status: 'failed', reason: 'interrupted' })
    expect(endOf('rejected')).toMatchObject({ status: 'cancelled', reason: 'rejected' })
    expect(endOf('expired')).toMatchObject({ status: 'cancelled', reason: 'expired' })
    expect(endOf('denied')).toMatchObject({ status: 'cancelled', reason: 'denied' })
    expect(step({ kind: 'function' })).toMatchObject({ status: 'failed', reason: 'tampered' })
  })
})

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(frozen)
  }
  return value
}

const anyTurn = fc.record({
  status: fc.constantFrom(...turnStatuses),
  stop: fc.constantFrom(null, { by: 'local', seq: 1 }),
  claims: fc.nat(5),
  lease_epoch: fc.nat(2),
  rounds: fc.nat(17),
  kind: fc.constantFrom('agent' as const, 'function' as const),
  calls: fc.array(fc.constantFrom(...callStatuses).map((status) => aCall(status))),
  approvals: fc.array(fc.constantFrom('pending', 'approved', 'rejected', 'expired', 'cancelled').map((status) => anApproval({ status }))),
  inbox: fc.array(fc.constantFrom('message' as const, 'stop' as const, 'decision' as const).map((kind) => anItem(kind))),
  messages: fc.array(fc.constantFrom(aQuestion(), anAnswer(0), anAnswer(2), { ...anAnswer(0), turn_id: 't_0' })),
})

it('[loop.planner-pure] for the same turn and time the planner says the same, and it changes nothing', () => {
  fc.assert(
    fc.property(anyTurn, fc.nat(12_000), (facts, now) => {
      const turn = frozen(aTurn(facts))
      const before = JSON.stringify(turn)
      const first = nextStep(turn, now, traits)
      expect(nextStep(turn, now, traits)).toEqual(first)
      expect(nextStep(structuredClone(turn), now, traits)).toEqual(first)
      expect(JSON.stringify(turn)).toBe(before)
    }),
  )
})

it('[call.allowed-runs] whatever the turn, only an allowed call is sent as a read or started, and only a started one is sent as a write', () => {
  fc.assert(
    fc.property(anyTurn, fc.nat(12_000), (facts, now) => {
      const next = nextStep(aTurn(facts), now, traits)
      if (next.kind === 'run_reads') for (const call of next.calls) expect(call.status).toBe('allowed')
      if (next.kind === 'start_write') expect(next.call.status).toBe('allowed')
      if (next.kind === 'run_write') expect(next.call).toMatchObject({ status: 'started', started_epoch: facts.lease_epoch })
    }),
  )
})
