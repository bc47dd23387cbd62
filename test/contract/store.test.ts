/*
 * What every store promises, on a real one: all changes or none, a fence that holds, guards that name the state they start from, one
 * answer for a key, one winner of every race. A second connection plays the other process.
 */
import { chainOf, turnCreated, type CallOutcome, type Change } from '../../core/turn/changes'
import { isHarnessError } from '../../core/errors'
import { callMoves, callStatuses, type CallStatus } from '../../core/turn/call'
import { isTerminal, turnMoves, turnStatuses, type TurnStatus } from '../../core/turn/turn'
import type { Commit, Store, WorkerRow } from '../../core/store/store'
import { commitsOf, recordTurn } from '../support/record'
import { openTestStore, type TestStore } from '../support/store'
import { aCall, anItem, anAnswer, aTurn, content } from '../unit/turn-fixtures'

const at = 1_000
const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work
    return 'done'
  } catch (error) {
    return isHarnessError(error) ? error.code : `other: ${String(error)}`
  }
}

/** A new turn in a session of its own, as send stores it: ids are prefixed with `name`. */
async function newTurn(store: Store, name: string): Promise<{ turn_id: string; session_id: string }> {
  const ids = { turn_id: `t_${name}`, session_id: `s_${name}` }
  const execution = {
    execution_id: `x_${name}`, ...ids, owner: 'ann', source: {
      type: 'external_system' as const, id: 'test'
    }, actor: { type: 'user' as const, id: 'ann' },
    intent: 'agent_turn', constraints: { allow_cloud: false, require_audit: true, risk_level: 'low' as const }, payload: content(`payload ${name}`),
    event_hash: 'h', corrects_execution_id: null, created_at: at,
  }
  const turn = aTurn(
    { ...ids, execution_id: execution.execution_id, owner: 'ann', status: 'queued', created_at: at, deadline_at: 9_000, spec_content: {
      ...content('{}'), content_id: `k_spec_${name}`
    } }
  )
  await store.commit({
    actor: 'ann', at, session_id: ids.session_id,
    changes: [{ type: 'execution.accepted', execution }, {
      type: 'session.created', session: { session_id: ids.session_id, owner: 'ann', title: null, created_at: at },
    }, turnCreated(turn)],
  })
  return ids
}

const work = (ids: { session_id: string }, changes: readonly Change[], fence?: Commit['fence']): Commit =>
  ({ actor: 'worker:w_1', at, session_id: ids.session_id, changes, ...(fence === undefined ? {} : { fence }) })
const claim = (turnId: string, epoch: number): Change => ({ type: 'turn.claimed', turn_id: turnId, epoch, worker: 'w_1', at })
const note = (what: string): Change => ({ type: 'tampering.found', object: 'o', what })

/** Everything there is, to be the same after a commit that failed. */
async function everything({ connection }: TestStore): Promise<string> {
  const tables = [
    'contents', 'executions', 'sessions', 'turns', 'messages', 'calls', 'inbox', 'approval_requests', 'idempotency', 'audit_events', 'chains',
  ]
  return JSON.stringify(await connection.queryAll(tables.map((table) => ({ text: `SELECT * FROM ${table} ORDER BY 1, 2`, values: [] }))))
}

