/*
 * Workflow functions against one who may write the database, against another program with a token, and against an edit at a bad moment:
 * nothing goes to a workflow that did not register here, and no call goes out twice because its function says since that it may.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Json } from '../../core/digest'
import type { Caller } from '../../core/identity/principal'
import type { InputOf, OutputOf } from '../../core/protocol/operations'
import { attack, look, settled, type Row } from '../support/attacker'
import { n8nWebhook, type Webhook } from '../support/n8n-webhook'
import { closePlaces, openPlace, shopConfig, type Place, type PlaceOptions } from '../support/place'
import { until } from '../support/until'

let webhook: Webhook
let place: Place
let key: Buffer = Buffer.alloc(32)

const config = (publicKey: string): string => shopConfig(publicKey)
  .replace('allow: ["shop::*"]', 'allow: ["shop::*", "workflow::*"]')
  .replace('second: { roles: [owner] }', 'second: { roles: [owner], scopes: ["turns:write", "turns:read", "functions:register"] }')

async function openWith(options: PlaceOptions = {}): Promise<void> {
  place = await openPlace({ wrapSource: (source) => source, config, ...options })
  key = place.home.callSigningKey
}

beforeEach(async () => {
  webhook = await n8nWebhook(() => key)
  for (const path of ['/webhook/refund', '/webhook/old']) webhook.behave(path, { as: 'items', items: [{ refunded: true }] })
})
afterEach(async () => {
  await closePlaces()
  await webhook.close()
})

type Registration = InputOf<'register_function'>
const refund = (more: Partial<Omit<Registration, 'workflow'>> = {}, workflow: Partial<Registration['workflow']> = {}): Registration => ({
  id: 'refund', description: 'Refunds an order.', risk: 'low', unattended: [{ argument: 'amount', test: 'at_most', value: 20 }],
  schema: { type: 'object', properties: { amount: { type: 'number' } }, required: ['amount'], additionalProperties: false },
  ...more,
  workflow: { id: 'w1', name: 'Refund', version: 'v1', url: `${webhook.url}/webhook/refund`, ...workflow },
})
const register = (registration: Registration = refund(), caller: Caller = place.caller): Promise<OutputOf<'register_function'>> => place.harness.register_function(registration, caller)
const small: Json = { amount: 5 }
const registration = (): Row => look(place, (db) => db.row('SELECT * FROM registrations'))

/** Does something once between the commit that starts a write and its sending. */
function onceStarted(work: () => void | Promise<void>): PlaceOptions {
  let isOver = false
  return {
    wrapConnection: (plain) => ({
      ...plain,
      async atomically(statements) {
        await plain.atomically(statements)
        if (!isOver && statements.some(({ text, values }) => text.startsWith('UPDATE calls') && values.includes('started'))) {
          isOver = true
          await work()
        }
      },
    }),
  }
}

it('[workflow.row-set-back] a row set back between the start of a write and its sending sends nothing', async () => {
  let old: Row = {}
  await openWith(onceStarted(async () => {
    attack(place, (db) => { db.run('UPDATE registrations SET entry = ?, seal = ?, updated_at = ?', old['entry']!, old['seal']!, old['updated_at']!) })
    // the rows are read again, as a hint has them read
    await place.harness.unregister_function({ id: 'nothing', workflow_id: 'x' }, place.caller)
  }))
  await register(refund({ side_effects: 'read' }, { version: 'v0', url: `${webhook.url}/webhook/old` }))
  old = registration()
  await register()
  const turn = await place.run('workflow::refund', small)
  expect(registration()['seal']).toBe(old['seal'])
  expect(webhook.runs).toEqual([])
  expect(turn).toMatchObject({ state: 'failed', reason: 'call_failed', details: { error: 'not_sent' } })
})

it('[workflow.own-only] another principal neither takes a function over nor takes it back, though it names the same workflow', async () => {
  await openWith()
  await register()
  const second = place.callerOf('second')
  await expect(register(refund({}, { url: `${webhook.url}/webhook/old` }), { ...second, callbacks: [webhook.url] })).rejects.toMatchObject({ code: 'conflict' })
  await expect(place.harness.unregister_function({ id: 'refund', workflow_id: 'w1' }, second)).resolves.toEqual({ removed: false })
  await place.run('workflow::refund', small)
  expect(webhook.runs.map(({ path }) => path)).toEqual(['/webhook/refund'])
})

it('[workflow.own-address] another principal offers no function under the address of one that is there, on whichever host', async () => {
  await openWith()
  await register(refund({ risk: 'high' }))
  const elsewhere = 'http://127.0.0.1:1'
  const second: Caller = { ...place.callerOf('second'), callbacks: [webhook.url, elsewhere] }
  const through = (url: string): Promise<unknown> => register(refund({ id: 'harmless', side_effects: 'read' }, { id: 'w2', url }), second)
  for (const url of [`${webhook.url}/webhook/refund`, `${elsewhere}/webhook/refund`, `${webhook.url}/webhook/%72efund/?a=1`, `${elsewhere}/note`]) {
    await expect(through(url)).rejects.toMatchObject({ code: 'conflict' })
  }
  await place.harness.trigger({ call: { function_id: 'workflow::harmless', arguments: { amount: 9_999 } }, wait_seconds: 10 }, second)
  expect(webhook.runs).toEqual([])
  await through(`${webhook.url}/webhook/old`)
})

it('[workflow.own-only] once who registered it is gone from the configuration its function is gone too, and free for another', async () => {
  await openWith()
  const second: Caller = { ...place.callerOf('second'), callbacks: [webhook.url] }
  await register(refund(), second)
  expect(await place.run('workflow::refund', small)).toMatchObject({ state: 'completed' })
  writeFileSync(place.home.configPath, readFileSync(place.home.configPath, 'utf8').replace(/ {2}second: .*\n/, ''))
  expect(await place.run('workflow::refund', { amount: 6 })).toMatchObject({ state: 'cancelled', reason: 'denied' })
  expect(webhook.runs).toHaveLength(1)
  await register()
  expect(registration()['registered_by']).toBe('local')
})

it('[call.sent-stays-sent] a write that was sent as one that must not be repeated is not sent again when its function says since that it may', async () => {
  await openWith()
  await register()
  webhook.behave('/webhook/refund', { as: 'silent' })
  const { turn_id } = await place.run('workflow::refund', small, 0)
  await until(() => webhook.runs.length > 0)
  // as after a crash: the row says started, under a lease that is over
  const started = look(place, (db) => ({ call: db.row('SELECT * FROM calls'), turn: db.row('SELECT * FROM turns WHERE turn_id = ?', turn_id) }))
  await place.close()
  attack(place, (db) => {
    const { status, result, reason, settled_at } = started.call
    db.run('UPDATE calls SET status = ?, result = ?, reason = ?, settled_at = ?', status!, result!, reason!, settled_at!)
    db.run('UPDATE turns SET status = ?, finished_at = NULL, lease_owner = NULL', 'running')
  })
  place = await place.reopen({ wrapSource: (source) => source })
  webhook.behave('/webhook/refund', { as: 'items', items: [{}] })
  await register(refund({ idempotent: true }, { version: 'v2' }))
  const turn = await place.turn(turn_id)
  await settled(place)
  expect(webhook.runs).toHaveLength(1)
  expect(turn).toMatchObject({ calls: [{ status: 'interrupted' }] })
})
