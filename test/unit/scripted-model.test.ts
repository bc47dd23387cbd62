/* The scripted model says what its script says, by the conversation alone. */
import { isHarnessError } from '../../core/errors'
import type { ModelMessage, ModelRequest } from '../../core/model/model'
import { parseScript, scriptedModel } from '../../core/model/scripted'

const never = new AbortController().signal
const user = (text: string): ModelMessage => ({ role: 'user', text })
const assistant: ModelMessage = { role: 'assistant', text: '', thinking: null, calls: [] }

function request(...messages: readonly ModelMessage[]): ModelRequest {
  return {
    model: 'scripted', messages: [{ role: 'system', text: '' }, ...messages], functions: [{ id: 'shop::refund', description: '', schema: {} }],
    thinking_level: null, allow_cloud: false,
  }
}

it('the next reply follows from the conversation, also in another process', async () => {
  const script = [{ calls: [{ function_id: 'shop::refund', arguments: { amount: 5 } }] }, { text: 'Done.' }]
  for (const model of [scriptedModel(script), scriptedModel(script)]) {
    expect(await model.generate(request(user('Refund.')), never)).toEqual({
      kind: 'reply', provider: 'scripted', model: 'scripted', text: '', thinking: null, stop_reason: 'function_call', native_stop_reason: null,
      usage: {}, warnings: [],
      calls: [{ function_id: 'shop::refund', offered: true, arguments: { amount: 5 }, native_id: null }],
    })
    expect(await model.generate(request(user('Refund.'), assistant), never)).toMatchObject({ text: 'Done.', stop_reason: 'end', calls: [] })
    expect(await model.generate(request(user('Refund.'), assistant, assistant), never)).toMatchObject({ text: 'Done.' })
    expect(await model.generate(request(user('Refund.'), assistant, user('Again.')), never)).toMatchObject({ stop_reason: 'function_call' })
    expect(model.requests).toHaveLength(4)
  }
})

it('a function gets the request and the number of answers since the last user message', async () => {
  const model = scriptedModel(({ messages }, callNumber) => ({ text: `${String(messages.length)} ${String(callNumber)}` }))
  expect(await model.generate(request(user('a'), assistant, user('b'), assistant), never)).toMatchObject({ text: '5 1' })
})

it('it can ask for what was not offered and for arguments that are none', async () => {
  const model = scriptedModel([{ calls: [{ function_id: 'no::such' }, { function_id: 'shop::refund', arguments: null }] }])
  const calls = [{ offered: false, arguments: {} }, { offered: true, arguments: null }]
  expect(await model.generate(request(user('x')), never)).toMatchObject({ calls })
})

it('it can fail, and takes its time', async () => {
  const model = scriptedModel([{ fail: { error_kind: 'rate_limited' }, delay_ms: 30 }])
  const before = performance.now()
  expect(await model.generate(request(user('x')), never)).toMatchObject({ kind: 'failure', error_kind: 'rate_limited', cause: 'other' })
  expect(performance.now() - before).toBeGreaterThan(20)
})

it('a stop ends it at once', async () => {
  const controller = new AbortController()
  const answer = scriptedModel([{ delay_ms: 60_000 }]).generate(request(user('x')), controller.signal)
  setTimeout(() => { controller.abort() }, 20)
  expect(await answer).toMatchObject({ kind: 'failure', cause: 'aborted' })
  expect(await scriptedModel([{}]).generate(request(user('x')), AbortSignal.abort())).toMatchObject({ cause: 'aborted' })
})

it('a probe finds one local model that calls functions', async () => {
  expect((await scriptedModel([{}], { model: 'demo' }).probe()).models).toEqual([{ name: 'demo', locality: 'this_machine', functions: true }])
})

describe('a script in a file', () => {
  it('is a list of replies, with arguments untouched', async () => {
    const model = scriptedModel(parseScript('[{"calls":[{"function_id":"shop::refund","arguments":{"__proto__":1,"x":"y"}}]}]'))
    const reply = await model.generate(request(user('x')), never)
    expect(JSON.stringify(reply.kind === 'reply' && reply.calls[0]?.arguments)).toBe('{"__proto__":1,"x":"y"}')
  })

  it('may have cases by what the user says', async () => {
    const model = scriptedModel(parseScript('{"cases":[{"when":"refund","replies":[{"text":"R"}]},{"replies":[{"text":"else"},{"text":"more"}]}]}'))
    expect(await model.generate(request(user('A REFUND, please')), never)).toMatchObject({ text: 'R' })
    expect(await model.generate(request(user('Hello'), assistant), never)).toMatchObject({ text: 'more' })
  })

  it.each(['', '{', '[]', '{}', '[{"txt":"x"}]', '[{"calls":[{"function_id":"a::b","arguments":[]}]}]', '[{"delay_ms":-1}]', '{"cases":[]}'])(
    'that is %j is refused', (text) => {
      try {
        parseScript(text)
      } catch (error) {
        expect(isHarnessError(error) && error.code).toBe('bad_config')
        return
      }
      throw new Error('it was accepted')
    })
})
