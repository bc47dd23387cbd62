/*
 * The harness behind HTTP, over real sockets with real tokens: the suite of the one in the process, and what only distance can bring.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { removeTokenFromConfig } from '../../core/config'
import { HarnessError, isHarnessError } from '../../core/errors'
import type { Caller } from '../../core/identity/principal'
import { tokenHash } from '../../core/identity/tokens'
import { operations, type OperationName } from '../../core/protocol/operations'
import { postTo, remoteHarness, type Post } from '../../core/protocol/remote-harness'
import { attack } from '../support/attacker'
import { openDoor, tokenLine, tokenNamed } from '../support/http-door'
import { closePlaces, openPlace, type Place } from '../support/place'
import { harnessSuite, readerScopes, suiteConfig } from './harness-suite'
import { until } from '../support/until'

const tokens = `
tokens:
${tokenLine('local', 'local')}${tokenLine('second', 'second')}${tokenLine('n8n', 'n8n', ', callbacks: ["http://127.0.0.1:5678/"]')}${tokenLine('reader', 'local', `, scopes: [${readerScopes.map((scope) => `"${scope}"`).join(', ')}]`)}`
const config = (publicKey: string): string => suiteConfig(publicKey, tokens)

/** The caller of a method counts for nothing: this one has no rights and no name. */
const nobody: Caller = { principal: { id: 'nobody', type: 'agent', name: '', roles: [], scopes: [], active: false }, source: { type: 'watcher', id: '' }, callbacks: [] }

harnessSuite('behind HTTP', async (options) => {
  const place = await openPlace({ ...options, config })
  const door = await openDoor(place)
  return { place, as: (party) => ({ harness: door.remote(party), caller: nobody }), close: () => door.close() }
})

afterEach(closePlaces)

const problem = async (work: Promise<unknown>): Promise<HarnessError> => {
  const error: unknown = await work.then((answer) => new Error(`answered: ${JSON.stringify(answer)}`), (thrown: unknown) => thrown)
  if (!isHarnessError(error)) throw error
  return error
}

it('[remote.same] refuses in the very words of the harness in the process', async () => {
  const place = await openPlace({ config })
  const door = await openDoor(place)
  const remote = door.remote('local')
  const bad: readonly (readonly [OperationName, unknown])[] = [
    ['send', {}], ['send', { message: 'x', agent: 'nobody' }], ['send', { message: 'x', session_id: 's_none' }], ['trigger', { call: {} }],
    ['stop', { session_id: 's_none' }], ['get_approval', { approval_id: 'a_none\u202e' }], ['status', {}], ['send', { message: 'x'.repeat(1_100_000) }],
    ['list_functions', { deep: Array.from({ length: 120 }).reduce<unknown>((inner) => [inner], 1) }],
    ['list_functions', { deep: Array.from({ length: 200 }).reduce<unknown>((inner) => [inner], 1) }],
  ]
  type Method = (input: unknown, caller: Caller) => Promise<unknown>
  for (const [name, input] of bad) {
    const here = await problem((place.harness[name] as Method)(input, place.caller))
    const there = await problem((remote[name] as Method)(input, nobody))
    expect([there.code, there.message, there.retry, there.data]).toEqual([here.code, here.message, here.retry, here.data])
  }
  await door.close()
})

