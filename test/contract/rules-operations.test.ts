/* Requests and answers as the seed publishes them, asked of a harness that runs. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv2020 from 'ajv/dist/2020'
import { isHarnessError } from '../../core/errors'
import type { Model } from '../../core/model/model'
import { scriptedModel } from '../../core/model/scripted'
import { operations, type InputOf } from '../../core/protocol/operations'
import { closePlaces, openPlace, type Place } from '../support/place'

afterEach(closePlaces)

const folder = join(__dirname, '../../core/protocol/seed/harness')
const read = (name: string): object => JSON.parse(readFileSync(join(folder, name), 'utf8')) as object
const examples = read('examples.json') as { schema: string; value: { [key: string]: unknown }; valid: boolean }[]
const ajv = new Ajv2020({ strict: false, formats: { uint32: within(2 ** 32 - 1), uint64: within(2 ** 64), int64: true, double: true } })
for (const name of readdirSync(folder).filter((file) => file !== 'examples.json')) ajv.addSchema(read(name), name)

function within(most: number): { type: 'number'; validate: (value: number) => boolean } {
  return { type: 'number', validate: (value) => Number.isInteger(value) && value >= 0 && value <= most }
}

/** Valid under the seed's response schema, and under our own. */
function check(seed: string, name: 'send' | 'trigger' | 'status' | 'stop', answer: unknown): void {
  const validate = ajv.getSchema(`${seed}.response.json`)!
  expect([validate(answer), validate.errors ?? null, answer]).toEqual([true, null, answer])
  expect(operations[name].output.safeParse(answer)).toMatchObject({ success: true })
}

const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
const refundThenWords = [{ text: 'One moment.', calls: [refund] }, { text: 'Done.' }]

/** A scripted model under the name of the seed's provider. */
const ollamaByScript = (): Model => ({ ...scriptedModel([{ text: 'Yes.' }]), provider: 'ollama' })
const problemOf = async (work: Promise<unknown>): Promise<string | null> => {
  try {
    await work
    return null
  } catch (error) {
    return isHarnessError(error) ? `${error.code}: ${error.message}` : String(error)
  }
}

const onlyFromUsers = 'invalid_input: send: message: must be a text, or {"role": "user", "content": [{"type": "text", "text": …}]}.'

describe('requests of the seed', () => {
  const requestsOf = (seed: string): { [key: string]: unknown }[] =>
    examples.flatMap(({ schema, value, valid }) => (valid && schema === `${seed}.request.json` ? [value] : []))
  const inSession = <T extends object>(value: T, session_id: string): T => ('session_id' in value ? { ...value, session_id } : value)
  const withModel = async (): Promise<{ place: Place; session_id: string }> => {
    const place = await openPlace({ model: ollamaByScript() })
    return { place, session_id: (await place.say('Hello?')).session_id }
  }

  it('[operations.seed-names] a send is answered, or refused as not available in so many words', async () => {
    const { place, session_id } = await withModel()
    const outcomes: string[] = []
    for (const value of requestsOf('send')) {
      const work = place.harness.send(inSession(value, session_id) as InputOf<'send'>, place.caller)
      const problem = await problemOf(work)
      if (problem === null) check('send', 'send', await work)
      outcomes.push(problem ?? 'answered')
    }
    // the last two are messages of the roles custom and assistant
    expect(outcomes).toEqual(['answered', 'answered', onlyFromUsers, onlyFromUsers])
  })

  it('[operations.seed-names] what the seed knows and this version does not is refused in so many words', async () => {
    const { place } = await withModel()
    const send = (more: object): Promise<string | null> => problemOf(place.harness.send({ message: 'Hello?', ...more }, place.caller))
    expect(await send({ options: { output: { type: 'json', schema: {} } } })).toMatch(/^invalid_input: .*json is not available in this version/)
    expect(await send({ options: { functions: { expose: 'agent_trigger' } } })).toMatch(/^invalid_input: .*agent_trigger is not available/)
    expect(await send({ provider: 'anthropic' })).toMatch(/^invalid_input: .*"anthropic" is not available/)
    expect(await send({ message: { role: 'user', content: [{ type: 'image', data: 'aGk=', mime: 'image/png' }] } })).toBe(onlyFromUsers)
    expect(await send({ options: { functions: { allow: ['Mail::*'] } } })).toMatch(/^invalid_input: .*Bad glob/)
  })

  it('[operations.seed-names] status, stop and function-trigger are answered', async () => {
    const { place, session_id } = await withModel()
    const { harness, caller } = place
    const here = (seed: string): { [key: string]: unknown }[] => requestsOf(seed).map((value) => inSession(value, session_id))
    for (const value of here('status')) check('status', 'status', await harness.status(value, caller))
    const { turn_id } = (await harness.status({ session_id }, caller))!
    for (const value of here('stop')) {
      const input = { ...value, ...('turn_id' in value ? { turn_id } : {}) } as InputOf<'stop'>
      check('stop', 'stop', await harness.stop(input, caller))
    }
    for (const value of here('function-trigger')) {
      check('function-trigger', 'trigger', await harness.trigger({ ...value, wait_seconds: 10 } as InputOf<'trigger'>, caller))
    }
  })
})

