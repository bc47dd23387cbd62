/*
 * n8n workflows as functions, against a receiver that answers as n8n's webhook does: what may be registered and by whom, what a call comes
 * to, and that one to a workflow that is not there waits, is denied, or is known not to have run.
 */
import Database from 'better-sqlite3'
import { writeFileSync } from 'node:fs'
import type { Json } from '../../core/digest'
import { isHarnessError } from '../../core/errors'
import type { Caller } from '../../core/identity/principal'
import { silentLog } from '../../core/log'
import { openHarness } from '../../core/open-harness'
import type { InputOf, OutputOf } from '../../core/protocol/operations'
import { n8nWebhook, type Webhook } from '../support/n8n-webhook'
import { closePlaces, openPlace, shopConfig, type Place, type PlaceOptions } from '../support/place'
import { tamper } from '../support/tamper'
import { until } from '../support/until'

let webhook: Webhook
let place: Place
let key: Buffer = Buffer.alloc(32)

const real = { wrapSource: (source: Parameters<NonNullable<PlaceOptions['wrapSource']>>[0]) => source }
/** Configuration wins over what helpers of other tests say: the globs are the default ones. */
const config = (extra = '') => (publicKey: string): string => shopConfig(publicKey, extra).replace('allow: ["shop::*"]', 'allow: ["shop::*", "workflow::*", "flows::*"]')

async function openWith(options: PlaceOptions = {}): Promise<void> {
  place = await openPlace({ ...real, config: config(), ...options })
  key = place.home.callSigningKey
}

beforeEach(async () => {
  webhook = await n8nWebhook(() => key)
  webhook.behave('/webhook/refund', { as: 'items', items: [{ step: 'first' }, { refunded: true }] })
})
afterEach(async () => {
  await closePlaces()
  await webhook.close()
})

type Registration = InputOf<'register_function'>

const refund = (more: Partial<Omit<Registration, 'workflow'>> = {}, workflow: Partial<Registration['workflow']> = {}): Registration => ({
  id: 'refund', description: 'Refunds an order.', risk: 'low',
  schema: { type: 'object', properties: { order: { type: 'string' }, amount: { type: 'number' } }, required: ['order'], additionalProperties: false },
  unattended: [{ argument: 'amount', test: 'at_most', value: 20 }],
  ...more,
  workflow: { id: 'w1', name: 'Refund', version: 'v1', url: `${webhook.url}/webhook/refund`, ...workflow },
})
const register = (registration: Registration = refund(), caller: Caller = place.caller): Promise<OutputOf<'register_function'>> => place.harness.register_function(registration, caller)
const small: Json = { order: 'A-1', amount: 5 }

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'nothing'
  } catch (error) {
    return isHarnessError(error) ? error.code : `another error: ${String(error)}`
  }
}

function rows(text: string): Record<string, Json>[] {
  const database = new Database(place.home.databasePath, { readonly: true })
  try {
    return database.prepare(text).all() as Record<string, Json>[]
  } finally {
    database.close()
  }
}

