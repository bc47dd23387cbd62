/* What the approval page may do, and for whom: one answer counts, by name where configuration lets it, else by an approver's passphrase. */
import { systemClock } from '../../core/clock'
import { operations } from '../../core/protocol/operations'
import { settled, storedRows } from '../support/attacker'
import { openPagePlace, passphrase, type PageFacts } from '../support/page-place'
import { closePlaces } from '../support/place'

afterEach(closePlaces)

const failure = async (work: Promise<unknown>): Promise<{ code: string; message: string; data: object }> => {
  const error: unknown = await work.then(() => new Error('It was taken.'), (thrown: unknown) => thrown)
  const { code, message, data } = error as { code: string; message: string; data: object }
  return { code, message, data }
}

describe('an answer by name', () => {
  it('[page.post-decides-once] [page.name-unverified] releases the call once, under a name that says it is not verified', async () => {
    const { place, held, open, answer } = await openPagePlace()
    const { approval_id, turn_id } = await held()
    expect(await open(approval_id)).toMatchObject({ answer_by: 'name', arguments: { order: 'A-1', amount: 20 }, is_current: true, status: 'pending' })
    const named = 'Ann (by the page, name not verified)'
    expect(await answer(approval_id)).toEqual({ approval_id, status: 'approved', decided_by: named })
    expect(await place.turn(turn_id)).toMatchObject({ state: 'completed', approvals: [{ status: 'approved', decided_by: named }] })
    expect(place.functions.count('shop::refund')).toBe(1)
    expect(await failure(answer(approval_id))).toMatchObject({ code: 'approval_closed', message: expect.stringContaining(named) as string })
    expect(place.functions.count('shop::refund')).toBe(1)
    expect(await place.harness.verify_audit({}, place.caller)).toMatchObject({ verdict: 'good' })
  })

  it('[page.get-decides-nothing] is not given by looking, however often', async () => {
    const { place, held, open } = await openPagePlace()
    const { approval_id, turn_id } = await held()
    await settled(place)
    const before = storedRows(place)
    await Promise.all(Array.from({ length: 5 }, () => open(approval_id)))
    expect(storedRows(place)).toEqual(before)
    expect(await place.turn(turn_id)).toMatchObject({ state: 'held' })
  })

  it('[page.post-decides-once] counts once when many come at once, also beside the command line', async () => {
    const { place, held, answer } = await openPagePlace()
    const { approval_id, turn_id } = await held()
    const answers = await Promise.allSettled([
      ...Array.from({ length: 4 }, (_, index) => answer(approval_id, { responder: `Ann ${String(index)}` })),
      ...Array.from({ length: 4 }, () => answer(approval_id, { decision: 'reject', reason: 'no' })),
      place.decide(approval_id, 'approve'),
    ])
    expect(answers.filter((one) => one.status === 'fulfilled')).toHaveLength(1)
    for (const one of answers) if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'approval_closed' })
    const turn = await place.turn(turn_id)
    expect(place.functions.count('shop::refund')).toBe(turn.approvals[0]!.status === 'approved' ? 1 : 0)
  })

  it('needs a reason to reject, which is told; the call never runs', async () => {
    const { place, held, answer } = await openPagePlace()
    const { approval_id, turn_id } = await held()
    for (const reason of [null, ' ']) expect(await failure(answer(approval_id, { decision: 'reject', reason }))).toMatchObject({ code: 'invalid_input' })
    expect(await answer(approval_id, { decision: 'reject', reason: 'No receipt.' })).toMatchObject({ status: 'rejected' })
    expect(await place.turn(turn_id)).toMatchObject({ state: 'cancelled', reason: 'rejected', approvals: [{ reason: 'No receipt.' }] })
    expect(place.functions.sent).toEqual([])
  })

  it.each(['Ann\u202eB', 'Ann\nB', '\u2066Ann', 'A\u0007'])('is refused under a name that hides something: %j', async (responder) => {
    const { held, answer } = await openPagePlace()
    expect(await failure(answer((await held()).approval_id, { responder }))).toMatchObject({ code: 'invalid_input' })
  })

  it('[page.four-eyes] is refused under the name of who asked, and taken under another', async () => {
    const { place, held, answer } = await openPagePlace({ four_eyes: true })
    const { approval_id, turn_id } = await held()
    expect(await failure(answer(approval_id, { responder: 'Local' }))).toMatchObject({ code: 'forbidden', message: expect.stringContaining('Four eyes') as string })
    expect(await place.turn(turn_id)).toMatchObject({ state: 'held' })
    expect(await answer(approval_id)).toMatchObject({ status: 'approved' })
  })
})

