/*
 * Bad input at the door of the core: each piece gets a clear error that says what is wrong, tells nothing else, and changes no row; or its
 * turn ends with a reason. The same over MCP and on the command line is for the suites of those.
 */
import { isHarnessError, type HarnessError } from '../../core/errors'
import { scopes, type Caller } from '../../core/identity/principal'
import { parseStrictJson } from '../../core/json'
import type { Json } from '../../core/digest'
import type { ScriptedReply } from '../../core/model/scripted'
import { settled, storedRows } from '../support/attacker'
import { closePlaces, openPlace, shopConfig, type Place } from '../support/place'

afterEach(closePlaces)

const refund = { order: 'A-1', amount: 20 }
const shopCall = (value: unknown): { function_id: string; arguments: Json } => ({ function_id: 'shop::refund', arguments: value as Json })

/** The error, which must be one of ours, short, and without a path, a stack or a character that could change a screen. */
async function refusal(work: () => Promise<unknown>): Promise<HarnessError> {
  const error: unknown = await work().then(() => new Error('It was taken.'), (thrown: unknown) => thrown)
  if (!isHarnessError(error)) throw error
  expect(error.message).not.toMatch(/\/tmp|\/work|node_modules|\.ts\b|\bat \w+ \(|better-sqlite3|ZodError|(?<!received )undefined|\[object/)
  expect(error.message).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
  expect(error.message.length).toBeLessThan(500)
  return error
}

/** Asks for what must be refused, and shows that nothing was lost or left: not a row is different, and the place works. */
async function refused(place: Place, work: () => Promise<unknown>, code: string, says: RegExp | string): Promise<void> {
  await settled(place)
  const before = storedRows(place)
  const error = await refusal(work)
  expect([error.code, error.message]).toEqual([code, expect.stringMatching(says)])
  expect(storedRows(place)).toEqual(before)
  expect(place.functions.sent).toEqual([])
}

/** Calls an operation with what no type allows. */
const ask = (place: Place, name: string, input: unknown, caller: Caller = place.caller): Promise<unknown> =>
  (place.harness as unknown as Record<string, (input: unknown, caller: Caller) => Promise<unknown>>)[name]!(input, caller)

/** The operation refuses the input as `invalid_input`. */
const refuses = (place: Place, name: string, input: unknown, says: RegExp | string): Promise<void> =>
  refused(place, () => ask(place, name, input), 'invalid_input', says)
const withOptions = (options: unknown): unknown => ({ message: 'Hello.', options })

// ------------------------------------------------------------------------------------------------ ids

const unknown = { session: `s_${'0'.repeat(32)}`, turn: `t_${'0'.repeat(32)}`, approval: `a_${'0'.repeat(32)}` }
type Ids = typeof unknown
const decision = { decision: 'approve', approver: 'alice', reason: null, decided_at: 1, channel: 'command_line', signature: 'AAAA' }
/** Every operation that takes an id. */
const withIds: readonly (readonly [title: string, name: string, input: (ids: Ids) => unknown])[] = [
  ['send to a session', 'send', ({ session }) => ({ message: 'Hello.', session_id: session })],
  ['trigger in a session', 'trigger', ({ session }) => ({ call: shopCall(refund), session_id: session })],
  ['status of a turn', 'status', ({ turn }) => ({ turn_id: turn })],
  ['status of a session', 'status', ({ session }) => ({ session_id: session })],
  ['status of both', 'status', ({ session, turn }) => ({ session_id: session, turn_id: turn })],
  ['stop a session', 'stop', ({ session }) => ({ session_id: session })],
  ['stop a turn', 'stop', ({ session, turn }) => ({ session_id: session, turn_id: turn })],
  ['list approvals of a session', 'list_approvals', ({ session }) => ({ session_id: session })],
  ['get an approval', 'get_approval', ({ approval }) => ({ approval_id: approval })],
  ['decide an approval', 'decide_approval', ({ approval }) => ({ approval_id: approval, ...decision })],
]

/** What came of it, with the ids taken out. */
async function outcome(work: Promise<unknown>, ids: Ids): Promise<string> {
  const text = await work.then((answer) => JSON.stringify(answer), (error: unknown) => `${(error as HarnessError).code}: ${String(error)}`)
  return Object.entries(ids).reduce((told, [name, id]) => told.replaceAll(id, name), text)
}

it.each(withIds)('[stranger.as-unknown] a stranger is told of a foreign id what he is told of an unknown one: %s', async (_title, name, input) => {
  const place = await openPlace()
  const held = await place.run('shop::refund', refund)
  const foreign = { session: held.session_id, turn: held.turn_id, approval: held.approvals[0]!.approval_id }
  await settled(place)
  const before = storedRows(place)
  const stranger = place.callerOf('second', scopes)
  const told = await outcome(ask(place, name, input(unknown), stranger), unknown)
  expect(await outcome(ask(place, name, input(foreign), stranger), foreign)).toBe(told)
  expect(told).toMatch(/^not_found: HarnessError: There is no (turn|session|approval) (turn|session|approval) |^null$|^\{"approvals":\[\]/)
  expect(storedRows(place)).toEqual(before)
  expect(await place.turn(held.turn_id)).toMatchObject({ state: 'held' })
})

it('[bad.unknown-id] an unknown id is named in the error, with what to do', async () => {
  const place = await openPlace()
  const { session, turn, approval } = unknown
  const notFound = (name: string, input: unknown, says: string): Promise<void> =>
    refused(place, () => ask(place, name, input), 'not_found', new RegExp(says))
  await notFound('send', { message: 'Hello.', session_id: session }, `no session ${session} of yours. Check the id`)
  await notFound('stop', { session_id: session, turn_id: turn }, `no turn ${turn} of yours. Check the id`)
  await notFound('get_approval', { approval_id: approval }, `no approval ${approval}.* "agent-harness approvals list"`)
})

it.each(withIds)('[bad.unknown-id] an id of 10,000 characters, or none, is refused: %s', async (_title, name, input) => {
  const place = await openPlace()
  const all = (id: unknown): Ids => ({ session: id, turn: id, approval: id }) as unknown as Ids
  const says = (what: string): RegExp => new RegExp(`^${name}: (session|turn|approval)_id: ${what}`)
  await refuses(place, name, input(all('x'.repeat(10_000))), says('Too big.*128 characters'))
  for (const id of ['', 7, { $ne: null }]) await refuses(place, name, input(all(id)), says(''))
})

it.each([
  ['send', { message: 'Hello.', session_id: 's_\u001b[31m\n\u0000' }],
  ['stop', { session_id: 's_\u001b[31m\n\u0000' }],
  ['get_approval', { approval_id: `a_\u009b31m' OR 1=1 --` }],
])('[bad.unknown-id] control characters in an id are written out, and reach no screen: %s', async (name, input) => {
  const place = await openPlace()
  await refused(place, () => ask(place, name, input), 'not_found', /^There is no (session|turn|approval) "/)
})

it.each([
  ['an unknown one', 'x', /There is no agent "x". Known agents: assistant\./],
  ['one of Object', 'constructor', /There is no agent "constructor"/],
  ['one with control characters', 'x\u001b[31m', /There is no agent "x\\u001b\[31m"/],
  ['a long one', 'x'.repeat(10_000), /^send: agent: Too big/],
])('an agent that is not there is refused at send: %s', async (_title, agent, says) => {
  const place = await openPlace()
  await refuses(place, 'send', { message: 'Hello.', agent }, says)
})

it('[bad.unknown-id] an unknown function looks like a forbidden one, and its turn ends with the reason', async () => {
  const place = await openPlace()
  const answers = await Promise.all(['shop::nothing', 'shop::secret_drop', 'x\u001b[31m'].map((id) => place.run(id, {})))
  for (const { state, reason, details, is_error } of answers) {
    expect({ state, reason, is_error }).toEqual({ state: 'cancelled', reason: 'denied', is_error: true })
    expect(details).toEqual({ error: 'denied', code: 'not_available', message: 'No such function is available here.' })
  }
  await refused(place, () => place.run('x'.repeat(10_000), {}), 'invalid_input', /^trigger: call.function_id: Too big/)
})

// ------------------------------------------------------------------------------------------------ globs and options

const badGlobs = ['Shop::*', 'shop::réfund', 'shop::(a+)+$', 'shop::*\u0000', ' ', '', 'x'.repeat(81), 'shop::refund,shop::note']

it.each(badGlobs)('[bad.glob] a bad glob is refused at send: %j', async (glob) => {
  const place = await openPlace()
  const says = /^Bad glob ".*": a glob holds only a-z, 0-9, _, : and \*, at most 80/
  await refuses(place, 'send', withOptions({ functions: { allow: [glob] } }), says)
  await refuses(place, 'send', withOptions({ functions: { allow: [], deny: ['shop::*', glob] } }), says)
})

it.each([
  ['max_turns', { max_turns: '3' }, /options.max_turns: .*expected number, received string/],
  ['max_turns', { max_turns: -1 }, /options.max_turns/],
  ['max_turns', { max_turns: 1.5 }, /options.max_turns/],
  ['max_turns', { max_turns: 501 }, /options.max_turns: .*500/],
  ['max_turns', { max_turns: NaN }, /the input holds a number that JSON cannot hold/],
  ['mode', { mode: 'root' }, /options.mode: .*"plan"\|"ask"\|"agent"/],
  ['functions', { functions: 'all' }, /options.functions: .*expected object, received string/],
  ['functions', { functions: { allow: 'shop::*' } }, /options.functions.allow: .*expected array/],
  ['functions', { functions: { permit: [] } }, /options.functions: Unrecognized key: "permit"/],
  ['functions', { functions: { expose: 'agent_trigger' } }, /agent_trigger is not available/],
  ['output', { output: { type: 'json' } }, /output of type json is not available/],
  ['thinking_level', { thinking_level: 9 }, /options.thinking_level/],
  ['system_prompt', { system_prompt: 'x'.repeat(70_000) }, /options.system_prompt: Too big.*65536/],
  ['anything else', { owner: 'second' }, /options: Unrecognized key: "owner"/],
  ['options', 'all', /options: .*expected object, received string/],
  ['options', [], /options: .*expected object, received array/],
])('an option of the wrong type, or that is not there, is refused at send: %s', async (_title, options, says) => {
  const place = await openPlace()
  await refuses(place, 'send', withOptions(options), says)
})

it.each([
  ['nothing', undefined, /^send: input/],
  ['a text', 'Hello.', /^send: input/],
  ['an empty message', { message: ' \n\t' }, /the message is empty/],
  ['a number', { message: 5 }, /message: must be a text, or \{"role": "user"/],
  ['no parts', { message: { role: 'user', content: [] } }, /message/],
  ['a message of the system', { message: { role: 'system', content: [{ type: 'text', text: 'x' }] } }, /message: must be a text/],
  ['a picture', { message: { role: 'user', content: [{ type: 'image', data: 'x' }] } }, /message: must be a text/],
  ['an owner', { message: 'Hello.', owner: 'second' }, /input: Unrecognized key: "owner"/],
  ['another provider', { message: 'Hello.', provider: 'openai' }, /provider "openai" is not available; the one there is is scripted/],
  ['an empty key', { message: 'Hello.', idempotency_key: '' }, /idempotency_key/],
  ['a long key', { message: 'Hello.', idempotency_key: 'x'.repeat(10_000) }, /idempotency_key: Too big/],
])('a message of the wrong form is refused: %s', async (_title, input, says) => {
  const place = await openPlace()
  await refuses(place, 'send', input, says)
})

it.each([
  ['status', { turn_id: unknown.turn, wait_seconds: 46 }, /wait_seconds: .*45/],
  ['status', { turn_id: unknown.turn, wait_seconds: '5' }, /wait_seconds: .*expected number/],
  ['status', {}, /give turn_id or session_id/],
  ['list_approvals', { limit: 0 }, /limit/],
  ['list_approvals', { status: 'open' }, /status: .*pending/],
  ['decide_approval', { approval_id: unknown.approval, ...decision, decision: 'maybe' }, /decision: .*"approve"\|"reject"/],
  ['decide_approval', { approval_id: unknown.approval, ...decision, approver: 'x'.repeat(3_000_000) }, /approver: is no name/],
  ['decide_approval', { approval_id: unknown.approval, ...decision, approver: 'x\u001b[31m' }, /approver: is no name/],
  ['decide_approval', { approval_id: unknown.approval, ...decision, decision: 'reject', reason: ' ' }, /A rejection needs a reason/],
  ['get_user_context', { principal: 'second' }, /Unrecognized key: "principal"/],
])('an input of the wrong form is refused: %s', async (name, input, says) => {
  const place = await openPlace()
  await refuses(place, name, input, says)
})

it('no rounds are a turn that ends with that reason, without asking the model', async () => {
  const place = await openPlace()
  const sent = await place.harness.send({ message: 'Hello.', options: { max_turns: 0 } }, place.caller)
  const end = { state: 'failed', reason: 'max_turns', detail: 'The limit of 0 model calls is used up.' }
  expect(await place.turn(sent.turn_id)).toMatchObject(end)
  expect(place.model.requests).toEqual([])
  expect(await place.say('Hello.')).toMatchObject({ state: 'completed' })
})

it('[commit.idempotency-key] a key used for another request is a conflict; its first answer stays', async () => {
  const place = await openPlace()
  const first = await place.harness.send({ message: 'Hello.', idempotency_key: 'monday' }, place.caller)
  const again = { message: 'Something else.', idempotency_key: 'monday' }
  const says = /^The idempotency key "monday" was used for another request. Use a new key/
  await refused(place, () => ask(place, 'send', again), 'conflict', says)
  expect(await place.harness.send({ message: 'Hello.', idempotency_key: 'monday' }, place.caller)).toEqual({ ...first, deduplicated: true })
})

it('what a caller may not do is refused by name', async () => {
  const place = await openPlace()
  const forbidden = (name: string, caller: Caller, says: RegExp): Promise<void> =>
    refused(place, () => ask(place, name, {}, caller), 'forbidden', says)
  await forbidden('send', place.callerOf('second', ['turns:read']), /^send needs the scope turns:write, which second does not have here/)
  await forbidden('decide_approval', place.callerOf('second'), /needs the scope approvals:decide/)
  const { principal } = place.caller
  await forbidden('status', { ...place.caller, principal: { ...principal, active: false } }, /^Principal local is not active/)
})

// ------------------------------------------------------------------------------------------------ arguments

/** The answer of a function turn that was refused for its arguments. */
async function deniedFor(place: Place, functionId: string, value: unknown): Promise<string> {
  const answer = await place.run(functionId, value as Json)
  expect(answer).toMatchObject({ state: 'cancelled', reason: 'denied', is_error: true, details: { error: 'denied', code: 'invalid_arguments' } })
  expect(place.functions.sent).toEqual([])
  return (answer.details as { message: string }).message
}

it.each([
  ['one missing', { order: 'A-1' }, /do not fit shop::refund: .*must have required property 'amount'/],
  ['one too many', { ...refund, note: 'x' }, /must not have "note"/],
  ['one of the wrong type', { order: 'A-1', amount: '20' }, /Argument "amount" must be number/],
  ['one that is a list', { order: ['A-1'], amount: 20 }, /Argument "order" must be string/],
])('[bad.arguments-off-schema] a call with arguments off its schema ends with what is wrong: %s', async (_title, value, says) => {
  const place = await openPlace()
  expect(await deniedFor(place, 'shop::refund', value)).toMatch(says)
  expect(await place.run('shop::look_up', { order: 'A-1' })).toMatchObject({ state: 'completed' })
})

it.each([
  ['null', null],
  ['a list', [refund]],
  ['a text', JSON.stringify(refund)],
  ['a number', 7],
])('[bad.null-arguments] arguments that are no object are refused in the answer of the turn: %s', async (_title, value) => {
  const place = await openPlace()
  expect(await deniedFor(place, 'shop::refund', value)).toBe('The arguments of shop::refund must be one JSON object.')
  expect(await place.run('shop::look_up', { order: 'A-1' })).toMatchObject({ state: 'completed' })
})

it('[bad.arguments-off-schema] a model that asks so is told, and may ask again', async () => {
  const note = (value: unknown): ScriptedReply => ({ calls: [{ function_id: 'shop::note', arguments: value as Record<string, never> }] })
  const bad = [{}, null, JSON.parse('{"text":"x","__proto__":{"amount":1}}'), { text: 7 }]
  const place = await openPlace({ script: [...bad.map(note), note({ text: 'x' }), { text: 'Noted.' }] })
  const turn = await place.say('Note it.')
  expect(turn).toMatchObject({ state: 'completed', result: 'Noted.' })
  expect(turn.calls.map((call) => [call.status, call.reason])).toEqual([...bad.map(() => ['denied', 'invalid_arguments']), ['succeeded', null]])
  const told = JSON.stringify(place.model.requests.at(-1)?.messages)
  for (const says of ['must have required property', 'must be one JSON object', '__proto__', 'must be string']) expect(told).toContain(says)
  expect(place.functions.sent.map((call) => call.arguments)).toEqual([{ text: 'x' }])
})

it.each([
  ['at the top', '{"text":"x","__proto__":{"admin":true}}', '__proto__'],
  ['deeper', '{"text":"x","more":[{"__proto__":{"admin":true}}]}', '__proto__'],
  ['written in another way', '{"text":"x","__pr\\u006fto__":{"admin":true}}', '__proto__'],
  ['constructor', '{"text":"x","constructor":{"prototype":{"admin":true}}}', 'constructor'],
])('[bad.proto-key] a key that could change an object is refused, never passed over: %s', async (_title, text, key) => {
  const place = await openPlace()
  const says = `has the key "${key}", which is not allowed`
  await refuses(place, 'trigger', { call: { function_id: 'shop::note', arguments: JSON.parse(text) } }, says)
  await refuses(place, 'send', withOptions({ metadata: JSON.parse(text) }), says)
  await refuses(place, 'send', JSON.parse(`{"message":"Hello.",${text.slice(1)}`), says)
  expect(() => parseStrictJson(text, { bytes: 1_000 })).toThrow(says)
  expect(({} as Record<string, unknown>)['admin']).toBeUndefined()
})

it.each([
  ['in an object', '{"order":"A-1","amount":1,"amount":1000}', '"amount"'],
  ['deeper', '{"a":[{"b":{"amount":1,"amount":1000}}]}', '"amount"'],
  ['written in another way', '{"amount":1,"\\u0061mount":1000}', '"amount"'],
])('[bad.duplicate-keys] a key that occurs twice is refused where texts come in: %s', (_title, text, key) => {
  expect(() => parseStrictJson(text, { bytes: 1_000 })).toThrow(`The key ${key} occurs twice in one object.`)
})

it.each([
  ['nested without an end', () => {
    const value: Record<string, unknown> = {}
    return Object.assign(value, { value })
  }, /nested deeper than 128 levels/],
  ['nested too deeply', () => Array.from({ length: 100_000 }).reduce((inner) => ({ inner }), 1), /nested deeper than 128 levels/],
  ['not a number', () => ({ value: NaN }), /a number that JSON cannot hold/],
  ['too large a number', () => ({ value: Infinity }), /a number that JSON cannot hold/],
  ['a date', () => ({ value: new Date(0) }), /something that is not JSON/],
  ['a large integer', () => ({ value: 1n }), /something that is not JSON/],
  ['a function', () => ({ value: () => 1 }), /something that is not JSON/],
  ['nothing', () => undefined, /something that is not JSON|call.arguments/],
])('arguments that are no JSON are refused: %s', async (_title, value, says) => {
  const place = await openPlace()
  await refuses(place, 'trigger', { call: { function_id: 'shop::set', arguments: value() } }, says)
  await refuses(place, 'send', withOptions({ metadata: value() }), says)
})

it('arguments nested more deeply than a function may get end their turn with the reason', async () => {
  const place = await openPlace()
  const deep = Array.from({ length: 70 }).reduce<unknown>((inner) => ({ inner }), 1)
  expect(await deniedFor(place, 'shop::look_up', { order: 'A-1', deep })).toMatch(/nested deeper than 64 levels/)
})

// ------------------------------------------------------------------------------------------------ sizes

const five = 5_000_000
const parts = Array.from({ length: 50 }, () => ({ type: 'text', text: 'x'.repeat(five / 50) }))
const mostIs = 'the most is 1048576 \\(limits.message in harness.yaml\\). Nothing was stored'

it.each([
  ['a message', 'send', { message: 'x'.repeat(five) }, new RegExp(`^The size of the message is 5000000 bytes; ${mostIs}`)],
  ['a message of many parts', 'send', { message: { role: 'user', content: parts } }, /^The size of the message is 5000049/],
  ['a message of wide characters', 'send', { message: '€'.repeat(400_000) }, /^The size of the message is 1200000 bytes/],
  ['arguments', 'trigger', { call: { function_id: 'shop::note', arguments: { text: 'x'.repeat(five) } } }, /^The size of the arguments is 5000011/],
  ['metadata', 'send', { message: 'Hello.', options: { metadata: { note: 'x'.repeat(five) } } }, /^The size of the metadata is 5000011 bytes/],
])('[bad.large-message] %s of 5 MB: refused with size and limit', async (_title, name, input, says) => {
  const place = await openPlace()
  await refused(place, () => ask(place, name, input), 'too_large', says)
})

it('[bad.large-message] a message of 5 MB is read whole where the limit allows it', async () => {
  const place = await openPlace({ config: (key) => shopConfig(key, 'limits: { message: 8MiB }') })
  const sent = await place.harness.send({ message: 'x'.repeat(five) }, place.caller)
  expect(await place.turn(sent.turn_id)).toMatchObject({ state: 'completed' })
  expect(place.model.requests[0]?.messages.at(-1)).toMatchObject({ role: 'user', text: expect.stringMatching(/^x{100}/) })
  expect(JSON.stringify(place.model.requests).length).toBeGreaterThan(five)
})
