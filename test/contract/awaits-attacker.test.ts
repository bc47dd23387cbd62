/*
 * The attacker of design D5 against awaits: one who may write the database, but holds no key. No row that he makes or edits gets an address
 * called that its owner did not give for it, and nobody is told of turns that are not his. What he can do is to keep a callback back.
 */
import { sha256 } from '../../core/digest'
import { attack, look, tamperingFound, type Attacker } from '../support/attacker'
import { awaitScene, heldTurn, newAwaitId, quiet, restart, rowOf, waitingExecution, type AwaitScene } from '../support/await-scene'
import { closePlaces } from '../support/place'
import { closeHosts } from '../support/waiting-host'

let scene: AwaitScene

afterEach(async () => {
  await closePlaces()
  await closeHosts()
})

interface Struck {
  readonly await_id: string
  readonly turn_id: string
  readonly approval_id: string
  /** A second turn, and the await on it, which is nobody's business here. */
  readonly other: { readonly await_id: string; readonly turn_id: string }
}

async function waiting(): Promise<Struck> {
  scene = await awaitScene()
  const { turn_id, approval_id } = await heldTurn(scene)
  const { await_id } = await waitingExecution(scene, 'one', [turn_id], { until: 'ended', deadline: Date.now() + 3_600_000 })
  const second = await heldTurn(scene)
  const other = await waitingExecution(scene, 'other', [second.turn_id], { until: 'ended' })
  return { await_id, turn_id, approval_id, other: { await_id: other.await_id, turn_id: second.turn_id } }
}

const isDue = `status = 'due', next_at = 1, due_at = 1, news = news + 1`
const edit = (db: Attacker, awaitId: string, set: string, ...values: (string | number | null)[]): void => {
  if (db.run(`UPDATE awaits SET ${set} WHERE await_id = ?`, ...values, awaitId) !== 1) throw new Error('no such await')
}

type Strike = (db: Attacker, struck: Struck) => void

const forged = (db: Attacker, struck: Struck, change: Record<string, string | number | null>): void => {
  db.insert('awaits', { ...db.row('SELECT * FROM awaits WHERE await_id = ?', struck.await_id), ...change, status: 'due', next_at: 1, due_at: 1 })
}
const address = (db: Attacker): string => {
  const text = scene.host.resumeUrl('evil')
  db.insert('contents', { content_id: 'k_evil', salt: 'salt', digest: sha256('salt', '\0', text), text, created_at: 1 })
  return 'k_evil'
}

const strikes: readonly (readonly [string, Strike, tampered: boolean])[] = [
  ['a forged row with an address in clear', (db, struck) => { forged(db, struck, { await_id: 'forged_by_attacker', callback: address(db), seal: 'x' }) }, true],
  ['a copy of a row under another id', (db, struck) => { forged(db, struck, { await_id: 'forged_by_attacker' }) }, true],
  ['a copy of a row under another owner', (db, struck) => { forged(db, struck, { owner: 'second' }) }, true],
  ['an address in clear', (db, { await_id }) => { edit(db, await_id, `callback = ?, ${isDue}`, address(db)) }, true],
  ['the encrypted address of another await', (db, { await_id, other }) => {
    edit(db, await_id, `callback = ?, ${isDue}`, String(db.row('SELECT callback FROM awaits WHERE await_id = ?', other.await_id)['callback']))
  }, true],
  ['an encrypted address that was edited', (db, { await_id }) => {
    const { callback } = db.row('SELECT callback FROM awaits WHERE await_id = ?', await_id)
    db.run(`UPDATE contents SET text = 'AAAAAAAA' || substr(text, 9) WHERE content_id = ?`, callback ?? '')
    edit(db, await_id, isDue)
  }, true],
  ['a deadline that has passed', (db, { await_id }) => { edit(db, await_id, 'deadline = 1') }, true],
  ['no deadline any more', (db, { await_id }) => { edit(db, await_id, `deadline = NULL, ${isDue}`) }, true],
  ['an until that is sooner', (db, { await_id }) => { edit(db, await_id, `until = 'held_or_ended', ${isDue}`) }, true],
  ['no turns to wait for', (db, { await_id }) => {
    db.run('DELETE FROM await_subjects WHERE await_id = ?', await_id)
    edit(db, await_id, isDue)
  }, true],
  ['another turn, which is over', (db, { await_id }) => {
    db.run('UPDATE await_subjects SET subject_id = ? WHERE await_id = ?', 't_of_somebody', await_id)
    edit(db, await_id, isDue)
  }, true],
  ['a status of due', (db, { await_id }) => { edit(db, await_id, isDue) }, false],
  ['an outcome of done', (db, { await_id }) => { edit(db, await_id, `outcome = 'done', answered = 'x', ${isDue}`) }, false],
  ['an outcome of timed out', (db, { await_id }) => { edit(db, await_id, `outcome = 'timed_out', ${isDue}`) }, false],
  ['values that make no sense', (db, { await_id }) => { edit(db, await_id, `status = 'due', next_at = 'x', attempts = 'y', news = -1, due_at = 'z', created_at = 'q'`) }, false],
]