describe('who may answer', () => {
  const ways: readonly (readonly [PageFacts, string, string])[] = [
    [{}, 'shop::refund', 'name'],
    [{ page: 'off' }, 'shop::refund', 'passphrase'],
    [{ page: 'inactive' }, 'shop::refund', 'passphrase'],
    [{ page: 'foreign' }, 'shop::refund', 'passphrase'],
    [{ page: 'off', alice: false }, 'shop::refund', 'nobody'],
    [{ profile: 'server' }, 'shop::refund', 'passphrase'],
    [{ profile: 'server' }, 'shop::ship', 'name'],
    [{ profile: 'server', alice: false }, 'shop::refund', 'nobody'],
  ]
  it.each(ways)('[page.assurance] with %j, for %s: %s', async (facts, functionId, by) => {
    const { place, held, open, answer } = await openPagePlace(facts)
    const { approval_id, turn_id } = await held(functionId)
    expect(await open(approval_id)).toMatchObject({ answer_by: by, approvers: facts.alice === false ? [] : ['alice'] })
    if (by === 'name') {
      expect(await answer(approval_id)).toMatchObject({ status: 'approved' })
      expect(await place.turn(turn_id)).toMatchObject({ state: 'completed' })
      return
    }
    expect(await failure(answer(approval_id))).toMatchObject({ code: 'forbidden' })
    if (by === 'passphrase') expect(await answer(approval_id, { responder: 'alice', passphrase })).toEqual({ approval_id, status: 'approved', decided_by: 'alice' })
    else expect(await failure(answer(approval_id, { responder: 'alice', passphrase }))).toMatchObject({ code: 'forbidden' })
    await settled(place)
    expect(place.functions.count(functionId)).toBe(by === 'passphrase' ? 1 : 0)
  })

  it('an approver may also give a passphrase where a name would do', async () => {
    const { held, answer } = await openPagePlace()
    expect(await answer((await held()).approval_id, { responder: 'alice', passphrase })).toMatchObject({ decided_by: 'alice' })
  })

  it('[page.lockout] wrong passphrases count, lock, and decide nothing', async () => {
    const { place, held, answer } = await openPagePlace({ page: 'off' })
    const { approval_id, turn_id } = await held()
    const tried = async (): Promise<string> => (await failure(answer(approval_id, { responder: 'alice', passphrase: 'not this one at all' }))).code
    expect([await tried(), await tried(), await tried(), await tried(), await tried(), await tried()]).toEqual([...Array<string>(5).fill('wrong_passphrase'), 'approver_locked'])
    expect(await failure(answer(approval_id, { responder: 'alice', passphrase }))).toMatchObject({ code: 'approver_locked' })
    expect(await failure(place.harness.unlock('alice', passphrase))).toMatchObject({ code: 'approver_locked' })
    expect(await place.turn(turn_id)).toMatchObject({ state: 'held' })
    expect(JSON.stringify(storedRows(place))).not.toContain('not this one')
  })

  it('[page.link-key] with a wrong key an approval looks as one that does not exist, and is not answered', async () => {
    const { place, held, open, answer } = await openPagePlace()
    const [{ approval_id, turn_id }, other] = [await held(), await held('shop::ship')]
    const [key, others] = await Promise.all([place.harness.linkKey(approval_id), place.harness.linkKey(other.approval_id)])
    const unknown = `a_${'0'.repeat(32)}`
    await settled(place)
    const before = storedRows(place)
    for (const wrong of [others, 'x', key.toUpperCase(), `${key}0`, key.slice(1), 'ü'.repeat(64)]) {
      const told = [await failure(open(approval_id, wrong)), await failure(answer(approval_id, { link_key: wrong }))]
      const expected = [await failure(open(unknown, wrong)), await failure(answer(unknown, { link_key: wrong }))]
      expect(JSON.stringify(told).replaceAll(approval_id, unknown)).toBe(JSON.stringify(expected))
      expect(told.map(({ code }) => code)).toEqual(['not_found', 'not_found'])
    }
    expect(await failure(open(unknown))).toMatchObject({ code: 'not_found' })
    expect(storedRows(place)).toEqual(before)
    expect(await place.turn(turn_id)).toMatchObject({ state: 'held' })
  })

  it('nobody, once it has expired', async () => {
    let ahead = 0
    const { place, held, answer } = await openPagePlace({}, { clock: { ...systemClock, now: () => Date.now() + ahead } })
    const { approval_id } = await held()
    ahead = 25 * 3_600_000
    expect(await failure(answer(approval_id))).toMatchObject({ code: 'approval_closed' })
    expect(place.functions.sent).toEqual([])
  })

  it('[page.not-for-models] no model: the operations of the page are no tools, and none that is a tool tells the link', async () => {
    expect([operations.open_approval.mcp, operations.answer_approval.mcp]).toEqual([null, null])
    const { place, held } = await openPagePlace()
    const { approval_id, turn_id } = await held()
    const { harness, caller } = place
    const told = [await harness.list_approvals({}, caller), await harness.get_approval({ approval_id }, caller), await harness.status({ turn_id }, caller)]
    expect(JSON.stringify(told)).not.toContain(await harness.linkKey(approval_id))
  })
})

describe('what was shown', () => {
  it('[page.shown-is-signed] is what is decided: a function that was changed since is refused', async () => {
    const { place, held, open, answer, change } = await openPagePlace()
    const { approval_id, turn_id } = await held()
    const { approval_digest } = await open(approval_id)
    change('http://127.0.0.1:1/refund', 'http://127.0.0.1:2/refund')
    expect(await failure(answer(approval_id, { approval_digest }))).toMatchObject({ code: 'conflict' })
    expect(await failure(answer(approval_id))).toMatchObject({ code: 'conflict' })
    expect(await open(approval_id)).toMatchObject({ is_current: false })
    expect(await place.turn(turn_id)).toMatchObject({ state: 'held' })
    expect(place.functions.sent).toEqual([])
  })

  it('[page.too-large] is all of it, or it is not approved there; it may be rejected', async () => {
    const { held, answer } = await openPagePlace()
    const { approval_id } = await held('shop::ship', { text: 'x'.repeat(70_000) })
    expect(await failure(answer(approval_id))).toMatchObject({ code: 'too_large', message: expect.stringContaining(`agent-harness approvals approve ${approval_id}`) as string })
    expect(await answer(approval_id, { decision: 'reject', reason: 'Too long.' })).toMatchObject({ status: 'rejected' })
  })
})