/** From the record, all chains. */
function changesOf(type: string): Record<string, Json>[] {
  const changes = rows('SELECT changes FROM audit_events ORDER BY chain, seq').flatMap(({ changes: text }) => (typeof text === 'string' ? (JSON.parse(text) as Record<string, Json>[]) : []))
  return changes.filter((change) => change['type'] === type)
}
describe('registering', () => {
  beforeEach(() => openWith())

  it('[workflow.registers] a workflow becomes a function under the namespace, shown and callable, and the record says so once', async () => {
    expect(await register()).toEqual({ id: 'workflow::refund', risk: 'medium', usually: 'runs' })
    expect(await register()).toEqual({ id: 'workflow::refund', risk: 'medium', usually: 'runs' })
    expect(changesOf('function.registered')).toMatchObject([{ registration: { id: 'workflow::refund', workflow_id: 'w1', status: 'active', registered_by: 'local' } }])
    const { functions } = await place.harness.list_functions({}, place.caller)
    expect(functions.find(({ id }) => id === 'workflow::refund')).toMatchObject({ risk: 'medium', side_effects: 'write', usually: 'waits_for_a_person' })
    expect((await place.harness.verify_audit({}, place.caller)).verdict).not.toBe('broken')
  })

  it('[workflow.id-is-taken] an id of the configuration, of another workflow or of another namespace is refused; one given up is free', async () => {
    await register()
    expect(await codeOf(register(refund({}, { id: 'w2' })))).toBe('conflict')
    expect(await codeOf(register(refund({ id: 'shop::refund' })))).toBe('forbidden')
    expect(await codeOf(register(refund({ id: 'harness::ask_person' })))).toBe('forbidden')
    expect(await codeOf(register(refund({ id: 'Re fund' })))).toBe('invalid_input')
    expect(await place.harness.unregister_function({ id: 'refund', workflow_id: 'w2' }, place.caller)).toEqual({ removed: false })
    expect(await place.harness.unregister_function({ id: 'refund', workflow_id: 'w1' }, place.caller)).toEqual({ removed: true })
    expect(await place.harness.unregister_function({ id: 'refund', workflow_id: 'w1' }, place.caller)).toEqual({ removed: false })
    expect(changesOf('function.unregistered')).toHaveLength(1)
    expect(await codeOf(register(refund({}, { id: 'w2' })))).toBe('nothing')
  })

  it('[workflow.checked] a schema, an address or a caller that configuration would not take is refused, and nothing is stored', async () => {
    expect(await codeOf(register(refund({ schema: { type: 'array' } })))).toBe('invalid_input')
    expect(await codeOf(register(refund({ schema: { type: 'object', properties: { a: { type: 'string', pattern: '(?=a)b' } } } })))).toBe('invalid_input')
    expect(await codeOf(register(refund({ schema: { type: 'object', description: 'x'.repeat(70_000) } })))).toBe('invalid_input')
    expect(await codeOf(register(refund({}, { url: 'http://user:secret@127.0.0.1/x' })))).toBe('invalid_input')
    const there: Caller = { ...place.caller, callbacks: [`${webhook.url}/webhook`] }
    expect(await codeOf(register(refund({}, { url: `${webhook.url}/webhook-other/refund` }), there))).toBe('forbidden')
    expect(await codeOf(register(refund({}, { url: webhook.url.replace('127.0.0.1', '127.0.0.1.evil.example') }), there))).toBe('forbidden')
    expect(await codeOf(register(refund({}, { url: `${webhook.url}/webhook/../rest/refund` }), there))).toBe('forbidden')
    expect(await codeOf(register(refund(), { ...place.caller, callbacks: [] }))).toBe('forbidden')
    expect(await codeOf(register(refund(), place.callerOf('second')))).toBe('forbidden')
    expect(changesOf('function.registered')).toEqual([])
    expect(await codeOf(register(refund(), there))).toBe('nothing')
  })
})

describe('what configuration says', () => {
  it('[workflow.config-rules] the namespace, the floor under the risk and whether own limits count are those of configuration, at each use', async () => {
    await openWith({ config: config('workflows: { namespace: flows, risk_floor: high }') })
    expect(await register()).toEqual({ id: 'flows::refund', risk: 'high', usually: 'waits_for_a_person' })
    expect(await codeOf(register(refund({ id: 'workflow::refund' })))).toBe('forbidden')
    const text = await place.home.readConfig()
    writeFileSync(place.home.configPath, text.replace('risk_floor: high', 'own_limits: false'))
    place = await place.reopen()
    expect(await register()).toEqual({ id: 'flows::refund', risk: 'medium', usually: 'waits_for_a_person' })
    expect(changesOf('function.registered')).toHaveLength(1)
    expect((await place.run('flows::refund', small)).state).toBe('held')
  })
})

describe('a call', () => {
  beforeEach(() => openWith())

  it('[workflow.result-is-last-item] the last item of the last node is the result; no item is an empty object', async () => {
    await register()
    expect(await place.run('workflow::refund', small)).toMatchObject({ state: 'completed', details: { refunded: true } })
    expect(webhook.runs).toMatchObject([{ path: '/webhook/refund', arguments: small }])
    webhook.behave('/webhook/refund', { as: 'items', items: [] })
    expect(await place.run('workflow::refund', small)).toMatchObject({ details: {} })
    webhook.behave('/webhook/refund', { as: 'items', items: { single: 1 } })
    expect(await place.run('workflow::refund', small)).toMatchObject({ details: { single: 1 } })
  })

  it('[workflow.own-limits] a write passes by itself within the limits of its workflow only; unknown counts against it', async () => {
    await register()
    expect((await place.run('workflow::refund', small)).state).toBe('completed')
    expect((await place.run('workflow::refund', { order: 'A-1', amount: 21 })).state).toBe('held')
    expect((await place.run('workflow::refund', { order: 'A-1' })).state).toBe('held')
    expect(webhook.runs).toHaveLength(1)
  })

  it('[workflow.failure-is-a-result] a workflow that failed, refused the signature or was cut says which', async () => {
    await register()
    webhook.behave('/webhook/refund', { as: 'failed' })
    expect(await place.run('workflow::refund', small)).toMatchObject({ is_error: true, reason: 'function_failed', details: { error: 'workflow_failed', message: 'The workflow failed: Error in workflow.' } })
    webhook.behave('/webhook/refund', { as: 'status', status: 504, body: null })
    expect(await place.run('workflow::refund', small)).toMatchObject({ is_error: true, reason: 'interrupted' })
    key = Buffer.alloc(32, 9)
    webhook.behave('/webhook/refund', { as: 'items', items: [{}] })
    const refused = await place.run('workflow::refund', { order: 'A-2', amount: 1 })
    expect(refused).toMatchObject({ is_error: true, details: { error: 'not_authenticated', message: expect.stringContaining('signing key') as string } })
  })

  it('[workflow.slow-is-unknown] one that takes longer than its limit is an unknown outcome, and is not sent again', async () => {
    webhook.behave('/webhook/refund', { as: 'silent' })
    await register(refund({ timeout_ms: 200 }))
    expect(await place.run('workflow::refund', small)).toMatchObject({ is_error: true, reason: 'interrupted' })
    expect(webhook.runs).toHaveLength(1)
  })
})