describe('a commit', () => {
  it('[commit.atomic] applies all its changes or none: whichever change cannot be made, nothing is', async () => {
    const scene = await openTestStore()
    const ids = await newTurn(scene.store, 'a')
    await scene.store.commit(work(ids, [claim(ids.turn_id, 1)]))
    const before = await everything(scene)
    const good: readonly Change[] = [
      { type: 'call.proposed', call: aCall('proposed', { turn_id: ids.turn_id }) }, note('good'),
      { type: 'message.appended', message: { ...anAnswer(1), ...ids, content: content('good') } },
    ]
    const bad: readonly Change[] = [
      claim(ids.turn_id, 1), claim('t_none', 1), { type: 'approval.closed', turn_id: ids.turn_id, approval_id: 'a_none', status: 'expired', at },
      { type: 'inbox.folded', turn_id: ids.turn_id, inbox_id: 'i_none', seq: 1, kind: 'message', principal: 'ann', fate: 'done' },
      { type: 'call.started', turn_id: ids.turn_id, call_id: 'c_none', from: 'allowed', epoch: 1, attempts: 1, at },
      { type: 'message.appended', message: { ...anAnswer(1), ...ids, message_id: 'm_twice', ordinal: 2 } },
    ]
    for (const change of bad) {
      for (const changes of [[...good, change], [change, ...good]]) {
        expect([change.type, await codeOf(scene.store.commit(work(ids, changes)))]).toEqual([change.type, 'conflict'])
      }
      expect(await everything(scene)).toBe(before)
    }
    expect(await codeOf(scene.store.commit(work(ids, good)))).toBe('done')
  })

  it('[commit.fenced] under an epoch that is over, or after the lease was given up, nothing is written, not even an outcome', async () => {
    const scene = await openTestStore()
    const other = scene.another().store
    const ids = await newTurn(scene.store, 'a')
    const fence = { turn_id: ids.turn_id, epoch: 1 }
    await scene.store.commit(work(ids, [claim(ids.turn_id, 1)]))
    const call = aCall('proposed', { turn_id: ids.turn_id })
    const base = { turn_id: ids.turn_id, call_id: call.call_id, at }
    const judged: Change = {
      ...base, type: 'call.judged', from: 'proposed', to: 'allowed', reason: null, reasons: [], function_digest: 'f', approval_id: null, result: null,
    }
    const started: Change = { ...base, type: 'call.started', from: 'allowed', epoch: 1, attempts: 1 }
    await scene.store.commit(work(ids, [{ type: 'call.proposed', call }, judged, started], fence))
    await other.commit(work(ids, [claim(ids.turn_id, 2)]))
    const before = await everything(scene)
    const outcome: Change = {
      type: 'call.settled', turn_id: ids.turn_id, call_id: call.call_id, from: 'started', to: 'succeeded', reason: null, result: content('late'), at,
    }
    for (const changes of [[outcome], [note('x')], []]) expect(await codeOf(scene.store.commit(work(ids, changes, fence)))).toBe('lease_lost')
    expect(await codeOf(scene.store.commit(work(ids, [outcome], { ...fence, epoch: 3 })))).toBe('lease_lost')
    expect(await everything(scene)).toBe(before)

    await other.commit(work(ids, [{ type: 'turn.released', turn_id: ids.turn_id, epoch: 2 }], { ...fence, epoch: 2 }))
    expect(await codeOf(other.commit(work(ids, [outcome], { ...fence, epoch: 2 })))).toBe('lease_lost')
  })

  it('answers a fenced commit with what was posted meanwhile, in order', async () => {
    const { store } = await openTestStore()
    const ids = await newTurn(store, 'a')
    await store.commit(work(ids, [claim(ids.turn_id, 1)]))
    for (const seq of [1, 2]) await store.commit(work(ids, [{ type: 'inbox.posted', item: { ...anItem('stop', seq), ...ids } }]))
    expect((await store.commit(work(ids, [note('x')], { turn_id: ids.turn_id, epoch: 1 }))).map((item) => item.seq)).toEqual([1, 2])
  })

  it('[commit.idempotency-key] remembers one answer for a key until it expires, and refuses the second commit whole', async () => {
    const scene = await openTestStore()
    const { store } = scene
    const key = { principal: 'ann', operation: 'send', key: 'k', request_hash: 'h', response: '{"a":1}', expires_at: 2_000 }
    const post = (more: Partial<typeof key> = {}, now = at): Promise<unknown> =>
      store.commit({ actor: 'ann', at: now, session_id: null, changes: [note(JSON.stringify(more))], idempotency: { ...key, ...more } })
    await post()
    const before = await everything(scene)
    expect(await codeOf(post({ response: '{"b":2}' }))).toBe('conflict')
    expect(await everything(scene)).toBe(before)
    expect(await store.findIdempotency('ann', 'send', 'k', 1_999)).toEqual(key)
    expect(await store.findIdempotency('ann', 'send', 'k', 2_000)).toBeNull()
    for (const other of [{ principal: 'bob' }, { operation: 'trigger' }, { key: 'k2' }]) expect(await codeOf(post(other))).toBe('done')
    expect(await codeOf(post({ response: '{"c":3}', expires_at: 9_000 }, 2_000))).toBe('done')
    expect(await store.findIdempotency('ann', 'send', 'k', 2_001)).toMatchObject({ response: '{"c":3}' })
  })

  it('[audit.every-commit] of many at once each is on record, in chains without a hole', async () => {
    const { store, another } = await openTestStore()
    const stores = [store, another().store, another().store]
    const ids = await newTurn(store, 'a')
    const released: Change = { type: 'turn.released', turn_id: ids.turn_id, epoch: 0 }
    await Promise.all(Array.from({ length: 30 }, (_, index) => stores[index % 3]!.commit(work(ids, [released, note(String(index))]))))
    for (const [chain, before] of [[`session:${ids.session_id}`, 1], ['deployment', 0]] as const) {
      const rows: number[] = []
      for await (const row of store.auditRows(chain)) rows.push(row.seq)
      expect(rows).toEqual(Array.from({ length: 30 + before }, (_, index) => index + 1))
    }
  })
})

