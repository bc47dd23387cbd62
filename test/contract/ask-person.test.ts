/*
 * An agent that asks a person: its turn ends with the question, and the answer is a message to the session like any other. With the
 * scripted model, and over the wire of a strict Ollama.
 */
import { isHarnessError } from '../../core/errors'
import { ollamaModel } from '../../core/model/ollama'
import type { ScriptedReply } from '../../core/model/scripted'
import { startStrictOllama, type StrictOllama } from '../support/strict-ollama'
import { closePlaces, openPlace, shopConfig } from '../support/place'

const question = 'Which of the two orders shall be refunded?'
const ask = { function_id: 'harness::ask_person', arguments: { question, choices: ['A-1', 'A-2'] } }
const asksThenSays: readonly ScriptedReply[] = [{ text: 'I have to ask.', calls: [ask] }, { text: 'It went on by itself.' }]
const script = (request: { readonly messages: readonly { readonly role: string; readonly text: string }[] }): ScriptedReply => {
  const last = request.messages.at(-1)
  return last?.role === 'user' && last.text === 'A-2' ? { text: 'Then A-2.' } : (asksThenSays[last?.role === 'user' ? 0 : 1] ?? {})
}

const stubs: StrictOllama[] = []
afterEach(async () => {
  await closePlaces()
  for (const stub of stubs.splice(0)) {
    await stub.stop()
    expect(stub.violations).toEqual([])
  }
})

it('[ask-person.ends-turn] a question ends the turn as completed, with the question to show; no model is called after it', async () => {
  const place = await openPlace({ script })
  const turn = await place.say('Refund my order.')
  expect(turn).toMatchObject({
    state: 'completed', reason: 'asked_person', result: question, question: { text: question, choices: ['A-1', 'A-2'] }, approvals: [],
    calls: [{ function_id: 'harness::ask_person', status: 'succeeded' }],
  })
  expect(place.model.requests).toHaveLength(1)
  expect(place.functions.sent).toEqual([])
  expect((await place.harness.verify_audit({}, place.caller)).verdict).not.toBe('broken')
})

it('[ask-person.answer-is-a-message] the answer goes to the session; the model sees its question, that it was asked, and the answer', async () => {
  const place = await openPlace({ script })
  const asked = await place.say('Refund my order.')
  const answered = await place.say('A-2', { session_id: asked.session_id })
  expect(answered).toMatchObject({ state: 'completed', reason: 'done', result: 'Then A-2.', question: null })
  expect(place.model.requests.at(-1)?.messages.slice(1)).toMatchObject([
    { role: 'user', text: 'Refund my order.' },
    { role: 'assistant', calls: [{ function_id: 'harness::ask_person', arguments: { question } }] },
    { role: 'function_result', text: 'Asked. The answer comes as the next message.', is_error: false },
    { role: 'user', text: 'A-2' },
  ])
})

it('[ask-person.ends-turn] calls of the same round run before it ends, and a question that policy holds waits like any call', async () => {
  const both = await openPlace({ script: [{ calls: [ask, { function_id: 'shop::look_up', arguments: { order: 'A-1' } }] }, { text: 'no' }] })
  expect(await both.say('Go.')).toMatchObject({ reason: 'asked_person', calls: [{ status: 'succeeded' }, { status: 'succeeded' }] })
  expect(both.functions.count('shop::look_up')).toBe(1)
  const config = (key: string): string => shopConfig(key).replace('  rules:', '  rules:\n    - { id: ask, functions: "harness::*", effect: hold, reason: Not by itself. }')
  const held = await openPlace({ script: asksThenSays, config })
  const turn = await held.say('Go.')
  expect(turn).toMatchObject({ state: 'held', question: null })
  await held.decide(turn.approvals[0]?.approval_id ?? '', 'approve')
  expect(await held.turn(turn.turn_id)).toMatchObject({ state: 'completed', reason: 'asked_person', question: { text: question } })
})

it('[ask-person.message-first] a message that came while it asked is read first: the turn goes on instead of ending', async () => {
  const place = await openPlace({
    script: (request, number) => {
      const said = request.messages.filter(({ role }) => role === 'user').length
      return said > 1 ? { text: 'You told me.' } : number === 0 ? { calls: [ask], delay_ms: 300 } : { text: 'no' }
    },
  })
  const sent = await place.harness.send({ message: 'Refund my order.' }, place.caller)
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(await place.harness.send({ message: 'I mean A-1.', session_id: sent.session_id }, place.caller)).toMatchObject({ merged: true })
  expect(await place.turn(sent.turn_id)).toMatchObject({ reason: 'done', result: 'You told me.', question: null })
})

it('[ask-person.for-agents] is offered to agents whatever the policy allows, opens nothing else, and can be denied; a caller who runs it is told', async () => {
  const place = await openPlace({ script })
  await place.say('Refund my order.')
  expect(place.model.requests[0]?.functions.map(({ id }) => id).filter((id) => id.startsWith('harness::'))).toEqual(['harness::ask_person'])
  expect((await place.harness.list_functions({}, place.caller)).functions.some(({ id }) => id.startsWith('harness::'))).toBe(false)
  const told = await place.run('harness::ask_person', { question }).catch((error: unknown) => error)
  expect(isHarnessError(told) && told.code === 'invalid_input' && told.message.includes('for agents')).toBe(true)
  expect(await place.run('harness::other', {})).toMatchObject({ reason: 'denied' })

  const config = (key: string): string => shopConfig(key).replace('deny: ["shop::secret*"]', 'deny: ["shop::secret*", "harness::*"]')
  const denying = await openPlace({ script: asksThenSays, config })
  expect(await denying.say('Go.')).toMatchObject({ reason: 'done', result: 'It went on by itself.', calls: [{ status: 'denied', reason: 'not_available' }] })
})

it('[ask-person.for-agents] arguments that do not fit are told to the model, and the turn goes on', async () => {
  const place = await openPlace({ script: [{ calls: [{ function_id: 'harness::ask_person', arguments: { question: '' } }] }, { text: 'Never mind.' }] })
  expect(await place.say('Go.')).toMatchObject({ reason: 'done', result: 'Never mind.', calls: [{ status: 'denied', reason: 'invalid_arguments' }] })
})

it('[ask-person.answer-is-a-message] over Ollama too, question, result and answer are a conversation that its strict form takes', async () => {
  const stub = await startStrictOllama({
    models: [{ name: 'qwen3:8b' }],
    script: ({ messages }) => messages.at(-1)?.content === 'A-2'
      ? { text: 'Then A-2.' }
      : { tool_calls: [{ name: 'harness__ask_person', arguments: ask.arguments }] },
  })
  stubs.push(stub)
  const model = ollamaModel({ url: stub.url, num_ctx: 8_192, first_byte_ms: 5_000, idle_ms: 5_000 })
  const place = await openPlace({ model })
  const asked = await place.say('Refund my order.')
  expect(asked).toMatchObject({ reason: 'asked_person', question: { text: question, choices: ['A-1', 'A-2'] } })
  expect(await place.say('A-2', { session_id: asked.session_id })).toMatchObject({ reason: 'done', result: 'Then A-2.' })
  expect(stub.chats[0]?.tools?.some((tool) => JSON.stringify(tool).includes('harness__ask_person'))).toBe(true)
})
