/*
 * The first ten minutes: a fresh n8n with our package, the example as it stands, nothing typed, no credential. The model is a stub where
 * Ollama would be; everything else is real. Approved, rejected and timed out each leave by their own way, and led back to Await Turn the
 * turn ends Done and says what was decided.
 */
import { appendFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { StrictOllama } from '../support/strict-ollama'
import { decideOnPage, linkOf, refundsOf, refundScene, refundWorkflow, publishRefund, startRefund } from '../support/refund-workflow'
import { endN8n, importWorkflows, makePlace, startN8n, type N8nPlace, type N8nServer } from '../support/n8n'
import { deactivate, executionIs, itemsOf, outputsUsed, publicApi } from '../support/n8n-api'
import { startOnOllamaPort } from '../support/stub-on-ollama-port'

let model: StrictOllama
let place: N8nPlace
let n8n: N8nServer

beforeAll(async () => {
  model = await startOnOllamaPort([refundScene])
  place = await makePlace()
  await importWorkflows(place, path.join(__dirname, '../../examples/workflows/refund.json'))
  n8n = await startN8n(place)
  await publishRefund(n8n)
})

afterAll(async () => {
  await endN8n()
  await model.stop()
})

it('[n8n.first-minutes] the example needs no credential and no typing: its link is followed, the page shows the exact arguments, and approving refunds once', async () => {
  expect((await publicApi<{ data: unknown[] }>(n8n, 'GET', '/credentials?limit=10').catch(() => ({ data: [] }))).data).toEqual([])
  const execution = await startRefund(n8n)
  const link = await linkOf(n8n, execution)
  const page = await fetch(link)
  const html = await page.text()
  expect(page.status).toBe(200)
  expect(html).toContain('&quot;amount&quot;: 120')
  expect(page.headers.get('cache-control')).toBe('no-store')

  // looking decides nothing, however often, and neither does a robot's HEAD
  for (let look = 0; look < 3; look += 1) await fetch(link)
  await fetch(link, { method: 'HEAD' })
  expect((await executionIs(n8n, execution, ['waiting'])).status).toBe('waiting')
  expect(await refundsOf(n8n)).toHaveLength(0)

  const answered = await decideOnPage(link, { decision: 'approve', responder: 'Ann' })
  expect(answered).toMatchObject({ status: 200, text: expect.stringContaining('Ann') })

  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(outputsUsed(done, 'Agent Harness Approve')).toEqual([0])
  expect(itemsOf(done, 'Agent Harness Approve')[0]?.json).toMatchObject({ decision: 'approved', responder: 'Ann', channel: 'page', arguments: { amount: 120 } })
  expect(outputsUsed(done, 'Agent Harness Await Turn')).toEqual([0])
  expect(itemsOf(done, 'Agent Harness Await Turn').at(-1)?.json).toMatchObject({ state: 'completed', decision: 'approved' })
  expect(itemsOf(done, 'Answer the Customer')[0]?.json.answer).toContain('is done')
  expect(await refundsOf(n8n)).toHaveLength(1)
})

it('[n8n.rejected] rejected leaves through Rejected, the model is told, the turn ends Done with the decision, and nothing is refunded', async () => {
  const before = (await refundsOf(n8n)).length
  const execution = await startRefund(n8n)
  const link = await linkOf(n8n, execution)
  expect(await decideOnPage(link, { decision: 'reject', responder: 'Ann' })).toMatchObject({ status: 400, text: expect.stringContaining('reason') })
  expect(await decideOnPage(link, { decision: 'reject', responder: 'Ann', reason: 'too much' })).toMatchObject({ status: 200 })
  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(outputsUsed(done, 'Agent Harness Approve')).toEqual([1])
  expect(itemsOf(done, 'Agent Harness Approve', 1)[0]?.json).toMatchObject({ decision: 'rejected', reason: 'too much', responder: 'Ann' })
  expect(itemsOf(done, 'Agent Harness Await Turn').at(-1)?.json).toMatchObject({ state: 'completed', decision: 'rejected' })
  expect(itemsOf(done, 'Answer the Customer')[0]?.json.answer).toContain('A person said no')
  expect(await refundsOf(n8n)).toHaveLength(before)
  // the link is dead
  expect((await decideOnPage(link, { decision: 'approve', responder: 'Eve' })).status).not.toBe(200)
  expect(await refundsOf(n8n)).toHaveLength(before)
})

it('[n8n.timed-out] nobody answers: it leaves through Timed Out and never through Approved, and nothing is refunded', async () => {
  appendFileSync(path.join(place.n8nFolder, 'agent-harness', 'harness.yaml'), '\nworkflows: { approval_ttl: 3s }\n')
  await deactivate(n8n, refundWorkflow)
  await publishRefund(n8n)
  await wait(500)
  const before = (await refundsOf(n8n)).length
  const execution = await startRefund(n8n)
  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(outputsUsed(done, 'Agent Harness Approve')).toEqual([2])
  expect(itemsOf(done, 'Agent Harness Approve', 2)[0]?.json).toMatchObject({ decision: 'expired' })
  expect(itemsOf(done, 'Agent Harness Await Turn').at(-1)?.json).toMatchObject({ state: 'completed', decision: 'expired' })
  expect(itemsOf(done, 'Answer the Customer')[0]?.json.answer).toContain('Nobody decided')
  expect(await refundsOf(n8n)).toHaveLength(before)
})