describe('a workflow that is not there', () => {
  beforeEach(() => openWith())

  const waiting = async (turnId: string): Promise<void> => {
    await until(async () => (await place.turn(turnId, 0)).calls[0]?.reason === 'waits_for_workflow')
  }
  const runsOf = async (turnId: string): Promise<number> => {
    await place.turn(turnId, 10)
    return webhook.runs.length
  }

  it('[function.away-parks] after a start a call waits for its workflow, says so, does not spin, and goes out once it registers again', async () => {
    await register()
    place = await place.reopen({ program: 'n8n' })
    const { turn_id } = await place.run('workflow::refund', small, 0)
    await waiting(turn_id)
    const view = await place.turn(turn_id, 0)
    expect(view).toMatchObject({ state: 'working', status: 'awaiting_functions', detail: expect.stringContaining('workflow::refund') as string, calls: [{ status: 'allowed' }] })
    await new Promise((resolve) => setTimeout(resolve, 1_200))
    expect(changesOf('turn.parked')).toHaveLength(1)
    expect(webhook.requests()).toBe(0)
    await register()
    expect(await runsOf(turn_id)).toBe(1)
    expect(await place.turn(turn_id)).toMatchObject({ state: 'completed', result: { refunded: true } })
    expect(changesOf('function.registered')).toHaveLength(1)
  })

  it('[n8n.changed-refused] a trigger that runs another version than the one registered runs nothing; the next call waits until that version is registered and is judged by it', async () => {
    await register()
    webhook.behave('/webhook/refund', { as: 'status', status: 409, body: { code: 'workflow_changed', message: 'changed' } })
    const refused = await place.run('workflow::refund', small)
    expect(refused).toMatchObject({ state: 'failed', details: { error: 'not_sent', message: expect.stringMatching(/another version/) as string } })
    webhook.behave('/webhook/refund', { as: 'items', items: [{ refunded: true }] })
    const { turn_id } = await place.run('workflow::refund', { ...(small as object), order: 'A-2' }, 0)
    await waiting(turn_id)
    await register(refund({}, { version: '2' }))
    expect(await place.turn(turn_id)).toMatchObject({ state: 'completed', result: { refunded: true } })
  })

  it('[function.live-apart] a harness that starts apart from n8n calls what is registered without waiting to be told again', async () => {
    await register()
    place = await place.reopen()
    expect(await place.run('workflow::refund', small)).toMatchObject({ state: 'completed', details: { refunded: true } })
  })

  it('[workflow.row-set-back] one that starts apart from n8n calls no row that was set back meanwhile to an older one, though sealed', async () => {
    await register()
    const database = new Database(place.home.databasePath, { readonly: true, timeout: 5_000 })
    const older = database.prepare('SELECT entry, seal, updated_at FROM registrations').get() as { entry: string; seal: string; updated_at: number }
    database.close()
    await register(refund({ description: 'Another one.' }, { version: 'v2' }))
    await place.harness.close()
    tamper(place.home.databasePath, ({ run }) => { run('UPDATE registrations SET entry = ?, seal = ?, updated_at = ?', older.entry, older.seal, older.updated_at) })
    place = await place.reopen()
    const { turn_id } = await place.run('workflow::refund', small, 0)
    await waiting(turn_id)
    expect(webhook.requests()).toBe(0)
  })

  it('[function.deactivated-denies] deactivated by hand its calls are denied, one that waits for it too', async () => {
    await register()
    place = await place.reopen({ program: 'n8n' })
    const { turn_id } = await place.run('workflow::refund', small, 0)
    await waiting(turn_id)
    await place.harness.unregister_function({ id: 'refund', workflow_id: 'w1' }, place.caller)
    expect(await place.turn(turn_id)).toMatchObject({ state: 'cancelled', reason: 'denied', calls: [{ status: 'denied', reason: 'not_available' }] })
    expect(await place.run('workflow::refund', small)).toMatchObject({ state: 'cancelled', reason: 'denied' })
    expect(webhook.requests()).toBe(0)
  })

  it('[workflow.away-did-not-run] a write that finds nobody there failed as not sent; the next one waits', async () => {
    await register()
    for (const gone of ['away', 'deaf'] as const) {
      if (gone === 'away') webhook.behave('/webhook/refund', { as: 'away' })
      else await webhook.deafen()
      const failed = await place.run('workflow::refund', { order: gone, amount: 1 })
      expect(failed).toMatchObject({ state: 'failed', reason: 'call_failed', details: { error: 'not_sent', message: expect.stringMatching(/not active.*Nothing ran/s) as string } })
      const { turn_id } = await place.run('workflow::refund', { order: `${gone} again`, amount: 1 }, 0)
      await waiting(turn_id)
      if (gone === 'away') webhook.behave('/webhook/refund', { as: 'items', items: [{}] })
      else await webhook.listen()
      await register()
      expect((await place.turn(turn_id)).state).toBe('completed')
    }
    expect(webhook.runs).toHaveLength(2)
  })

  it('[workflow.read-waits] a read that finds nobody there waits, and runs when its workflow is back', async () => {
    await register(refund({ side_effects: 'read' }))
    webhook.behave('/webhook/refund', { as: 'away' })
    const { turn_id } = await place.run('workflow::refund', small, 0)
    await until(() => webhook.requests() > 0)
    await waiting(turn_id)
    webhook.behave('/webhook/refund', { as: 'items', items: [{ found: 1 }] })
    await register(refund({ side_effects: 'read' }))
    expect(await place.turn(turn_id)).toMatchObject({ state: 'completed', result: { found: 1 } })
    expect(webhook.requests()).toBe(2)
  })

  it('[workflow.waits-and-stops] a turn that waits for a workflow can be stopped, and nothing was sent', async () => {
    await register()
    place = await place.reopen({ program: 'n8n' })
    const { turn_id, session_id } = await place.run('workflow::refund', small, 0)
    await waiting(turn_id)
    await place.harness.stop({ session_id, turn_id }, place.caller)
    expect(await place.turn(turn_id)).toMatchObject({ state: 'cancelled', reason: 'stopped' })
    expect(webhook.requests()).toBe(0)
  })
})

