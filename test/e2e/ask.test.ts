/*
 * The example with an agent that lacks what only a person knows, as it stands: its question goes out through Done with the link to a form,
 * the answer goes into the same conversation, and the workflow ends with what the agent made of it.
 */
import path from 'node:path'
import type { StrictOllama } from '../support/strict-ollama'
import { answerForm, linkIn } from '../support/n8n-form'
import { endN8n, importWorkflows, makePlace, startN8n, type N8nServer } from '../support/n8n'
import { executionIs, itemsOf, outputsUsed, runManually } from '../support/n8n-api'
import { startOnOllamaPort } from '../support/stub-on-ollama-port'

const question = 'Where and when is the party?'
const answer = 'On Friday at six, at the lake.'

let model: StrictOllama
let n8n: N8nServer

beforeAll(async () => {
  model = await startOnOllamaPort([
    { when: 'harness::ask_person', rounds: [[{ function_id: 'harness::ask_person', arguments: { question } }]] },
    { when: answer, says: `You are invited. ${answer}` },
  ])
  const place = await makePlace()
  await importWorkflows(place, path.join(__dirname, '../../examples/workflows/ask-a-person.json'))
  n8n = await startN8n(place)
})

afterAll(async () => {
  await endN8n()
  await model.stop()
})

it('[n8n.ask-a-person] the question goes out through Done with a form, and its answer goes into the same conversation, whose result ends the workflow', async () => {
  const execution = await runManually(n8n, 'agentHarnessAskPerson')
  const link = await linkIn(n8n, execution, 'Message with the Question', 'Wait for the Answer')
  const asked = itemsOf(await executionIs(n8n, execution, ['waiting']), 'Agent Harness Await Turn')
  expect(asked).toHaveLength(1)
  expect(asked[0]?.json).toMatchObject({ state: 'completed', reason: 'asked_person', question: { text: question } })

  const form = await fetch(link)
  expect(await form.text()).toContain(question)
  expect(await answerForm(link, answer)).toBe(200)

  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(outputsUsed(done, 'Agent Harness Await Turn')).toEqual([0])
  const turns = itemsOf(done, 'Agent Harness Await Turn').map(({ json }) => json as { session_id: string; turn_id: string })
  expect(turns).toHaveLength(2)
  expect(turns[1]?.session_id).toBe(turns[0]?.session_id)
  expect(turns[1]?.turn_id).not.toBe(turns[0]?.turn_id)
  expect(itemsOf(done, 'Result').map(({ json }) => json as unknown)).toEqual([{ result: `You are invited. ${answer}` }])
  // one conversation: the model was shown what it was told first and what it asked
  const last = model.chats.at(-1)!.messages.map(({ content }) => content).join('\n')
  expect(last).toContain('summer party')
  expect(last).toContain(answer)
  expect(model.violations).toEqual([])
})
