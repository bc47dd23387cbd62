/*
 * What a Harness promises whoever uses it, wherever it runs: one suite for the harness in the process and for the one behind HTTP. Each
 * answer is held against the schema of its operation, and the last test counts that every operation of the table was met.
 */
import { signDecision } from '../../core/approvals/decide'
import { isHarnessError, type HarnessError } from '../../core/errors'
import type { Caller } from '../../core/identity/principal'
import { operations, type Harness, type InputOf, type OperationName, type OutputOf } from '../../core/protocol/operations'
import { storedRows, settled } from '../support/attacker'
import { closePlaces, shopConfig, type Place, type PlaceOptions } from '../support/place'
import { until } from '../support/until'

/** Who asks: the owner, a second user, and the owner by a narrowed way in. */
export const parties = ['local', 'second', 'reader', 'n8n'] as const
export type Party = (typeof parties)[number]

/** What the narrowed way in leaves of the owner's scopes. */
export const readerScopes = ['turns:read'] as const

export interface Subject {
  readonly place: Place
  as(party: Party): { readonly harness: Harness; readonly caller: Caller }
  close(): Promise<void>
}

export type OpenSubject = (options: PlaceOptions) => Promise<Subject>

export const suiteConfig = (publicKey: string, extra = ''): string =>
  shopConfig(publicKey, extra).replace(
    'principals:\n',
    'principals:\n  n8n: { scopes: ["turns:write", "turns:read", "identity:read", awaits, "approvals:decide", "functions:register"] }\n',
  )

type Ask = <Name extends OperationName>(name: Name, input: InputOf<Name>, more?: { as?: Party; signal?: AbortSignal }) => Promise<OutputOf<Name>>

