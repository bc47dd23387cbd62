/* Rights come from configuration, at the moment they are used; the database and its rows are never believed. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { isHarnessError } from '../../core/errors'
import type { OutputOf } from '../../core/protocol/operations'
import { closePlaces, openPlace, type Place } from '../support/place'
import { until } from '../support/until'

afterEach(closePlaces)

const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
const note = { function_id: 'shop::note', arguments: { text: 'n' } }
const script = [{ calls: [refund] }, { text: 'Done.' }]
const everything = ['turns:write', 'turns:read', 'identity:read', 'approvals:decide', 'admin'] as const

const configOf = (place: Place): string => path.join(place.folder, 'harness.yaml')
/** Changes harness.yaml as a person does, while the harness runs. */
function change(place: Place, from: string | RegExp, to: string): void {
  const before = readFileSync(configOf(place), 'utf8')
  const after = before.replace(from, to)
  expect(after).not.toBe(before)
  writeFileSync(configOf(place), after)
}
/** Changes rows as one may who can write the database. */
function edit(place: Place, text: string, ...values: readonly unknown[]): void {
  const database = new Database(path.join(place.folder, 'harness.db'), { timeout: 5_000 })
  database.prepare(text).run(...values)
  database.close()
}
async function recordOf(place: Place): Promise<string> {
  const database = new Database(path.join(place.folder, 'harness.db'), { readonly: true, timeout: 5_000 })
  const rows = database.prepare(`SELECT changes FROM audit_events WHERE chain = 'deployment' ORDER BY seq`).all() as { changes: string }[]
  database.close()
  return Promise.resolve(rows.map((row) => row.changes).join('\n'))
}
const heldIn = async (place: Place): Promise<NonNullable<OutputOf<'status'>> & { approval_id: string }> => {
  const held = await place.say('Refund.')
  expect(held.state).toBe('held')
  return { ...held, approval_id: held.approvals[0]!.approval_id }
}

describe('the configuration of this moment', () => {
  it('[authority.judged-at-start] [authority.from-configuration] a call that was approved does not run once a rule forbids it', async () => {
    const place = await openPlace({ script })
    const held = await heldIn(place)
    change(place, '  rules:\n', '  rules:\n    - { id: closed, functions: "shop::refund", effect: deny, reason: The shop is closed. }\n')
    await place.decide(held.approval_id, 'approve')
    expect(await place.turn(held.turn_id)).toMatchObject({
      state: 'completed', calls: [{ status: 'denied', reason: 'rule', result: { message: 'The shop is closed.' } }],
    })
    expect(place.functions.sent).toEqual([])
  })

  it('[authority.judged-at-start] nor once its function was changed, taken out, or its approver was', async () => {
    const changes: readonly [string | RegExp, string, object][] = [
      ['http://127.0.0.1:1/refund', 'http://127.0.0.1:2/refund', { code: 'forbidden', message: expect.stringContaining('changed since') }],
      [/ {2}shop::refund:.*\n/, '', { code: 'conflict', message: expect.stringContaining('not in the configuration any more') }],
      ['roles: [approver] }', 'roles: [clerk] }', { code: 'forbidden', message: expect.stringContaining('none of the roles') }],
      ['roles: [approver] }', 'roles: [approver], active: false }', { code: 'forbidden', message: expect.stringContaining('not an approver') }],
    ]
    for (const [from, to, refusal] of changes) {
      const place = await openPlace({ script })
      const held = await heldIn(place)
      change(place, from, to)
      await expect(place.decide(held.approval_id, 'approve')).rejects.toMatchObject(refusal)
      expect(await place.turn(held.turn_id)).toMatchObject({ state: 'held' })
      expect(place.functions.sent).toEqual([])
    }
  })

  it('[authority.judged-at-start] a read that was allowed waits for a person once a rule says so', async () => {
    let slow: () => void = () => undefined
    const place = await openPlace({
      script: [{ calls: [note] }, { calls: [{ function_id: 'shop::look_up', arguments: { order: 'A' } }] }, { text: 'Done.' }],
    })
    place.functions.answer('shop::note', () => new Promise((resolve) => { slow = () => resolve({ kind: 'answered', value: null, is_error: false }) }))
    const sent = await place.harness.send({ message: 'Go.' }, place.caller)
    await until(() => place.functions.sent.length === 1)
    change(place, '  rules:\n', '  rules:\n    - { id: ask, functions: "shop::look_up", effect: hold, reason: Ask first. }\n')
    // another claim takes the new configuration up
    await place.run('shop::secret_drop', {})
    slow()
    expect(await place.turn(sent.turn_id)).toMatchObject({ state: 'held', calls: [{ status: 'succeeded' }, { status: 'held' }] })
    expect(place.functions.count('shop::look_up')).toBe(0)
  })

  it('[authority.from-configuration] what a send asks for gives its turn nothing that configuration does not', async () => {
    const place = await openPlace({ script: [{ calls: [{ function_id: 'shop::secret_drop', arguments: {} }] }, { text: 'Done.' }] })
    const turn = await place.harness.send({ message: 'Go.', options: { functions: { allow: ['*'] } } }, place.caller)
    expect(await place.turn(turn.turn_id)).toMatchObject({ calls: [{ status: 'denied', reason: 'not_available' }] })
    expect(place.model.requests[0]!.functions.map((offer) => offer.id)).not.toContain('shop::secret_drop')
  })

  it('[authority.reload-audited] its fingerprint is on record at the start, and each new one when it is taken up', async () => {
    const place = await openPlace({ script: [{ text: 'Yes.' }] })
    await place.say('Hello?')
    const first = place.harness.authority().fingerprint
    expect(await recordOf(place)).toContain(`"fingerprint":"${first}"`)
    appendFileSync(configOf(place), 'four_eyes: true\n')
    await place.say('Hello?')
    const second = place.harness.authority().fingerprint
    expect(second).not.toBe(first)
    expect(await recordOf(place)).toMatch(new RegExp(`"fingerprint":"${second}","type":"authority.loaded"`))
  })

  it('[authority.reload-audited] one that cannot be read changes nothing: the last good one stays in force', async () => {
    const place = await openPlace({ script })
    const held = await heldIn(place)
    const { fingerprint } = place.harness.authority()
    appendFileSync(configOf(place), 'four_eyes: [\n')
    await place.decide(held.approval_id, 'approve')
    expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed', calls: [{ status: 'succeeded' }] })
    expect(place.harness.authority().fingerprint).toBe(fingerprint)
    expect(await recordOf(place)).not.toContain('authority.loaded')
  })
})