it('[remote.unreachable] no harness at the address is an error that names the address and may be tried again', async () => {
  const server = createServer((_request, response) => response.socket?.destroy()).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const address = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`
  const remote = remoteHarness(postTo(address, tokenNamed('local')), { address })
  const cut = await problem(remote.send({ message: 'Hello?' }, nobody))
  expect(cut).toMatchObject({ code: 'harness_unreachable', retry: true, message: expect.stringContaining(address) })
  expect(cut.message).toContain('It may have got the request all the same.')
  await new Promise((resolve) => server.close(resolve))
  const gone = await problem(remote.status({ turn_id: 't' }, nobody))
  expect(gone).toMatchObject({ code: 'harness_unreachable', message: expect.stringMatching(/^status: no harness answers at http:\/\/127.0.0.1:\d+ \(ECONNREFUSED\)\. Is /) })
  expect(JSON.stringify([cut.message, cut.data, gone.message, gone.data])).not.toContain('ahk_')
})

const answering = (status: number, body: unknown): Post => () => Promise.resolve({ status, body })

it.each([
  [answering(200, { accepted: true }), 'invariant_broken', /^send: the answer of the harness is not of the form it should have \(session_id\)/],
  [answering(200, undefined), 'invariant_broken', /^send: the answer/],
  [answering(401, undefined), 'unauthenticated', /^send: the token/],
  [answering(502, '<html>'), 'harness_unreachable', /^send: what answers is no harness.*HTTP 502/],
  [answering(302, undefined), 'harness_unreachable', /HTTP 302/],
  [answering(404, { error: 'not found' }), 'harness_unreachable', /HTTP 404/],
  [answering(409, { error: { code: 'conflict', message: 'No.', retry: false, data: { a: 1 } } }), 'conflict', /^No\.$/],
  [answering(418, { error: { code: 'teapot', message: 'I am one.' } }), 'invariant_broken', /^send: .*does not know \(teapot\): I am one\.$/],
  [answering(400, { error: { code: 'constructor', message: 'x' } }), 'invariant_broken', /does not know \(constructor\)/],
  [(() => Promise.reject(new Error('secret detail'))), 'harness_unreachable', /^send: no harness answers\. It may/],
])('[remote.checked] an answer that is none becomes an error that names the operation (%#)', async (post, code, says) => {
  const error = await problem(remoteHarness(post).send({ message: 'Hello?' }, nobody))
  expect([error.code, error.message]).toEqual([code, expect.stringMatching(says)])
  expect(error.message).not.toContain('secret detail')
})

it('[remote.checked] passes an answer on whole, with what a newer harness adds', async () => {
  const body = { stopping: true, since: 5 }
  expect(await remoteHarness(answering(200, body)).stop({ session_id: 's' }, nobody)).toEqual(body)
})

it('[http.narrowed] a token has those scopes of its principal that it names, and never more', async () => {
  const lines = `\ntokens:\n${tokenLine('wide', 'second', ', scopes: ["turns:read", admin, "approvals:decide"]')}${tokenLine('all', 'second')}`
  const place: Place = await openPlace({ config: (publicKey) => suiteConfig(publicKey, lines) })
  const door = await openDoor(place)
  expect(await door.remote('wide').verify_audit({}, nobody).catch((error: unknown) => error)).toMatchObject({ code: 'forbidden' })
  expect(await door.remote('wide').send({ message: 'x' }, nobody).catch((error: unknown) => error)).toMatchObject({ code: 'forbidden' })
  expect(await door.remote('wide').status({ turn_id: 't' }, nobody)).toBeNull()
  expect((await door.remote('all').get_user_context({}, nobody)).scopes).toEqual(['turns:write', 'turns:read', 'identity:read'])
  for (const [name, { scope }] of Object.entries(operations)) {
    if (!['admin', 'approvals:decide', 'awaits', 'functions:register'].includes(scope)) continue
    const method = door.remote('all')[name as OperationName] as (input: unknown, caller: Caller) => Promise<unknown>
    expect(await method({}, nobody).catch((error: unknown) => error)).toMatchObject({ code: 'forbidden' })
  }
  await door.close()
})

it('[attacker.token-row] a token row put into the database opens nothing, whatever it says', async () => {
  const place = await openPlace({ config })
  const door = await openDoor(place)
  const forged = tokenNamed('forged')
  attack(place, (db) => {
    db.run('CREATE TABLE tokens (token_id, name, principal, sha256, hash, scopes, expires_at, seal)')
    db.insert('tokens', { token_id: 'k1', name: 'forged', principal: 'local', sha256: tokenHash(forged), hash: tokenHash(forged), scopes: '["admin"]', expires_at: 9e15, seal: 'f'.repeat(64) })
  })
  expect(await place.harness.tokenCaller(forged)).toBeNull()
  expect(await problem(door.remote('forged').verify_audit({}, nobody))).toMatchObject({ code: 'unauthenticated' })
  expect((await door.remote('local').get_user_context({}, nobody)).id).toBe('local')
  await door.close()
})

it('[http.removed-token] one who asks while the file is read anew waits for what it says', async () => {
  const place = await openPlace({ config })
  const door = await openDoor(place)
  expect((await door.remote('second').get_user_context({}, nobody)).id).toBe('second')
  const before = await place.home.readConfig()
  await place.home.replaceConfig(before, removeTokenFromConfig(before, 'second'))
  const crowd = await Promise.all(Array.from({ length: 8 }, () => place.harness.tokenCaller(tokenNamed('second'))))
  expect(crowd).toEqual(crowd.map(() => null))
  // a file that is broken gives nobody anything: what counted last counts on
  await place.home.replaceConfig(await place.home.readConfig(), 'tokens: [')
  expect(await place.harness.tokenCaller(tokenNamed('second'))).toBeNull()
  expect(await place.harness.tokenCaller(tokenNamed('local'))).not.toBeNull()
  await door.close()
})

it('[http.gone-client] the harness hears at once that nobody waits any longer', async () => {
  const place = await openPlace({ config, script: [{ text: 'Late.', delay_ms: 30_000 }] })
  const signals: AbortSignal[] = []
  const status: Place['harness']['status'] = (input, caller, signal) => {
    if (signal !== undefined) signals.push(signal)
    return place.harness.status(input, caller, signal)
  }
  const door = await openDoor({ harness: { ...place.harness, status } })
  const { turn_id } = await door.remote('local').send({ message: 'Work.' }, nobody)
  const giveUp = new AbortController()
  const waiting = problem(door.remote('local').status({ turn_id, wait_seconds: 45 }, nobody, giveUp.signal))
  await until(() => signals.length === 1)
  expect(signals[0]!.aborted).toBe(false)
  giveUp.abort()
  expect((await waiting).message).toContain('What was started there goes on.')
  await until(() => signals[0]!.aborted, 2)
  expect(await door.remote('local').status({ turn_id }, nobody)).toMatchObject({ state: 'working' })
  await door.close()
})

it('what a token may be called back at goes with its caller, and with no token everywhere', async () => {
  const lines = `\ntokens:\n${tokenLine('n8n-main', 'n8n', ', callbacks: ["http://127.0.0.1:5678", "https://n8n.example/base"]')}${tokenLine('tool', 'n8n')}`
  const { harness } = await openPlace({ config: (publicKey) => suiteConfig(publicKey, lines) })
  expect(await harness.tokenCaller(tokenNamed('n8n-main'))).toMatchObject({ source: { type: 'n8n', id: 'n8n-main' }, callbacks: ['http://127.0.0.1:5678/', 'https://n8n.example/base/'] })
  expect(await harness.tokenCaller(tokenNamed('tool'))).toMatchObject({ source: { type: 'external_system', id: 'tool' }, callbacks: [] })
  expect(await harness.tokenCaller(tokenNamed('other'))).toBeNull()
})