describe.each([['while the worker runs'], ['while nothing runs']] as const)('%s', (mode) => {
  it.each(strikes)('[await.attacker-called] %s gets nobody called', async (_what, strike, tampered) => {
    const struck = await waiting()
    scene.host.set('evil', 'waiting')
    if (mode === 'while nothing runs') await scene.place.close()
    attack(scene.place, (db) => { strike(db, struck) })
    if (mode === 'while nothing runs') await restart(scene)
    await quiet()
    expect(scene.host.posted).toEqual([])
    expect(scene.host.wrong).toEqual([])
    if (tampered) expect(tamperingFound(scene.place).join('\n')).toMatch(/await .* does not carry its seal/)
    // the harness goes on
    expect(await scene.place.run('shop::look_up', { order: 'A-1' })).toMatchObject({ state: 'completed' })
  })
})

it('[await.attacker-reads] an await whose turns were exchanged tells nobody of them', async () => {
  const struck = await waiting()
  const stranger = { ...scene.caller, principal: scene.place.callerOf('second', ['awaits', 'turns:write', 'turns:read']).principal }
  const own = await scene.place.harness.send({ message: 'Hello.' }, stranger)
  const await_id = newAwaitId()
  await scene.place.harness.await({ await_id, turn_ids: [own.turn_id] }, stranger)
  attack(scene.place, (db) => { db.run('UPDATE await_subjects SET subject_id = ? WHERE await_id = ?', struck.turn_id, await_id) })
  for (const asked of [{}, { turn_ids: [own.turn_id] }, { turn_ids: [struck.turn_id] }]) {
    await expect(scene.place.harness.await({ await_id, ...asked }, stranger)).rejects.toThrow(/altered outside the harness|that you may see/)
  }
})

it('[await.attacker-reads] a row that was given to another owner tells that one nothing', async () => {
  const struck = await waiting()
  const stranger = { ...scene.caller, principal: scene.place.callerOf('second', ['awaits']).principal }
  attack(scene.place, (db) => {
    edit(db, struck.await_id, `owner = 'second'`)
    db.run('UPDATE await_subjects SET owner = ? WHERE await_id = ?', 'second', struck.await_id)
  })
  await expect(scene.place.harness.await({ await_id: struck.await_id }, stranger)).rejects.toMatchObject({ code: 'conflict' })
})

it('[await.attacker-called] one that was given up and is made due again has no address any more', async () => {
  const struck = await waiting()
  await scene.place.harness.unawait({ await_id: struck.await_id }, scene.caller)
  await scene.place.decide(struck.approval_id, 'approve')
  attack(scene.place, (db) => { edit(db, struck.await_id, isDue) })
  await quiet()
  expect(scene.host.posted).toEqual([])
})

it('a row that was taken out is opened again by whoever asks again, and the record verifies', async () => {
  const struck = await waiting()
  attack(scene.place, (db) => {
    db.run('DELETE FROM awaits WHERE await_id = ?', struck.await_id)
    db.run('DELETE FROM await_subjects WHERE await_id = ?', struck.await_id)
  })
  const asked = { await_id: struck.await_id, turn_ids: [struck.turn_id], callback: { url: scene.host.resumeUrl('one') }, until: 'ended' as const }
  expect(await scene.place.harness.await(asked, scene.caller)).toMatchObject({ status: 'pending' })
  expect(look(scene.place, (db) => db.rows('SELECT * FROM awaits'))).toHaveLength(2)
  expect(rowOf(scene, struck.await_id)['status']).toBe('waiting')
  expect(await scene.place.harness.verify_audit({}, scene.place.caller)).toMatchObject({ verdict: 'good' })
})