describe('the guards of the rows', () => {
  it('[turn.no-other-move] [turn.terminal-absorbs] a turn makes every move of its table and no other', async () => {
    const scene = await openTestStore()
    const moves: readonly (readonly [TurnStatus, (id: string) => Change])[] = [
      ['running', (id) => claim(id, 2)],
      ['awaiting_functions', (id) => ({ type: 'turn.parked', turn_id: id, park: 'approval', wake_at: 9, inbox_seen: 0 })],
      ...(['completed', 'failed', 'cancelled'] as const).map((status) => [
        status, (id: string): Change => ({
          type: 'turn.finished', turn_id: id, status, reason: 'done', detail: null, result: null, inbox_seen: 0, at,
        }),
      ] as const),
    ]
    const wrong: string[] = []
    for (const from of turnStatuses) {
      for (const [to, change] of moves) {
        const ids = await newTurn(scene.store, `${from}_${to}`)
        await scene.connection.atomically([{ text: 'UPDATE turns SET status = ?, finished_at = ?, lease_epoch = 1 WHERE turn_id = ?', values: [
          from, isTerminal(from) ? 5 : null, ids.turn_id
        ] }])
        const moved = (await codeOf(scene.store.commit(work(ids, [change(ids.turn_id)])))) === 'done'
        const after = (await scene.store.findTurn(ids.turn_id))?.status
        // nothing admits a turn yet: the store knows no way out of waiting_approval
        const mayMove = from !== 'waiting_approval' && turnMoves[from].includes(to)
        if (moved !== mayMove || after !== (moved ? to : from)) wrong.push(`${from} -> ${to}: ${moved ? 'moved' : 'refused'}`)
      }
    }
    expect(wrong).toEqual([])
  })

  it('[call.no-other-move] [call.settled-absorbs] a call makes every move of its table and no other', async () => {
    const scene = await openTestStore()
    const ids = await newTurn(scene.store, 'calls')
    await scene.store.commit(work(ids, [claim(ids.turn_id, 1)]))
    const outcomes: readonly CallOutcome[] = ['succeeded', 'failed', 'interrupted', 'denied', 'rejected', 'expired']
    const wrong: string[] = []
    let ordinal = 0
    const tryMove = async (from: CallStatus, to: CallStatus, change: (callId: string) => Change): Promise<void> => {
      const call = aCall('proposed', { call_id: `c_${String((ordinal += 1))}`, turn_id: ids.turn_id, ordinal })
      await scene.store.commit(work(ids, [{ type: 'call.proposed', call }]))
      const settled = callMoves[from].length === 0
      await scene.connection.atomically([{
        text: 'UPDATE calls SET status = ?, result = ? WHERE call_id = ?', values: [from, settled ? call.arguments.content_id : null, call.call_id],
      }])
      const moved = (await codeOf(scene.store.commit(work(ids, [change(call.call_id)])))) === 'done'
      const after = (await scene.store.findCall(call.call_id))?.status
      if (moved === callMoves[from].includes(to) && after === (moved ? to : from)) return
      wrong.push(`${change('c').type} ${from} -> ${to}: ${moved ? 'moved' : 'refused'}`)
    }
    for (const from of callStatuses) {
      const base = { turn_id: ids.turn_id, from, at }
      for (const to of ['allowed', 'held', 'denied'] as const) {
        const verdict = { to, reason: null, reasons: [], function_digest: null, approval_id: null, result: to === 'denied' ? content('no') : null }
        await tryMove(from, to, (call_id) => ({ ...base, type: 'call.judged', call_id, ...verdict }))
      }
      await tryMove(from, 'started', (call_id) => ({ ...base, type: 'call.started', call_id, epoch: 1, attempts: 1 }))
      for (const to of outcomes) {
        await tryMove(from, to, (call_id) => ({ ...base, type: 'call.settled', call_id, to, reason: null, result: content('r') }))
      }
    }
    expect(wrong).toEqual([])
  })

  it('a change that starts from another status than the row has is a conflict', async () => {
    const { store } = await openTestStore()
    const ids = await newTurn(store, 'a')
    await store.commit(work(ids, [claim(ids.turn_id, 1), { type: 'call.proposed', call: aCall('proposed', { turn_id: ids.turn_id }) }]))
    const change: Change = { type: 'call.started', turn_id: ids.turn_id, call_id: 'c_proposed', from: 'allowed', epoch: 1, attempts: 1, at }
    expect(await codeOf(store.commit(work(ids, [change])))).toBe('conflict')
  })

  it('[approval.closed-absorbs] [commit.decide-once] of many decisions at once one counts, and a closed question takes no other answer', async () => {
    const { store, another } = await openTestStore()
    const commits = [...commitsOf()]
    const decide = commits[4]!
    for (const commit of commits.slice(0, 4)) await store.commit(commit)
    const others = [store, another().store, another().store, store]
    const results = await Promise.all(others.map((one) => codeOf(one.commit(decide))))
    expect(results.sort()).toEqual(['conflict', 'conflict', 'conflict', 'done'])
    const change = decide.changes[0] as Extract<Change, { type: 'approval.decided' }>
    const close: Change = { type: 'approval.closed', turn_id: change.turn_id, approval_id: change.approval_id, status: 'cancelled', at }
    for (const again of [change, { ...change, status: 'rejected' as const }, close]) {
      expect(await codeOf(store.commit({ actor: 'x', at, session_id: decide.session_id, changes: [again] }))).toBe('conflict')
    }
    expect(await store.findApproval(change.approval_id)).toMatchObject({ status: 'approved' })
  })

  it('[execution.immutable] no column of an execution can be changed, nor can it be taken away', async () => {
    const scene = await openTestStore()
    const { execution_id } = await recordTurn(scene.store)
    const before = JSON.stringify(await scene.store.findExecution(execution_id))
    const columns = (await scene.connection.query({ text: `SELECT name FROM pragma_table_info('executions')`, values: [] })).map(
      (row) => String(row['name'])
    )
    expect(columns.length).toBeGreaterThan(10)
    for (const column of columns) {
      await expect(
        scene.connection.atomically([{ text: `UPDATE executions SET ${column} = ${column} WHERE execution_id = ?`, values: [execution_id] }])
      ).rejects.toThrow('immutable')
    }
    await expect(scene.connection.atomically([{ text: 'DELETE FROM executions', values: [] }])).rejects.toThrow('immutable')
    expect(JSON.stringify(await scene.store.findExecution(execution_id))).toBe(before)
  })
})