describe('the word of the database', () => {
  it('[authority.verified-at-start] a row that says approved is not believed without a signature that verifies, and is on record', async () => {
    const place = await openPlace({ script })
    const held = await heldIn(place)
    const signature = Buffer.alloc(64).toString('base64')
    const decided = { decision: 'approve', approver: 'alice', decided_at: Date.now(), reason: null, channel: 'command_line', signature }
    edit(place, `UPDATE approval_requests SET status = 'approved', decided = ?, decided_by = 'alice'`, JSON.stringify(decided))
    edit(place, 'UPDATE turns SET wake_at = 1')
    await until(async () => (await place.turn(held.turn_id, 0)).state === 'completed')
    expect(await place.turn(held.turn_id)).toMatchObject({ calls: [{ status: 'denied', reason: 'approval_invalid' }] })
    expect(place.functions.sent).toEqual([])
    expect(await recordOf(place)).toContain('The signature does not verify.')
  })

  it('[authority.verified-at-start] a signature that verified when it was given is verified again when the call starts', async () => {
    const place = await openPlace({ script, worker: false })
    const sent = await place.harness.send({ message: 'Refund.' }, place.caller)
    const first = await place.reopen({ worker: true })
    const held = await first.turn(sent.turn_id)
    const rowsOnly = await first.reopen({ worker: false })
    await rowsOnly.decide(held.approvals[0]!.approval_id, 'approve')
    change(rowsOnly, 'roles: [approver] }', 'roles: [approver], active: false }')
    const last = await rowsOnly.reopen({ worker: true })
    expect(await last.turn(sent.turn_id)).toMatchObject({ state: 'completed', calls: [{ status: 'denied', reason: 'approval_invalid' }] })
    expect(last.functions.sent).toEqual([])
  })

  it('[authority.from-configuration] a principal that configuration does not know, or that is not active, does nothing', async () => {
    const place = await openPlace({ script: [{ calls: [note] }, { text: 'Done.' }] })
    const stranger = { ...place.caller, principal: { ...place.caller.principal, active: false } }
    await expect(place.harness.send({ message: 'Go.' }, stranger)).rejects.toMatchObject({ code: 'forbidden' })
    const sent = await place.harness.send({ message: 'Go.' }, place.callerOf('second'))
    expect(
      await place.harness.status({ turn_id: sent.turn_id, wait_seconds: 10 }, place.callerOf('second'))
    ).toMatchObject({ calls: [{ status: 'succeeded' }] })
    change(place, 'second: { roles: [owner] }', 'second: { roles: [owner], active: false }')
    const again = await place.harness.send({ message: 'Go.', session_id: sent.session_id }, place.callerOf('second'))
    await until(async () => (await place.harness.overview()).turns['completed'] === 2)
    expect(place.functions.count('shop::note')).toBe(1)
    expect(again.turn_id).not.toBe(sent.turn_id)
  })

  it('a scope that a channel does not have is refused, whoever the principal is', async () => {
    const place = await openPlace()
    const narrow = place.harness.localCaller('mcp', ['turns:read'])
    await expect(place.harness.send({ message: 'Go.' }, narrow)).rejects.toMatchObject({
      code: 'forbidden', message: expect.stringContaining('turns:write'),
    })
    await expect(place.harness.verify_audit({}, narrow)).rejects.toMatchObject({ code: 'forbidden' })
    expect(await place.harness.status({ session_id: 's_none' }, narrow)).toBeNull()
  })
})

