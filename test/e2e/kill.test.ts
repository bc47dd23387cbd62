/*
 * SIGKILL of n8n at the three worst moments of the refund example. After the next start the workflow ends right though nobody touches it,
 * and the function's workflow was called at most once: a refund that was cut is told as unknown outcome, never sent again.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { StrictOllama } from '../support/strict-ollama'
import { decideOnPage, harnessRows, linkOf, refundExample, refundScene, refundsOf, startRefund } from '../support/refund-workflow'
import { endN8n, makePlace, restartN8n, startN8n, type N8nServer } from '../support/n8n'
import { activate, createWorkflow, executionIs, getExecution, itemsOf, outputsUsed } from '../support/n8n-api'
import { startOnOllamaPort } from '../support/stub-on-ollama-port'

let model: StrictOllama
let n8n: N8nServer
let workflow: string

beforeAll(async () => {
  model = await startOnOllamaPort([{ ...refundScene, thinks_ms: 1_500 }])
  n8n = await startN8n(await makePlace())
  // the same example, but that the shop takes eight seconds for a refund
  workflow = await createWorkflow(n8n, refundExample({ shopTakes: 8 }))
  await activate(n8n, workflow)
})

afterAll(async () => {
  await endN8n()
  await model.stop()
})

it('[n8n.kill] killed in a model call, the turn goes on after the start, asks its person, and refunds once', async () => {
  const execution = await startRefund(n8n, workflow)
  await executionIs(n8n, execution, ['waiting'])
  await wait(300)
  n8n = await restartN8n(n8n, 'kill')
  const link = await linkOf(n8n, execution)
  expect(await decideOnPage(link, { decision: 'approve', responder: 'Ann' })).toMatchObject({ status: 200 })
  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(outputsUsed(done, 'Agent Harness Await Turn')).toEqual([0])
  expect(await refundsOf(n8n, workflow)).toHaveLength(1)
})

it('[n8n.kill] killed while a person is asked, the link still works after the start, and approving refunds once', async () => {
  const before = (await refundsOf(n8n, workflow)).length
  const execution = await startRefund(n8n, workflow)
  const link = await linkOf(n8n, execution)
  n8n = await restartN8n(n8n, 'kill')
  expect(await decideOnPage(link, { decision: 'approve', responder: 'Ann' })).toMatchObject({ status: 200 })
  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(itemsOf(done, 'Agent Harness Await Turn').at(-1)?.json).toMatchObject({ state: 'completed', decision: 'approved' })
  expect(await refundsOf(n8n, workflow)).toHaveLength(before + 1)
})

it('[n8n.kill] killed inside the refund, its outcome is told as unknown, it is not sent again, and the workflow ends Done', async () => {
  const before = (await refundsOf(n8n, workflow)).length
  const execution = await startRefund(n8n, workflow)
  expect(await decideOnPage(await linkOf(n8n, execution), { decision: 'approve', responder: 'Ann' })).toMatchObject({ status: 200 })
  while (harnessRows(n8n, `SELECT 1 FROM calls WHERE status = 'started'`).length === 0) await wait(100)
  await wait(1_000)
  expect((await getExecution(n8n, execution)).status).toBe('waiting')
  n8n = await restartN8n(n8n, 'kill')
  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(outputsUsed(done, 'Agent Harness Await Turn')).toEqual([0])
  expect(itemsOf(done, 'Answer the Customer')[0]?.json.answer).toContain('unknown')
  // long enough for a second one to show
  await wait(6_000)
  expect(await refundsOf(n8n, workflow)).toHaveLength(before + 1)
})