describe('at the same moment, and from elsewhere', () => {
  it('[function.away-parks] a workflow that registers while the turn parks because of it is not missed', async () => {
    let between: (() => Promise<unknown>) | null = null
    await openWith({
      wrapConnection: (plain) => ({
        ...plain,
        async atomically(statements) {
          const parks = statements.some(({ text, values }) => text.includes(`SET status = 'awaiting_functions'`) && values[0] === 'function')
          const now = between
          if (parks && now !== null) {
            between = null
            await now()
          }
          return plain.atomically(statements)
        },
      }),
    })
    await register()
    place = await place.reopen({ program: 'n8n' })
    between = () => register()
    const { turn_id } = await place.run('workflow::refund', small, 0)
    expect(await place.turn(turn_id)).toMatchObject({ state: 'completed', result: { refunded: true } })
    expect(between).toBeNull()
  })

  it('[function.deactivated-denies] taken back through another process it is gone here too; registered there it is known here, and waits', async () => {
    await openWith()
    await register()
    const other = await openHarness({ home: place.home, env: {}, log: silentLog, program: 'command', worker: false, model: place.model })
    try {
      await other.register_function(refund({ id: 'elsewhere' }), other.localCaller('test'))
      await other.unregister_function({ id: 'refund', workflow_id: 'w1' }, other.localCaller('test'))
      await until(() => place.harness.authority().functions.has('workflow::elsewhere') && !place.harness.authority().functions.has('workflow::refund'))
      expect(await place.run('workflow::refund', small)).toMatchObject({ reason: 'denied' })
      const { turn_id } = await place.run('workflow::elsewhere', small, 0)
      await until(async () => (await place.turn(turn_id, 0)).calls[0]?.reason === 'waits_for_workflow')
      expect(webhook.requests()).toBe(0)
    } finally {
      await other.close()
    }
  })
})

