/* Turns, calls and questions as they are seen to move, in the rows and by who asks. */
import type { FunctionOutcome } from '../../core/functions/function'
import { callMoves, type CallStatus } from '../../core/turn/call'
import { turnMoves, type TurnStatus } from '../../core/turn/turn'
import { makeWorld, type World } from '../property/world'
import { closePlaces, openPlace } from '../support/place'
import { until } from '../support/until'

const worlds: World[] = []
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close()
  await closePlaces()
})
const newWorld = async (...args: Parameters<typeof makeWorld>): Promise<World> => {
  const world = await makeWorld(...args)
  worlds.push(world)
  return world
}

const note = { function_id: 'shop::note', arguments: { text: 'n' } }
const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
const lookUp = { function_id: 'shop::look_up', arguments: { order: 'A-1' } }
const callsThenWords = (...calls: readonly (typeof note | typeof refund | typeof lookUp)[]) => (_request: unknown, count: number) =>
  ({ text: `answer ${String(count)}`, calls: count === 0 ? calls : [] })
const send = (world: World, message = 'Go.'): ReturnType<World['harness']['send']> => world.harness.send({ message }, world.caller)
const firstApproval = async (world: World): Promise<string> =>
  String((await world.rows('SELECT approval_id FROM approval_requests ORDER BY created_at'))[0]?.['approval_id'])

type Recorded = { readonly type: string; readonly [key: string]: unknown }
/** The changes on record, oldest first. */
async function recorded(world: World, ...types: readonly string[]): Promise<Recorded[]> {
  const rows = await world.rows(`SELECT changes FROM audit_events WHERE chain LIKE 'session:%' ORDER BY chain, seq`)
  return rows.flatMap((row) => JSON.parse(String(row['changes'])) as Recorded[]).filter((change) => types.includes(change.type))
}

describe('a turn', () => {
  it('[turn.begins-queued] [execution.ids-at-send] is queued when send answers, which gives the ids of execution, session and turn', async () => {
    const world = await newWorld(callsThenWords())
    const { execution_id, session_id, turn_id, ...rest } = await send(world)
    expect(rest).toEqual({ accepted: true, deduplicated: false, merged: false })
    expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'queued', session_id, execution_id, started_at: null, lease_epoch: 0 })
    expect(await world.store.findExecution(execution_id)).toMatchObject({ session_id, turn_id, owner: 'local', intent: 'agent_turn', source: {
      type: 'external_system', id: 'test'
    }, actor: { type: 'user', id: 'local' } })
    expect(await world.store.findSession(session_id)).toMatchObject({ owner: 'local' })
    const direct = await world.harness.trigger({ call: lookUp }, world.caller)
    expect(await world.store.findExecution(direct.execution_id)).toMatchObject({ turn_id: direct.turn_id, intent: 'run_function' })
  })

  it('[turn.claim-runs] [turn.parks] [turn.ends] runs by a claim, parks with the reason, is claimed again, ends with its reason', async () => {
    const world = await newWorld(callsThenWords(refund))
    const { turn_id } = await send(world)
    await world.work({ inside: async () => { expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'running', lease_epoch: 1 }) } })
    expect(await world.store.findTurn(turn_id)).toMatchObject({
      status: 'awaiting_functions', park: 'approval', wake_at: world.now() + 24 * 3_600_000,
    })
    expect(await world.work({})).toBeNull()
    await world.decide(await firstApproval(world), 'approve')
    expect(await world.work({})).toBe('settled')
    expect(await world.store.findTurn(turn_id)).toMatchObject({
      status: 'completed', reason: 'done', park: null, wake_at: null, lease_epoch: 2, result: { text: '"answer 1"' },
    })
    const moves = await recorded(world, 'turn.created', 'turn.claimed', 'turn.parked', 'turn.finished')
    expect(moves.map((change) => change.type)).toEqual(['turn.created', 'turn.claimed', 'turn.parked', 'turn.claimed', 'turn.finished'])
  })

  it('[turn.terminal-absorbs] is over once and for all: nothing wakes, stops or joins it', async () => {
    const world = await newWorld(callsThenWords())
    const { turn_id, session_id } = await send(world)
    await world.work({})
    const over = await world.store.findTurn(turn_id)
    world.pass(30 * 24 * 3_600_000)
    expect(await world.work({})).toBeNull()
    expect(await world.harness.stop({ session_id, turn_id }, world.caller)).toEqual({ stopping: false })
    const next = await world.harness.send({ message: 'More.', session_id }, world.caller)
    expect(next).toMatchObject({ merged: false })
    await world.work({})
    expect(await world.store.findTurn(turn_id)).toEqual(over)
  })

  it('[execution.view-of-turn] the status that is shown for an execution is that of its turn, also of one that joined it', async () => {
    const place = await openPlace({ script: (request) => (request.messages.length > 2 ? { text: 'Done.' } : { calls: [refund] }) })
    const held = await place.say('one')
    const joined = await place.harness.send({ message: 'two', session_id: held.session_id }, place.caller)
    expect(joined.execution_id).not.toBe(held.execution_id)
    const { execution_id } = held
    for (const { turn_id } of [held, joined]) expect(await place.turn(turn_id)).toMatchObject({ execution_id, state: 'held' })
    await place.decide(held.approvals[0]!.approval_id, 'approve')
    for (const { turn_id } of [held, joined]) expect(await place.turn(turn_id)).toMatchObject({ execution_id, status: 'completed' })
  })

  it('[words.working] [words.held] [words.ended] is shown as working, held and ended as it goes', async () => {
    let answer: (outcome: FunctionOutcome) => void = () => undefined
    const place = await openPlace({ script: [{ calls: [note, refund] }, { text: 'Done.' }] })
    place.functions.answer('shop::note', (_call, signal) => new Promise((resolve) => {
      answer = resolve
      signal.addEventListener('abort', () => resolve({ kind: 'cut', message: 'The test ended.' }))
    }))
    const { turn_id } = await place.harness.send({ message: 'Go.' }, place.caller)
    expect(await place.turn(turn_id, 0)).toMatchObject({ state: 'working', status: 'running', reason: null })
    await until(() => place.functions.count('shop::note') === 1)
    expect(await place.turn(turn_id, 0)).toMatchObject({ state: 'working', status: 'running' })
    answer({ kind: 'answered', value: null, is_error: false })
    const held = await place.turn(turn_id)
    expect(held).toMatchObject({ state: 'held', status: 'awaiting_functions', reason: null, approvals: [{ status: 'pending' }] })
    await place.decide(held.approvals[0]!.approval_id, 'approve')
    expect(await place.turn(turn_id)).toMatchObject({ state: 'completed', status: 'completed', reason: 'done', detail: null, result: 'Done.' })
  })

  it('[words.ended] one that failed says why, for programs and for people', async () => {
    const place = await openPlace({ script: [{ fail: { error_kind: 'context_overflow', message: 'Too long.' } }] })
    expect(await place.say('Go.')).toMatchObject({
      state: 'failed', status: 'failed', reason: 'context_overflow', detail: 'Too long.', result_error: 'Too long.',
    })
    const silent = await openPlace({ script: [{ text: ' ' }] })
    expect(await silent.say('Go.')).toMatchObject({ state: 'failed', reason: 'empty_reply' })
    expect(silent.model.requests).toHaveLength(2)
  })
})