describe('answers', () => {
  it('[operations.seed-names] of send are valid under its schema, new, joined or repeated', async () => {
    const place = await openPlace({ script: refundThenWords })
    const first = await place.harness.send({ message: 'Refund.', idempotency_key: 'k' }, place.caller)
    check('send', 'send', first)
    check('send', 'send', await place.harness.send({ message: 'Refund.', idempotency_key: 'k' }, place.caller))
    check('send', 'send', await place.harness.send({ message: 'And?', session_id: first.session_id }, place.caller))
  })

  it('[operations.seed-names] of status are valid under its schema in every state, and null for an unknown session', async () => {
    const place = await openPlace({
      script: (request) => (request.messages.some((message) => message.role === 'function_result') ? { text: 'Done.' } : (refundThenWords[0] ?? {})),
    })
    const status = async (turn_id: string): Promise<unknown> => place.harness.status({ turn_id }, place.caller)
    const sent = await place.harness.send({ message: 'Refund.' }, place.caller)
    check('status', 'status', await status(sent.turn_id))
    const held = await place.turn(sent.turn_id)
    expect(held).toMatchObject({
      state: 'held', status: 'awaiting_functions', pending_function_calls: [held.calls[0]!.function_call_id], children: [], depth: 0,
    })
    check('status', 'status', held)
    await place.decide(held.approvals[0]!.approval_id, 'approve')
    const done = await place.turn(sent.turn_id)
    expect(done).toMatchObject({ status: 'completed', result: 'Done.', step: 2, turn_count: 2, max_turns: 16, pending_function_calls: [] })
    check('status', 'status', done)

    const second = await place.say('Refund.')
    await place.harness.stop({ session_id: second.session_id }, place.caller)
    check('status', 'status', await place.turn(second.turn_id))
    const limited = await place.harness.send({ message: 'Refund.', options: { max_turns: 1 } }, place.caller)
    await place.decide((await place.turn(limited.turn_id)).approvals[0]!.approval_id, 'reject')
    const failed = await place.turn(limited.turn_id)
    expect(failed).toMatchObject({ status: 'failed', reason: 'max_turns', result_error: expect.stringContaining('1 model calls') })
    check('status', 'status', failed)
    check('status', 'status', await place.harness.status({ session_id: 's_none' }, place.caller))
    check('status', 'status', await place.turn((await place.run('shop::look_up', { order: 'A' })).turn_id))
  })

  it('[operations.seed-names] of function-trigger are valid under its schema, settled or pending, good or bad', async () => {
    const place = await openPlace()
    const answers = [
      await place.run('shop::look_up', { order: 'A-1' }), await place.run('shop::look_up', {}), await place.run('shop::secret_drop', {}),
      await place.run('made_up', {}),
      await place.run('shop::note', null), await place.run('shop::refund', refund.arguments), await place.run('shop::look_up', { order: 'A-1' }, 0),
    ]
    place.functions.answer('shop::note', () => ({ kind: 'answered', value: 'just text', is_error: true }))
    answers.push(await place.run('shop::note', { text: 'n' }))
    for (const answer of answers) check('function-trigger', 'trigger', answer)
    const ends = answers.map((answer) => (answer.pending === true ? 'pending' : answer.is_error))
    expect(ends).toEqual([false, true, true, true, true, 'pending', 'pending', true])
    expect(answers.at(-1)).toMatchObject({ content: [{ type: 'text', text: 'just text' }], details: 'just text' })
  })

  it('[operations.seed-names] of stop are valid under its schema', async () => {
    const place = await openPlace({ script: refundThenWords })
    const held = await place.say('Refund.')
    check('stop', 'stop', await place.harness.stop({ session_id: held.session_id, turn_id: held.turn_id }, place.caller))
    await place.turn(held.turn_id)
    check('stop', 'stop', await place.harness.stop({ session_id: held.session_id }, place.caller))
  })
})