describe('the place of the worker', () => {
  const worker = (id: string, facts: Partial<WorkerRow> = {}): WorkerRow =>
    ({ worker_id: id, pid: 1, pid_start: null, host: 'h', fingerprint: 'f', program: 'serve', started_at: 0, lease_until: 10_000, ...facts })
  const never = (): boolean => false

  it('[home.one-worker] one of many takes it, and keeps it until its lease is over or it gives it up', async () => {
    const { store, another } = await openTestStore()
    const stores = [store, another().store, another().store, another().store]
    const taken = await Promise.all(stores.map((one, index) => one.acquireWorker(worker(`w_${String(index)}`), never, 0)))
    expect(taken.filter((one) => one.acquired)).toHaveLength(1)
    const holder = (await store.currentWorker())!
    for (const { holder: told } of taken) expect(told.worker_id).toBe(holder.worker_id)
    expect(await store.acquireWorker(worker('w_late'), never, 9_999)).toMatchObject({ acquired: false, holder: { worker_id: holder.worker_id } })
    expect(await store.beat(holder.worker_id, 20_000)).toBe(true)
    expect(await store.acquireWorker(worker('w_late'), never, 10_000)).toMatchObject({ acquired: false })
    expect(await store.acquireWorker(worker('w_late', { lease_until: 40_000 }), never, 20_000)).toMatchObject({ acquired: true })
    expect(await store.beat(holder.worker_id, 50_000)).toBe(false)
    await store.releaseWorker('w_late')
    expect(await store.currentWorker()).toBeNull()
  })

  it('[lease.dead-owner-replaced] one that is dead is replaced at once, long before its lease is over, by one of those who try', async () => {
    const { store, another } = await openTestStore()
    await store.acquireWorker(worker('w_dead', { pid: 7, lease_until: 1e12 }), never, 0)
    expect(await store.acquireWorker(worker('w_next'), never, 1)).toMatchObject({ acquired: false })
    const isDead = (other: WorkerRow): boolean => other.pid === 7
    const taken = await Promise.all([store, another().store].map((one, index) => one.acquireWorker(worker(`w_${String(index)}`), isDead, 1)))
    expect(taken.filter((one) => one.acquired)).toHaveLength(1)
  })

  it('[turn.claim-runs] a turn is claimed once under an epoch, and one that waits its turn in a session is not offered', async () => {
    const { store, another } = await openTestStore()
    const ids = await newTurn(store, 'a')
    const other = aTurn({
      ...ids, turn_id: 't_second', execution_id: 'x_a', status: 'queued', created_at: 1, spec_content: { ...content('{}'), content_id: 'k_second' },
    })
    await store.commit(work(ids, [turnCreated(other)]))
    expect(await store.findClaimable(worker('w_1'), at, 9)).toEqual([ids.turn_id])
    const results = await Promise.all([store, another().store].map((one) => codeOf(one.commit(work(ids, [claim(ids.turn_id, 1)])))))
    expect(results.sort()).toEqual(['conflict', 'done'])
    expect(await store.findClaimable(worker('w_1'), at, 9)).toEqual([])
    expect(await store.findClaimable(worker('w_2'), at, 9)).toEqual([ids.turn_id])
  })
})

it('one who listens hears of the commits of another process', async () => {
  const { store, another } = await openTestStore()
  const heard = new Promise<void>((resolve) => store.onHint(resolve))
  await another().store.commit({ actor: 'x', at, session_id: null, changes: [note('x')] })
  await heard
  expect(chainOf(note('x'), null)).toBe('deployment')
})