describe('a call', () => {
  it('[call.judged-first] [call.allowed-runs] [call.started-settles] moves along its table: judged first, run only when allowed', async () => {
    const world = await newWorld(callsThenWords(note, refund, lookUp, { function_id: 'shop::secret_drop', arguments: {} } as never))
    await send(world)
    await world.work({ fault: { kind: 'after', commit: 3 } })
    await world.work({})
    await world.decide(await firstApproval(world), 'reject')
    await world.work({})
    const states = new Map<unknown, CallStatus>()
    for (const change of await recorded(world, 'call.proposed', 'call.judged', 'call.started', 'call.settled')) {
      const call = change['call'] as { call_id: string } | undefined
      const id = call?.call_id ?? change['call_id']
      const to = change.type === 'call.proposed' ? 'proposed' : change.type === 'call.started' ? 'started' : (change['to'] as CallStatus)
      const from = states.get(id)
      if (from === undefined) expect(to).toBe('proposed')
      else expect(callMoves[from]).toContain(to)
      states.set(id, to)
    }
    expect([...states.values()].sort()).toEqual(['denied', 'interrupted', 'rejected', 'succeeded'])
    expect(world.sent.map((call) => call.entry.id).sort()).toEqual(['shop::look_up'])
  })

  it('[call.held-answered] a held call is allowed, rejected, expired, or refused when its turn ends', async () => {
    const after = async (work: (world: World, approvalId: string) => Promise<unknown>): Promise<unknown> => {
      const world = await newWorld(callsThenWords(refund))
      const { turn_id } = await send(world)
      await world.work({})
      expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'held', reason: 'policy' }])
      await work(world, await firstApproval(world))
      await world.work({})
      const [call] = await world.store.callsOf(turn_id)
      return [call?.status, call?.reason, world.sent.length]
    }
    expect(await after((world, id) => world.decide(id, 'approve'))).toEqual(['succeeded', null, 1])
    expect(await after((world, id) => world.decide(id, 'reject'))).toEqual(['rejected', 'rejected', 0])
    expect(await after(async (world) => { world.pass(24 * 3_600_000) })).toEqual(['expired', 'expired', 0])
    expect(await after(async (world) => {
      const turn = (await world.rows('SELECT session_id FROM turns'))[0]
      await world.harness.stop({ session_id: String(turn?.['session_id']) }, world.caller)
    })).toEqual(['denied', 'stopped', 0])
  })

  it('[call.reads-side-by-side] reads run side by side, and are not on record as started', async () => {
    const place = await openPlace({ script: [{ calls: [lookUp, lookUp, lookUp] }, { text: 'Done.' }] })
    let waiting: (() => void)[] = []
    place.functions.answer('shop::look_up', () => new Promise<FunctionOutcome>((resolve) => {
      waiting.push(() => resolve({ kind: 'answered', value: 1, is_error: false }))
      // none is answered before all are there
      if (waiting.length === 3) waiting.splice(0).forEach((answer) => answer())
    }))
    expect(await place.say('Look.')).toMatchObject({
      state: 'completed', calls: [{ status: 'succeeded' }, { status: 'succeeded' }, { status: 'succeeded' }],
    })
    waiting = []
    const world = await newWorld(callsThenWords(lookUp, note))
    await send(world)
    await world.work({})
    const started = await recorded(world, 'call.started')
    expect(started.map((change) => change['call_id'])).toEqual([world.sent.find((call) => call.entry.id === 'shop::note')?.call_id])
  })

  it('[write.started-first] [call.no-other-move] writes run one after the other, each on record as started before it is sent', async () => {
    const world = await newWorld(callsThenWords(note, note))
    const { turn_id } = await send(world)
    const seen: string[][] = []
    await world.work({
      inside: async (where) => { if (where === 'function') seen.push((await world.store.callsOf(turn_id)).map((call) => call.status)) },
    })
    expect(seen).toEqual([['started', 'allowed'], ['succeeded', 'started']])
  })

  it('[call.idempotent-resent] one declared idempotent is sent again after a death, under the same id, and the record counts it', async () => {
    const world = await newWorld(callsThenWords({ function_id: 'shop::set', arguments: { value: 3 } } as never))
    const { turn_id } = await send(world)
    expect(await world.work({ fault: { kind: 'before', commit: 3 } })).toBe('crashed')
    await world.work({})
    expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'succeeded', attempts: 2, started_epoch: 2 }])
    expect(world.sent).toHaveLength(2)
    expect(new Set(world.sent.map((call) => call.call_id)).size).toBe(1)
    expect((await recorded(world, 'call.started')).map((change) => change['attempts'])).toEqual([1, 2])
  })

  it('[call.idempotent-resent] but not for ever: after three starts its outcome is unknown', async () => {
    const world = await newWorld(callsThenWords({ function_id: 'shop::set', arguments: { value: 3 } } as never))
    const { turn_id } = await send(world)
    expect(await world.work({ fault: { kind: 'before', commit: 3 } })).toBe('crashed')
    for (let death = 0; death < 2; death += 1) expect(await world.work({ fault: { kind: 'before', commit: 2 } })).toBe('crashed')
    await world.work({})
    expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'interrupted', attempts: 3 }])
    expect(world.sent).toHaveLength(3)
  })

  it('[write.cut-not-resent] [write.at-most-once] one that is not is never sent a second time', async () => {
    const world = await newWorld(callsThenWords(note))
    const { turn_id } = await send(world)
    expect(await world.work({ fault: { kind: 'before', commit: 3 } })).toBe('crashed')
    await world.work({})
    expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'interrupted', reason: 'unknown_outcome', attempts: 1 }])
    expect(world.sent).toHaveLength(1)
  })

  it('[loop.same-code] a run that is broken off at any commit goes on with the steps that are left, and no others', async () => {
    const steps = async (faults: readonly number[]): Promise<string[]> => {
      const world = await newWorld(callsThenWords(lookUp, refund))
      await send(world)
      for (const commit of faults) await world.work({ fault: { kind: 'after', commit } })
      while ((await world.work({})) !== null) continue
      await world.decide(await firstApproval(world), 'approve')
      for (const commit of faults) await world.work({ fault: { kind: 'after', commit } })
      while ((await world.work({})) !== null) continue
      const changes = await recorded(
        world, 'message.appended', 'call.proposed', 'call.judged', 'call.started', 'call.settled', 'approval.opened', 'approval.decided',
        'turn.finished',
      )
      return changes.map(({ type, to, status }) => [type, to, status].filter((word) => typeof word === 'string').join(' '))
    }
    const unharmed = await steps([])
    expect(unharmed).toHaveLength(14)
    // 1: the message is in; 2: the answer is judged. After it the read is done again, which it may be
    for (const faults of [[1], [2], [1, 1]]) {
      const resumed = await steps(faults)
      expect(resumed.filter((change) => !change.startsWith('call.s'))).toEqual(unharmed.filter((change) => !change.startsWith('call.s')))
    }
  })
})

