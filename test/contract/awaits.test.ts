/*
 * Being called back, on a real store and by real HTTP: a host of workflows that answers as n8n does waits for turns and approvals. Whatever
 * happens to either side, whoever waits goes on once, and nobody else is told anything.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { seal } from '../../core/digest'
import { look } from '../support/attacker'
import { awaitScene, heldTurn, newAwaitId, quiet, restart, rowOf, statusIs, waitingExecution, type AwaitScene } from '../support/await-scene'
import { until } from '../support/until'
import { closePlaces } from '../support/place'
import { closeHosts, type Trouble } from '../support/waiting-host'

let scene: AwaitScene

afterEach(async () => {
  expect(scene.host.wrong).toEqual([])
  await closePlaces()
  await closeHosts()
})

const toThe = (execution: string): typeof scene.host.posted => scene.host.posted.filter((post) => post.execution === execution)

describe('asking', () => {
  it('[await.at-once] what is over already is answered at once, with its results, and nobody is called', async () => {
    scene = await awaitScene()
    const turn = await scene.place.run('shop::note', { text: 'x' })
    const { first, ask, await_id } = await waitingExecution(scene, 'one', [turn.turn_id])
    expect(first).toMatchObject({ await_id, status: 'done', deadline: null, turns: [{ turn_id: turn.turn_id, state: 'completed', result: { ok: true } }], approvals: [] })
    expect(await ask()).toEqual(first)
    await wait(2_300)
    expect(scene.host.posted).toEqual([])
    expect(rowOf(scene, await_id)).toMatchObject({ status: 'answered', callback: null })
  })

  it('[await.held-is-news] a turn that waits for a person is news, with the exact arguments and the key of the page', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { first } = await waitingExecution(scene, 'one', [turn_id])
    const link_key = seal(scene.place.home.sealKey, 'approval_link', { approval_id, call_id: first.turns[0]?.calls[0]?.function_call_id ?? '' })
    expect(first).toMatchObject({ status: 'done', turns: [{ state: 'held' }], approvals: [{ approval_id, arguments: { order: 'A-1', amount: 20 }, status: 'pending', link_key }] })
  })

  it('[await.until-ended] until ended, a turn that waits for a person is no news; decided and ended, it is', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { first } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    expect(first).toMatchObject({ status: 'pending', approvals: [{ approval_id }] })
    await quiet()
    expect(scene.host.posted).toEqual([])
    await scene.place.decide(approval_id, 'approve')
    await until(() => scene.host.resumed('one') === 1)
  })

  it('[await.same-id] the same id with other turns, or altered in what it waits for, is a conflict; asked again alone it tells how it stands', async () => {
    scene = await awaitScene()
    const { harness } = scene.place
    const { turn_id } = await heldTurn(scene)
    const other = await heldTurn(scene)
    const { await_id, first } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    await expect(harness.await({ await_id, turn_ids: [turn_id, other.turn_id] }, scene.caller)).rejects.toMatchObject({ code: 'conflict' })
    await expect(harness.await({ await_id, approval_ids: [other.approval_id] }, scene.caller)).rejects.toMatchObject({ code: 'conflict' })
    await expect(harness.await({ await_id, turn_ids: [turn_id], until: 'held_or_ended' }, scene.caller)).rejects.toMatchObject({ code: 'conflict' })
    expect(await harness.await({ await_id }, scene.caller)).toEqual(first)
    await expect(harness.await({ await_id: newAwaitId() }, scene.caller)).rejects.toMatchObject({ code: 'not_found' })
    await expect(harness.await({ await_id: newAwaitId(), turn_ids: [turn_id], approval_ids: ['a_1'] }, scene.caller)).rejects.toMatchObject({ code: 'invalid_input' })
  })

  it('[await.foreign] turns, approvals and awaits of others are as unknown ones', async () => {
    scene = await awaitScene()
    const { harness } = scene.place
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    const stranger = { ...scene.caller, principal: scene.place.callerOf('second', ['awaits']).principal }
    const own = newAwaitId()
    const toldOf = (asked: object): Promise<unknown> => harness.await({ await_id: own, ...asked }, stranger).catch((error: unknown) => String(error))
    const unknown = `t_${'0'.repeat(32)}`
    expect(String(await toldOf({ turn_ids: [turn_id] })).replace(turn_id, unknown)).toBe(await toldOf({ turn_ids: [unknown] }))
    expect(String(await toldOf({ approval_ids: [approval_id] })).replace(approval_id, unknown)).toBe(await toldOf({ approval_ids: [unknown] }))
    for (const id of [await_id, own]) {
      await expect(harness.await({ await_id: id }, stranger)).rejects.toMatchObject({ code: 'not_found' })
      await expect(harness.unawait({ await_id: id }, stranger)).rejects.toMatchObject({ code: 'not_found' })
    }
    expect(look(scene.place, (db) => db.rows('SELECT * FROM awaits WHERE owner = ?', 'second'))).toEqual([])
  })

  it('[await.registered-base] an address is called only below a base that is registered for the caller', async () => {
    scene = await awaitScene()
    const { turn_id } = await heldTurn(scene)
    const { origin } = new URL(scene.host.base)
    const at = (url: string): Promise<string> => scene.place.harness
      .await({ await_id: newAwaitId(), turn_ids: [turn_id], until: 'ended', callback: { url } }, scene.caller)
      .then((answer) => answer.status, (error: unknown) => (error as { code: string }).code)
    for (const url of [
      `${origin}/other`, `${origin}/n8nx/a`, `${origin}/n8n/../other`, `${origin}/n8n/%2e%2e/other`, `${origin}/n8n/..%2fother`, `${origin}/n8n/..%5cother`,
      origin.replace('127.0.0.1', 'localhost') + '/n8n/a', origin.replace('http:', 'https:') + '/n8n/a', 'http://127.0.0.1:1/n8n/a', origin.replace('127.0.0.1', '127.0.0.1.evil.example') + '/n8n/a',
    ]) expect([url, await at(url)]).toEqual([url, 'forbidden'])
    expect(await at(origin.replace('//', '//user:pass@') + '/n8n/a')).toBe('invalid_input')
    expect(await at(`${origin}/n8n/webhook-waiting/5?signature=x`)).toBe('pending')
    expect(await at(`${origin}/n8n?x=1`)).toBe('pending')
  })

  it('[await.sealed-address] the address is not readable in the database, nor on record', async () => {
    scene = await awaitScene()
    const { turn_id } = await heldTurn(scene)
    await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    const all = look(scene.place, (db) => JSON.stringify(['awaits', 'contents', 'audit_events'].map((table) => db.rows(`SELECT * FROM ${table}`))))
    expect(all).not.toMatch(/token-of|webhook-waiting/)
  })
})

describe('being called', () => {
  it('[await.called] [await.same-commit] when its turn ends, whoever waits is called and asks for the results', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id, ask } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    await scene.place.decide(approval_id, 'approve')
    await statusIs(scene, await_id, 'delivered')
    expect(scene.host.posted).toMatchObject([{ execution: 'one', await_id, status: 'done', answered: 200 }])
    expect(await ask()).toMatchObject({ status: 'done', turns: [{ state: 'completed' }] })
    expect(await scene.place.harness.verify_audit({}, scene.place.caller)).toMatchObject({ verdict: 'good', problems: [] })
  })

  it('[execution.awaits-end] [await.approval] an await on an approval ends when it is approved, rejected or expired', async () => {
    scene = await awaitScene()
    for (const decision of ['approve', 'reject'] as const) {
      const { approval_id } = await heldTurn(scene)
      const await_id = newAwaitId()
      scene.host.set(decision, 'waiting')
      const asked = { await_id, approval_ids: [approval_id] }
      expect(await scene.place.harness.await({ ...asked, callback: { url: scene.host.resumeUrl(decision) } }, scene.caller)).toMatchObject({ status: 'pending', turns: [] })
      await scene.place.decide(approval_id, decision)
      await statusIs(scene, await_id, 'delivered')
      expect(await scene.place.harness.await(asked, scene.caller)).toMatchObject({ status: 'done', approvals: [{ approval_id, status: decision === 'approve' ? 'approved' : 'rejected' }] })
    }
  })

  it('[await.early] one that is called before it has stored its waiting is called again very soon', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended', state: 'running' })
    await scene.place.decide(approval_id, 'approve')
    await until(() => toThe('one').length === 1)
    scene.host.set('one', 'waiting')
    await statusIs(scene, await_id, 'delivered')
    expect(toThe('one').map((post) => post.answered)).toEqual([409, 200])
    expect(toThe('one')[1]!.at - toThe('one')[0]!.at).toBeLessThan(500)
  })

  it('two who wait for one turn are both called, each once', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const waiting = [await waitingExecution(scene, 'one', [turn_id], { until: 'ended' }), await waitingExecution(scene, 'two', [turn_id], { until: 'ended' })]
    await scene.place.decide(approval_id, 'approve')
    for (const { await_id } of waiting) await statusIs(scene, await_id, 'delivered')
    expect([toThe('one').length, toThe('two').length, scene.host.resumed('one'), scene.host.resumed('two')]).toEqual([1, 1, 1, 1])
  })

  it('[await.all-turns] one that waits for many turns is called once, when the last of them has ended', async () => {
    scene = await awaitScene()
    const held = [await heldTurn(scene), await heldTurn(scene), await heldTurn(scene)]
    const ids = held.map((turn) => turn.turn_id)
    const { await_id, ask } = await waitingExecution(scene, 'one', [...ids, ids[0]!], { until: 'ended' })
    for (const { approval_id, turn_id } of held.slice(0, 2)) {
      await scene.place.decide(approval_id, 'approve')
      await scene.place.turn(turn_id)
    }
    await quiet()
    expect(scene.host.posted).toEqual([])
    await scene.place.decide(held[2]!.approval_id, 'reject')
    await statusIs(scene, await_id, 'delivered')
    expect(scene.host.posted).toHaveLength(1)
    expect((await ask()).turns.map((turn) => turn.turn_id)).toEqual([...ids, ids[0]])
  })

  it('[await.held-again] a turn that needs a person only later is news then', async () => {
    scene = await awaitScene({ script: [{ calls: [{ function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }], delay_ms: 300 }, { text: 'Done.' }] })
    const sent = await scene.place.harness.send({ message: 'Refund A-1.' }, scene.place.caller)
    const { first, ask, await_id } = await waitingExecution(scene, 'one', [sent.turn_id])
    if (first.status === 'pending') await statusIs(scene, await_id, 'delivered')
    expect(await ask()).toMatchObject({ status: 'done', turns: [{ state: 'held' }] })
  })

  it('[await.deadline] the deadline is the harness’s: whoever waits is called as timed out, once, and it stays so', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const deadline = Date.now() + 600
    const { await_id, ask } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended', deadline })
    await statusIs(scene, await_id, 'delivered')
    expect(Date.now()).toBeGreaterThanOrEqual(deadline)
    expect(Date.now() - deadline).toBeLessThan(1_000)
    await scene.place.decide(approval_id, 'approve')
    await scene.place.turn(turn_id)
    await quiet()
    expect(scene.host.posted).toMatchObject([{ await_id, status: 'timed_out', answered: 200 }])
    expect(await ask()).toMatchObject({ status: 'timed_out', deadline, turns: [{ state: 'completed' }] })
  })

  it('[await.unawait] one that is given up is not called; the turn goes on', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id, ask } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    expect(await scene.place.harness.unawait({ await_id }, scene.caller)).toEqual({ cancelled: true })
    expect(await scene.place.harness.unawait({ await_id }, scene.caller)).toEqual({ cancelled: false })
    await scene.place.decide(approval_id, 'approve')
    expect(await scene.place.turn(turn_id)).toMatchObject({ state: 'completed' })
    await quiet()
    expect(scene.host.posted).toEqual([])
    expect(await ask()).toMatchObject({ status: 'cancelled' })
  })

  it('[await.readdressed] asked again with another address, it is called there', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'old', [turn_id], { until: 'ended' })
    scene.host.set('new', 'waiting')
    await scene.place.harness.await({ await_id, turn_ids: [turn_id], callback: { url: scene.host.resumeUrl('new') } }, scene.caller)
    await scene.place.decide(approval_id, 'approve')
    await statusIs(scene, await_id, 'delivered')
    expect([scene.host.resumed('old'), scene.host.resumed('new')]).toEqual([0, 1])
  })

  it.each([
    ['finished', 'has finished already'], ['failed', 'has finished with error'], ['gone', 'does not exist'],
  ] as const)('[await.orphaned] an execution that is %s is not called again; the turn stays', async (state, words) => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    scene.host.set('one', state)
    await scene.place.decide(approval_id, 'approve')
    await statusIs(scene, await_id, 'orphaned')
    await quiet()
    expect(scene.host.posted).toHaveLength(1)
    expect(rowOf(scene, await_id)['last_answer']).toContain(words)
    expect(await scene.place.turn(turn_id)).toMatchObject({ state: 'completed' })
  })

  it('[await.orphaned] an address whose token is refused is called no more, and an operator is told', async () => {
    const errors: string[] = []
    const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: (_: unknown, text: string) => { errors.push(text) } }
    scene = await awaitScene({ log })
    const { turn_id, approval_id } = await heldTurn(scene)
    const await_id = newAwaitId()
    scene.host.set('one', 'waiting')
    await scene.place.harness.await({ await_id, turn_ids: [turn_id], until: 'ended', callback: { url: `${scene.host.resumeUrl('one')}x` } }, scene.caller)
    await scene.place.decide(approval_id, 'approve')
    await statusIs(scene, await_id, 'orphaned')
    expect(errors.join()).toContain('not valid any more')
    expect(scene.host.resumed('one')).toBe(0)
  })

  it.each<[string, readonly Trouble[], number]>([
    ['is cut', ['cut'], 2], ['is cut after it went on', ['cut_after'], 2], ['answers 503', ['unavailable', 'unavailable'], 3], ['answers 500 once', ['error'], 2],
    ['redirects', ['redirect'], 2], ['says yes to another await', ['foreign_yes'], 2], ['sends five megabytes', ['huge'], 2],
  ])('[await.not-lost] a host that %s is called again, and its execution goes on once', async (_what, troubles, calls) => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    scene.host.trouble('one', ...troubles)
    await scene.place.decide(approval_id, 'approve')
    await until(() => ['delivered', 'orphaned'].includes(String(rowOf(scene, await_id)['status'])))
    expect([toThe('one').length, scene.host.resumed('one')]).toEqual([calls, 1])
    expect(toThe('elsewhere')).toEqual([])
  })

  it('[await.ambiguous] an error twice, after which the caller had asked, counts as taken', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    scene.host.trouble('one', 'error_after', 'error')
    await scene.place.decide(approval_id, 'approve')
    await statusIs(scene, await_id, 'delivered')
    expect([toThe('one').map((post) => post.answered), scene.host.resumed('one')]).toEqual([[500, 500], 1])
  })

  it('[await.not-lost] a host that is down is called until it is up, without spinning', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    await scene.host.down()
    await scene.place.decide(approval_id, 'approve')
    await wait(2_000)
    expect(Number(rowOf(scene, await_id)['attempts'])).toBeLessThanOrEqual(4)
    await scene.host.up()
    await statusIs(scene, await_id, 'delivered')
    expect(scene.host.resumed('one')).toBe(1)
  })

  it('[await.restart] what ended while nobody could be called, and what is to time out, is called after a restart', async () => {
    scene = await awaitScene()
    const [one, two] = [await heldTurn(scene), await heldTurn(scene)]
    const first = await waitingExecution(scene, 'one', [one.turn_id], { until: 'ended' })
    const second = await waitingExecution(scene, 'two', [two.turn_id], { until: 'ended', deadline: Date.now() + 700 })
    await scene.host.down()
    await scene.place.decide(one.approval_id, 'approve')
    await until(() => Number(rowOf(scene, first.await_id)['attempts']) > 0)
    await scene.place.close()
    await scene.host.up()
    await wait(700)
    await restart(scene)
    await statusIs(scene, first.await_id, 'delivered')
    await statusIs(scene, second.await_id, 'delivered')
    expect(scene.host.posted).toMatchObject([{ status: 'timed_out' }, { status: 'done' }].sort((left) => (left.status === scene.host.posted[0]!.status ? -1 : 1)))
  })

  it('[await.restart] closing does not wait for a host that is silent, and the call is made again after it', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended' })
    scene.host.trouble('one', 'silent')
    await scene.place.decide(approval_id, 'approve')
    await until(() => scene.host.posted.length === 1)
    const from = performance.now()
    await scene.place.close()
    expect(performance.now() - from).toBeLessThan(2_000)
    await restart(scene)
    await statusIs(scene, await_id, 'delivered')
    expect(scene.host.posted.map((post) => post.answered)).toEqual([0, 200])
  })

  it('an owner who may do nothing any more is not called', async () => {
    scene = await awaitScene()
    const second = scene.place.callerOf('second')
    const caller = { ...second, principal: { ...second.principal, scopes: [...scene.place.caller.principal.scopes] }, callbacks: null }
    const held = await scene.place.harness.trigger({ call: { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }, wait_seconds: 10 }, caller)
    const await_id = newAwaitId()
    await scene.place.harness.await({ await_id, turn_ids: [held.turn_id], until: 'ended', callback: { url: scene.host.resumeUrl('one') } }, caller)
    await scene.place.close()
    const file = scene.place.home.configPath
    writeFileSync(file, readFileSync(file, 'utf8').replace('second: { roles: [owner] }', 'second: { roles: [owner], active: false }'))
    await restart(scene)
    await scene.place.harness.stop({ session_id: held.session_id, turn_id: held.turn_id }, scene.place.callerOf('watcher', ['turns:write']))
    await statusIs(scene, await_id, 'orphaned')
    expect(scene.host.posted).toEqual([])
  })

  it('a process without a worker opens awaits and calls nobody', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    await restart(scene, { worker: false })
    const { await_id } = await waitingExecution(scene, 'one', [turn_id])
    expect(rowOf(scene, await_id)['status']).toBe('answered')
    const second = await waitingExecution(scene, 'two', [turn_id], { until: 'ended' })
    await scene.place.decide(approval_id, 'approve')
    await quiet()
    expect(scene.host.posted).toEqual([])
    await restart(scene, { worker: true })
    await statusIs(scene, second.await_id, 'delivered')
  })

  it('many who ask at once are all told, and the end is on record once', async () => {
    scene = await awaitScene()
    const { turn_id, approval_id } = await heldTurn(scene)
    const await_id = newAwaitId()
    const ask = { await_id, turn_ids: [turn_id], until: 'ended' as const }
    const askAll = (): Promise<string[]> => Promise.all(Array.from({ length: 20 }, async () => (await scene.place.harness.await(ask, scene.caller)).status))
    expect(new Set(await askAll())).toEqual(new Set(['pending']))
    await scene.place.decide(approval_id, 'approve')
    await scene.place.turn(turn_id)
    expect(new Set(await askAll())).toEqual(new Set(['done']))
    const onRecord = look(scene.place, (db) => db.rows(`SELECT changes FROM audit_events WHERE changes LIKE '%"await.%'`)).map((row) => String(row['changes']).match(/await\.\w+/)?.[0])
    expect(onRecord).toEqual(['await.opened', 'await.closed'])
  })

  it('[speed.callback] from the end of a turn to the first byte of its callback it is at most 50 ms at the median', async () => {
    scene = await awaitScene()
    const times: number[] = []
    for (let run = 0; run < 15; run += 1) {
      const { turn_id, approval_id } = await heldTurn(scene)
      const { await_id } = await waitingExecution(scene, `run-${String(run)}`, [turn_id], { until: 'ended' })
      await scene.place.decide(approval_id, 'approve')
      await statusIs(scene, await_id, 'delivered')
      const ended = Number(look(scene.place, (db) => db.get('turns', turn_id))['finished_at'])
      times.push(performance.timeOrigin + toThe(`run-${String(run)}`)[0]!.at - ended)
    }
    times.sort((left, right) => left - right)
    process.stderr.write(`turn end to callback: median ${times[7]!.toFixed(1)} ms, longest ${times.at(-1)!.toFixed(1)} ms\n`)
    expect(times[7]).toBeLessThanOrEqual(50)
  })
})