export function harnessSuite(kind: string, openSubject: OpenSubject): void {
  const met = new Map<OperationName, number>()
  const subjects: Subject[] = []
  afterEach(async () => {
    for (const subject of subjects.splice(0)) await subject.close()
    await closePlaces()
  })

  async function open(options: PlaceOptions = {}): Promise<{ place: Place; ask: Ask; refused: typeof refused }> {
    const subject = await openSubject({ config: suiteConfig, ...options })
    subjects.push(subject)
    const ask: Ask = async (name, input, { as = 'local', signal } = {}) => {
      met.set(name, (met.get(name) ?? 0) + 1)
      const { harness, caller } = subject.as(as)
      const answer = await (harness[name] as (input: unknown, caller: Caller, signal?: AbortSignal) => Promise<never>)(input, caller, signal)
      expect(operations[name].output.safeParse(answer)).toMatchObject({ success: true })
      return answer
    }
    async function refused(name: OperationName, input: unknown, as: Party = 'local'): Promise<HarnessError> {
      const error: unknown = await ask(name, input as never, { as }).then((answer) => new Error(`${name} was answered: ${JSON.stringify(answer)}`), (thrown: unknown) => thrown)
      if (!isHarnessError(error)) throw error
      expect(error.message).not.toMatch(/node_modules|\.ts\b|\bat \w+ \(|ahk_/)
      return error
    }
    return { place: subject.place, ask, refused }
  }

  const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
  const nobody = { session: `s_${'0'.repeat(32)}`, turn: `t_${'0'.repeat(32)}`, approval: `a_${'0'.repeat(32)}` }

  describe(`a harness that is ${kind}`, () => {
    it('[remote.same] starts a turn, tells its end to who waits, and goes on in the session', async () => {
      const { ask } = await open()
      const sent = await ask('send', { message: 'Hello?' })
      expect(sent).toMatchObject({ accepted: true, deduplicated: false, merged: false })
      expect(await ask('status', { turn_id: sent.turn_id, wait_seconds: 10 })).toMatchObject({ state: 'completed', result: 'Hello.', question: null })
      const next = await ask('send', { message: 'And?', session_id: sent.session_id })
      expect(next.session_id).toBe(sent.session_id)
      expect(await ask('status', { session_id: sent.session_id, wait_seconds: 10 })).toMatchObject({ state: 'completed', turn_id: next.turn_id })
    })

    it('[remote.same] runs a function, holds a risky one, and sends it once when the decision is signed', async () => {
      const { place, ask } = await open()
      expect(await ask('trigger', { call: { function_id: 'shop::look_up', arguments: { order: 'A-1' } }, wait_seconds: 10 })).toMatchObject({ state: 'completed' })
      const held = await ask('trigger', { call: refund, wait_seconds: 10 })
      expect(held).toMatchObject({ state: 'held', approvals: [{ status: 'pending', function_id: 'shop::refund' }] })
      const { approval_id } = held.approvals[0]!
      expect((await ask('list_approvals', { status: 'pending' })).approvals.map((one) => one.approval_id)).toEqual([approval_id])
      const shown = await ask('get_approval', { approval_id })
      expect(shown).toMatchObject({ arguments: refund.arguments, risk: 'high', is_current: true })
      expect(JSON.stringify([held, shown])).not.toContain('link_key')
      const decision = { decision: 'approve' as const, approver: 'alice', decided_at: Date.now(), reason: null, channel: 'command_line' as const }
      const signed = { approval_id, ...signDecision(place.key, shown.approval_digest, decision) }
      expect(await ask('decide_approval', signed)).toEqual({ approval_id, status: 'approved' })
      expect(await ask('status', { turn_id: held.turn_id, wait_seconds: 10 })).toMatchObject({ state: 'completed' })
      expect(place.functions.count('shop::refund')).toBe(1)
    })

    it('[remote.same] takes no decision that an approver did not sign', async () => {
      const { place, ask, refused } = await open()
      const held = await ask('trigger', { call: refund, wait_seconds: 10 })
      const { approval_id } = held.approvals[0]!
      const unsigned = { approval_id, decision: 'approve', approver: 'alice', decided_at: Date.now(), reason: null, channel: 'command_line', signature: 'AAAA' }
      for (const party of ['local', 'n8n', 'second', 'reader'] as const) {
        expect((await refused('decide_approval', unsigned, party)).code).toMatch(/^(forbidden|not_found)$/)
      }
      expect(await ask('status', { turn_id: held.turn_id })).toMatchObject({ state: 'held' })
      expect(place.functions.sent).toEqual([])
    })

    it('[remote.same] says who asks and what there is for them', async () => {
      const { ask } = await open()
      expect(await ask('get_user_context', {})).toMatchObject({ id: 'local', roles: ['owner'] })
      expect(await ask('get_user_context', {}, { as: 'n8n' })).toMatchObject({ id: 'n8n', type: 'user', scopes: expect.not.arrayContaining(['admin']) })
      const { functions } = await ask('list_functions', {})
      expect(functions.map(({ id, usually }) => [id, usually])).toEqual(expect.arrayContaining([['shop::look_up', 'runs'], ['shop::refund', 'waits_for_a_person']]))
      expect(await ask('verify_audit', {})).toMatchObject({ verdict: expect.stringMatching(/^(good|unknown)$/) })
    })

    it('[remote.same] stops a turn in the middle of a model call', async () => {
      const { ask } = await open({ script: [{ text: 'Late.', delay_ms: 60_000 }] })
      const sent = await ask('send', { message: 'Take your time.' })
      await until(async () => (await ask('status', { turn_id: sent.turn_id }))?.status === 'running')
      expect(await ask('stop', { session_id: sent.session_id })).toEqual({ stopping: true })
      expect(await ask('status', { turn_id: sent.turn_id, wait_seconds: 10 })).toMatchObject({ state: 'cancelled' })
    })

    it('[remote.same] answers a repeated key with what it answered first, and refuses the key with another request', async () => {
      const { ask, refused } = await open()
      const first = await ask('send', { message: 'Once.', idempotency_key: 'k' })
      expect(await ask('send', { message: 'Once.', idempotency_key: 'k' })).toEqual({ ...first, deduplicated: true })
      expect(await refused('send', { message: 'Twice.', idempotency_key: 'k' })).toMatchObject({ code: 'conflict', retry: false })
      const call = { function_id: 'shop::look_up', arguments: { order: 'A-1' } }
      const ran = await ask('trigger', { call, idempotency_key: 'r', wait_seconds: 10 })
      expect(await ask('trigger', { call, idempotency_key: 'r', wait_seconds: 10 })).toMatchObject({ turn_id: ran.turn_id, deduplicated: true })
      // a key belongs to who used it
      expect((await ask('send', { message: 'Twice.', idempotency_key: 'k' }, { as: 'second' })).deduplicated).toBe(false)
    })

    it('[remote.same] shows nobody what is another one\'s, nor that it is there', async () => {
      const { ask, refused } = await open()
      const held = await ask('trigger', { call: refund, wait_seconds: 10 })
      const { approval_id } = held.approvals[0]!
      for (const party of ['second', 'n8n'] as const) {
        for (const input of [{ turn_id: held.turn_id }, { session_id: held.session_id }, { turn_id: nobody.turn }]) expect(await ask('status', input, { as: party })).toBeNull()
        expect((await ask('list_approvals', {}, { as: party })).approvals).toEqual([])
        const [foreign, unknown] = [await refused('get_approval', { approval_id }, party), await refused('get_approval', { approval_id: nobody.approval }, party)]
        expect([foreign.code, foreign.message.replace(approval_id, 'ID')]).toEqual(['not_found', unknown.message.replace(nobody.approval, 'ID')])
        expect((await refused('stop', { session_id: held.session_id }, party)).code).toBe((await refused('stop', { session_id: nobody.session }, party)).code)
      }
      expect(await ask('status', { turn_id: held.turn_id })).toMatchObject({ state: 'held' })
    })

    it('[remote.same] refuses each operation to who lacks its scope, before it looks at anything', async () => {
      const { place, refused } = await open()
      await settled(place)
      const before = storedRows(place)
      for (const [name, { scope }] of Object.entries(operations)) {
        if (scope === 'turns:read') continue
        expect(await refused(name as OperationName, { none: 'of this' }, 'reader')).toMatchObject({ code: 'forbidden', message: expect.stringContaining(scope) })
      }
      expect((await refused('verify_audit', {}, 'n8n')).code).toBe('forbidden')
      expect(storedRows(place)).toEqual(before)
    })

    it('[remote.same] refuses input that is not its operation\'s, naming operation and field', async () => {
      const { place, refused } = await open()
      await settled(place)
      const before = storedRows(place)
      const bad: readonly (readonly [OperationName, unknown, RegExp])[] = [
        ['send', {}, /^send: message/],
        ['send', { message: 'Hi.', more: 1 }, /^send: .*more/],
        ['send', null, /^send: /],
        ['send', { message: 'Hi.', options: { metadata: Number.NaN } }, /^send: the input holds a number/],
        ['send', { message: 'Hi.', session_id: undefined }, /^send: the input holds something that is not JSON/],
        ['send', JSON.parse('{"message": "Hi.", "options": {"metadata": {"__proto__": 1}}}'), /^send: the input has the key "__proto__"/],
        ['trigger', { call: { function_id: 1, arguments: {} } }, /^trigger: call\.function_id/],
        ['status', {}, /^status: give turn_id or session_id/],
        ['status', { turn_id: nobody.turn, wait_seconds: 46 }, /^status: wait_seconds/],
        ['stop', {}, /^stop: session_id/],
        ['list_approvals', { limit: 0 }, /^list_approvals: limit/],
        ['get_approval', { approval_id: '' }, /^get_approval: approval_id/],
        ['decide_approval', { approval_id: nobody.approval }, /^decide_approval: decision/],
        ['get_user_context', { who: 'me' }, /^get_user_context: .*who/],
        ['list_functions', [], /^list_functions: /],
        ['verify_audit', 'all', /^verify_audit: /],
        ['open_approval', { approval_id: nobody.approval }, /^open_approval: link_key/],
        ['answer_approval', { approval_id: nobody.approval, link_key: 'k', decision: 'approve', responder: ' ', reason: null }, /^answer_approval: responder/],
        ['await', { await_id: 'short' }, /^await: await_id/],
        ['await', { await_id: 'a'.repeat(16), turn_ids: [nobody.turn], callback: { url: 'file:///etc/passwd' } }, /^await: callback\.url/],
        ['unawait', {}, /^unawait: await_id/],
        ['register_function', { id: 'refund' }, /^register_function: description/],
        ['unregister_function', { id: 'workflow::refund' }, /^unregister_function: workflow_id/],
      ]
      for (const [name, input, says] of bad) expect(await refused(name, input)).toMatchObject({ code: 'invalid_input', message: expect.stringMatching(says), retry: false })
      expect(storedRows(place)).toEqual(before)
    })

    it('[remote.same] tells the status of an approval that cannot be decided any more', async () => {
      const { place, ask, refused } = await open()
      const held = await ask('trigger', { call: refund, wait_seconds: 10 })
      const { approval_id } = held.approvals[0]!
      await place.decide(approval_id, 'reject')
      expect(await ask('status', { turn_id: held.turn_id, wait_seconds: 10 })).toMatchObject({ state: 'cancelled', reason: 'rejected' })
      const decided = { approval_id, decision: 'approve', approver: 'alice', decided_at: Date.now(), reason: null, channel: 'command_line', signature: 'AAAA' }
      expect(await refused('decide_approval', decided)).toMatchObject({ code: 'approval_closed', data: { status: 'rejected' } })
    })

    it('[http.gone-client] ends the waiting of who gives up, and the turn goes on', async () => {
      const { place, ask } = await open({ script: [{ text: 'Done.', delay_ms: 2_000 }] })
      const sent = await ask('send', { message: 'Work.' })
      const started = performance.now()
      const signal = AbortSignal.timeout(200)
      // in the process it answers how things stand; from afar nobody listens to the answer any more
      const ended = await ask('status', { turn_id: sent.turn_id, wait_seconds: 45 }, { signal }).catch((error: unknown) => error)
      expect(isHarnessError(ended) ? ended.code : (ended as { state: string }).state).toMatch(/^(working|harness_unreachable)$/)
      expect(performance.now() - started).toBeLessThan(1_500)
      expect((await place.turn(sent.turn_id)).state).toBe('completed')
    })

    it('[remote.same] opens an await once, tells how it stands, and gives it up', async () => {
      const { place, ask, refused } = await open()
      const held = await ask('trigger', { call: refund, wait_seconds: 10 }, { as: 'local' })
      const waiting = await ask('await', { await_id: 'the-held-turn-1234', turn_ids: [held.turn_id] })
      expect(waiting).toMatchObject({ status: 'done', turns: [{ turn_id: held.turn_id, state: 'held' }], approvals: [{ arguments: refund.arguments, link_key: expect.any(String) as string }] })
      const ended = { await_id: 'the-end-of-it-12345', turn_ids: [held.turn_id], until: 'ended' as const }
      expect(await ask('await', ended)).toMatchObject({ status: 'pending' })
      expect(await refused('await', { await_id: ended.await_id }, 'n8n')).toMatchObject({ code: 'not_found' })
      expect(await refused('await', { ...ended, await_id: 'another-one-1234567' }, 'n8n')).toMatchObject({ code: 'not_found' })
      expect(await refused('await', ended, 'reader')).toMatchObject({ code: 'forbidden' })
      await place.decide(waiting.approvals[0]!.approval_id, 'approve')
      await ask('status', { turn_id: held.turn_id, wait_seconds: 20 })
      expect(await ask('await', { await_id: ended.await_id })).toMatchObject({ status: 'done', turns: [{ state: 'completed' }], approvals: [] })
      expect(await ask('unawait', { await_id: ended.await_id })).toEqual({ cancelled: false })
    })

    it('[remote.same] shows an approval by the key of its link, and answers it for nobody who may not', async () => {
      const { ask, refused } = await open()
      const held = await ask('trigger', { call: refund, wait_seconds: 10 })
      const [approval] = (await ask('await', { await_id: 'the-approval-12345', turn_ids: [held.turn_id] })).approvals
      const named = { approval_id: approval!.approval_id, link_key: approval!.link_key! }
      expect(await ask('open_approval', named)).toMatchObject({ status: 'pending', arguments: refund.arguments, answer_by: 'nobody' })
      expect(await refused('open_approval', { ...named, link_key: '0'.repeat(64) })).toMatchObject({ code: 'not_found' })
      expect((await refused('answer_approval', { ...named, decision: 'approve', responder: 'Ann', reason: null })).code).toMatch(/^(forbidden|conflict|invalid_input)$/)
      expect(await refused('answer_approval', { ...named, decision: 'approve', responder: 'Ann', reason: null }, 'reader')).toMatchObject({ code: 'forbidden' })
      expect((await ask('get_approval', { approval_id: named.approval_id })).status).toBe('pending')
    })

    it('[remote.same] registers a workflow where its caller may be called, and takes it back', async () => {
      const { ask, refused } = await open()
      const workflow = { id: 'w1', name: 'Refund', version: '1', url: 'http://127.0.0.1:5678/webhook/refund' }
      const offer = { id: 'refund', description: 'Refunds.', schema: { type: 'object' }, workflow }
      expect(await ask('register_function', offer, { as: 'n8n' })).toEqual({ id: 'workflow::refund', risk: 'medium', usually: 'waits_for_a_person' })
      expect(await refused('register_function', offer, 'reader')).toMatchObject({ code: 'forbidden' })
      expect(await refused('register_function', { ...offer, id: 'shop::refund' }, 'n8n')).toMatchObject({ code: 'forbidden' })
      expect(await ask('unregister_function', { id: 'refund', workflow_id: 'w2' }, { as: 'n8n' })).toEqual({ removed: false })
      expect(await ask('unregister_function', { id: 'refund', workflow_id: 'w1' }, { as: 'n8n' })).toEqual({ removed: true })
    })

    it('[remote.same] lets many wait at once', async () => {
      const { ask } = await open({ script: [{ text: 'Done.', delay_ms: 300 }] })
      const sent = await Promise.all([1, 2, 3].map((number) => ask('send', { message: `Work ${String(number)}.` })))
      const waits = sent.flatMap(({ turn_id }) => [1, 2].map(() => ask('status', { turn_id, wait_seconds: 20 })))
      expect((await Promise.all(waits)).map((view) => view?.state)).toEqual(waits.map(() => 'completed'))
    })

    it('[remote.every-operation] every operation of the table was met', () => {
      expect(Object.keys(operations).filter((name) => !met.has(name as OperationName))).toEqual([])
    })
  })
}