describe('a question', () => {
  it('[approval.expires] [call.held-answered] past its deadline it is expired, the call does not run, and no decision counts any more', async () => {
    const world = await newWorld(callsThenWords(refund))
    const { turn_id } = await send(world)
    await world.work({})
    const id = await firstApproval(world)
    world.pass(24 * 3_600_000)
    // nobody has looked yet: the clock alone closes it
    await expect(world.decide(id, 'approve')).resolves.toBe(false)
    await world.work({})
    expect(await world.store.findApproval(id)).toMatchObject({ status: 'expired', decided: null })
    expect(await world.store.callsOf(turn_id)).toMatchObject([{ status: 'expired' }])
    expect(world.sent).toEqual([])
    expect(await world.store.findTurn(turn_id)).toMatchObject({ status: 'completed' })
  })

  it('[approval.decided] [approval.closed-absorbs] [commit.decide-once] the first signed decision counts, however many come at once', async () => {
    const place = await openPlace({ script: [{ calls: [refund] }, { text: 'Done.' }] })
    const held = await place.say('Refund.')
    const id = held.approvals[0]!.approval_id
    const results = await Promise.allSettled((['approve', 'reject', 'approve', 'reject'] as const).map((decision) => place.decide(id, decision)))
    const counted = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.status] : []))
    expect(counted).toHaveLength(1)
    for (const result of results) if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'approval_closed' })
    const turn = await place.turn(held.turn_id)
    expect(turn.approvals).toMatchObject([{ status: counted[0], decided_by: 'alice' }])
    expect(place.functions.count('shop::refund')).toBe(counted[0] === 'approved' ? 1 : 0)
    await expect(place.decide(id, 'approve')).rejects.toMatchObject({ code: 'approval_closed', data: { status: counted[0] } })
  })

  it('[approval.decided] one without a valid signature is refused, on record, and decides nothing', async () => {
    const place = await openPlace({ script: [{ calls: [refund] }] })
    const held = await place.say('Refund.')
    const approval_id = held.approvals[0]!.approval_id
    const signature = Buffer.alloc(64).toString('base64')
    const decided_at = Date.now()
    const forged = { approval_id, decision: 'approve', approver: 'alice', reason: null, decided_at, channel: 'command_line', signature } as const
    await expect(place.harness.decide_approval(forged, place.caller)).rejects.toMatchObject({ code: 'forbidden' })
    await expect(
      place.harness.decide_approval({ ...forged, decided_at: Date.now() + 3_600_000 }, place.caller)
    ).rejects.toMatchObject({ code: 'forbidden' })
    await expect(place.harness.decide_approval({ ...forged, decision: 'reject' }, place.caller)).rejects.toMatchObject({ code: 'invalid_input' })
    expect(await place.turn(held.turn_id)).toMatchObject({ state: 'held', approvals: [{ status: 'pending' }] })
  })

  it('[approval.cancelled] the end of a turn for another reason withdraws all its questions', async () => {
    const world = await newWorld(callsThenWords(refund, { function_id: 'shop::refund', arguments: { order: 'A-2', amount: 1 } }))
    await send(world)
    await world.work({})
    world.pass(8 * 24 * 3_600_000)
    await world.work({})
    expect(await world.rows('SELECT reason FROM turns')).toEqual([{ reason: 'deadline' }])
    expect(await world.rows('SELECT status FROM approval_requests')).toEqual([{ status: 'cancelled' }, { status: 'cancelled' }])
  })
})

it('[turn.no-other-move] no run of all these ever moved a turn otherwise than its table says', async () => {
  const world = await newWorld(callsThenWords(refund, note))
  await send(world)
  await world.work({ fault: { kind: 'lease', commit: 2 } })
  await world.work({})
  await world.decide(await firstApproval(world), 'approve')
  await world.work({ fault: { kind: 'after', commit: 2 } })
  await world.work({})
  let status: TurnStatus = 'queued'
  for (const change of await recorded(world, 'turn.claimed', 'turn.parked', 'turn.finished')) {
    const to = change.type === 'turn.claimed' ? 'running' : change.type === 'turn.parked' ? 'awaiting_functions' : (change['status'] as TurnStatus)
    expect(turnMoves[status]).toContain(to)
    status = to
  }
  expect(status).toBe('completed')
})