describe('what was approved', () => {
  it('[workflow.edit-asks-anew] an approval asked for before the workflow was edited is asked anew', async () => {
    await openWith()
    await register()
    const held = await place.run('workflow::refund', { order: 'A-1', amount: 100 })
    expect(held.state).toBe('held')
    const first = held.approvals[0]?.approval_id ?? ''
    await register(refund({}, { version: 'v2' }))
    await until(async () => (await place.turn(held.turn_id, 0)).approvals.length === 2)
    const { approvals, state } = await place.turn(held.turn_id)
    expect(state).toBe('held')
    expect(approvals.map(({ status }) => status)).toEqual(['cancelled', 'pending'])
    expect(await codeOf(place.decide(first, 'approve'))).toBe('approval_closed')
    const second = approvals[1]?.approval_id ?? ''
    expect(webhook.requests()).toBe(0)
    await place.decide(second, 'approve')
    expect(await place.turn(held.turn_id)).toMatchObject({ state: 'completed', result: { refunded: true } })
    expect(webhook.runs).toHaveLength(1)
  })

  it('[workflow.edit-asks-anew] approved and then edited before it could start, it is asked anew and not sent', async () => {
    await openWith()
    await register()
    place = await place.reopen({ program: 'n8n' })
    const held = await place.run('workflow::refund', { order: 'A-1', amount: 100 })
    await place.decide(held.approvals[0]?.approval_id ?? '', 'approve')
    await until(async () => (await place.turn(held.turn_id, 0)).calls[0]?.reason === 'waits_for_workflow')
    await register(refund({}, { version: 'v2' }))
    await until(async () => (await place.turn(held.turn_id, 0)).state === 'held')
    expect(webhook.requests()).toBe(0)
  })

  it('[function.deactivated-denies] a question about a function that is gone is withdrawn, and its call denied', async () => {
    await openWith()
    await register()
    const held = await place.run('workflow::refund', { order: 'A-1', amount: 100 })
    await place.harness.unregister_function({ id: 'refund', workflow_id: 'w1' }, place.caller)
    await until(async () => (await place.turn(held.turn_id, 0)).state === 'cancelled')
    expect(await place.turn(held.turn_id)).toMatchObject({ reason: 'denied', approvals: [{ status: 'cancelled' }] })
  })
})

describe('rows of one who may write the database', () => {
  beforeEach(() => openWith())

  it('[workflow.forged-row] a row without its seal is no function, and one whose address was changed sends nothing; the record says so once', async () => {
    await register()
    tamper(place.home.databasePath, ({ run }) => {
      run(`UPDATE registrations SET entry = replace(entry, '/webhook/refund', '/webhook/evil')`)
      run(`INSERT INTO registrations SELECT 'workflow::forged', workflow_id, replace(entry, 'workflow::refund', 'workflow::forged'), 'active', seal, registered_by, updated_at FROM registrations`)
    })
    webhook.behave('/webhook/evil', { as: 'items', items: [{}] })
    await until(() => changesOf('tampering.found').length === 2)
    for (const id of ['workflow::refund', 'workflow::forged']) {
      expect(await place.run(id, small)).toMatchObject({ state: 'cancelled', reason: 'denied' })
    }
    await place.run('workflow::forged', small)
    expect(changesOf('tampering.found')).toHaveLength(2)
    expect(webhook.requests()).toBe(0)
    expect(await codeOf(register())).toBe('nothing')
    expect(await place.run('workflow::refund', small)).toMatchObject({ state: 'completed' })
    expect(webhook.runs.map(({ path }) => path)).toEqual(['/webhook/refund'])
  })

  it('[workflow.row-set-back] a row set back to an older one, though sealed, sends nothing', async () => {
    await register(refund({}, { url: `${webhook.url}/webhook/old` }))
    const old = rows('SELECT * FROM registrations')[0] ?? {}
    await register()
    webhook.behave('/webhook/old', { as: 'items', items: [{}] })
    tamper(place.home.databasePath, ({ run }) => { run('UPDATE registrations SET entry = ?, seal = ?, updated_at = ?', old['entry'], old['seal'], old['updated_at']) })
    await new Promise((resolve) => setTimeout(resolve, 600))
    const { turn_id } = await place.run('workflow::refund', small, 0)
    await until(async () => (await place.turn(turn_id, 0)).calls[0]?.reason === 'waits_for_workflow')
    expect(webhook.requests()).toBe(0)
  })
})