describe('a stranger', () => {
  /** What one gets, with the ids it asked for taken out. */
  async function answer(work: () => Promise<unknown>, ids: readonly string[]): Promise<string> {
    let found: unknown
    try {
      found = await work()
    } catch (error) {
      found = isHarnessError(error) ? { code: error.code, message: error.message, data: error.data } : error
    }
    return ids.reduce((text, id) => text.replaceAll(id, 'ID'), JSON.stringify(found))
  }

  it('[stranger.as-unknown] gets for the ids of somebody else exactly what unknown ids get, by every operation', async () => {
    const place = await openPlace({ script })
    const held = await heldIn(place)
    const own = await place.harness.send({ message: 'Mine.' }, place.callerOf('second'))
    const stranger = place.callerOf('second', everything)
    const foreign = { session: held.session_id, turn: held.turn_id, approval: held.approval_id }
    const unknown = { session: `s_${'0'.repeat(32)}`, turn: `t_${'0'.repeat(32)}`, approval: `a_${'0'.repeat(32)}` }
    const signed = {
      decision: 'reject' as const, approver: 'alice', reason: 'no', decided_at: 1, channel: 'command_line' as const, signature: 'AAAA',
    }
    const { harness } = place
    const asked = (ids: typeof foreign): (() => Promise<unknown>)[] => [
      () => harness.status({ turn_id: ids.turn }, stranger), () => harness.status({ session_id: ids.session }, stranger),
      () => harness.status({ turn_id: ids.turn, session_id: ids.session, wait_seconds: 0.01 }, stranger),
      () => harness.status({ turn_id: ids.turn, session_id: own.session_id }, stranger),
      () => harness.stop({ session_id: ids.session }, stranger), () => harness.stop({ session_id: ids.session, turn_id: ids.turn }, stranger),
      () => harness.stop({ session_id: own.session_id, turn_id: ids.turn }, stranger),
      () => harness.stop({ session_id: ids.session, turn_id: own.turn_id }, stranger),
      () => harness.send({ message: 'Let me in.', session_id: ids.session }, stranger),
      () => harness.trigger({ call: note, session_id: ids.session }, stranger),
      () => harness.get_approval({ approval_id: ids.approval }, stranger),
      () => harness.decide_approval({ approval_id: ids.approval, ...signed }, stranger),
      () => harness.list_approvals({ session_id: ids.session }, stranger),
    ]
    const [ofForeign, ofUnknown] = [asked(foreign), asked(unknown)]
    for (const [index, work] of ofForeign.entries()) {
      expect(await answer(work, Object.values(foreign))).toBe(await answer(ofUnknown[index]!, Object.values(unknown)))
    }
    expect(await harness.list_approvals({}, stranger)).toMatchObject({ approvals: [] })
    expect(await place.turn(held.turn_id)).toMatchObject({ state: 'held' })
  })

  it('an operator sees the turns of all, and an approver the questions it may decide', async () => {
    const place = await openPlace({ script, config: (key) => readableConfig(key) })
    const held = await heldIn(place)
    expect(await place.harness.status({ turn_id: held.turn_id }, place.callerOf('watcher'))).toMatchObject({ state: 'held' })
    expect(
      await place.harness.get_approval({ approval_id: held.approval_id }, place.callerOf('clerk'))
    ).toMatchObject({ arguments: refund.arguments })
    expect(await place.harness.status({ turn_id: held.turn_id }, place.callerOf('clerk'))).toBeNull()
  })
})

const readableConfig = (publicKey: string): string => `
principals:
  local: { roles: [owner], scopes: ["turns:write", "turns:read"] }
  watcher: { roles: [operator] }
  clerk: { roles: [approver] }
approvers: [{ name: alice, public_key: "${publicKey}" }]
functions:
  shop::refund: { risk: high, schema: { type: object }, http: { url: "http://127.0.0.1:1/refund" } }
`
