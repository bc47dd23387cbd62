/*
 * What a person is told when something is missing or forbidden, on a real n8n: no Ollama, no model that can do it, a function that is not
 * published or was changed, two n8n on one folder, a turn from inside a function. Each says what to do, and nothing is sent that must not be.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { openHome } from '../../core/index'
import { callHeaders, signatureOf } from '../../core/functions/signature'
import { startStrictOllama, type StrictOllama } from '../support/strict-ollama'
import { ask, createCredential, ours, type Credential } from '../support/harness-workflows'
import { decideOnPage, linkOf, refundExample, refundScene, refundsOf, publishRefund, startRefund } from '../support/refund-workflow'
import { endN8n, makePlace, startN8n, type N8nPlace, type N8nServer } from '../support/n8n'
import { activate, createWorkflow, deactivate, executionIs, itemsOf, publicApi, runManually, type Execution, type WorkflowNode } from '../support/n8n-api'
import { startOnOllamaPort } from '../support/stub-on-ollama-port'

let place: N8nPlace
let n8n: N8nServer
const models: StrictOllama[] = []

beforeAll(async () => {
  place = await makePlace()
  n8n = await startN8n(place)
})

afterAll(async () => {
  await endN8n()
  await Promise.all(models.map((model) => model.stop()))
})

const settings = (folder: string, ollamaUrl = ''): Promise<Credential> =>
  createCredential(n8n, 'harnessEmbedded', folder, { folder: path.join(place.folder, folder), ollamaUrl })

it('[n8n.ollama-unreachable] where no Ollama answers, the item that leaves through Not Done names the address that was tried and the one from inside Docker', async () => {
  const { execution, notDone } = await ask(n8n, 'Is anybody there?')
  expect(execution.status).toBe('success')
  expect(notDone.state).toBe('failed')
  expect(notDone.detail).toContain('http://127.0.0.1:11434')
  expect(notDone.detail).toContain('http://host.docker.internal:11434')
  const named = await ask(n8n, 'Is anybody there?', await settings('unreachable', 'http://127.0.0.1:1'))
  expect(named.notDone.detail).toContain('http://127.0.0.1:1 ')
  expect(named.notDone.detail).toContain('http://host.docker.internal:11434')
})

it('[n8n.no-model] no model, or none that can call functions, is said with what to do', async () => {
  const empty = await startStrictOllama({ models: [], script: () => ({ text: 'ok' }) })
  const toolless = await startStrictOllama({ models: [{ name: 'gemma3:4b', capabilities: ['completion'] }], script: () => ({ text: 'ok' }) })
  models.push(empty, toolless)
  const none = await ask(n8n, 'Which model?', await settings('no-model', empty.url))
  expect(none.notDone.detail).toMatch(/ollama pull/)
  const without = await ask(n8n, 'Which model?', await settings('no-tools', toolless.url))
  expect(JSON.stringify(without.notDone ?? without.done)).toMatch(/tools|call functions/)
})

it('[n8n.publish-first] executed before it is published, Send says so and sends nothing', async () => {
  const model = await startOnOllamaPort([refundScene])
  models.push(model)
  const workflow = await createWorkflow(n8n, refundExample())
  const execution = await executionIs(n8n, await runManually(n8n, workflow, { trigger: 'Execute Workflow' }))
  expect(execution.status).toBe('error')
  expect(execution.data.resultData.error?.message).toBe('Publish this workflow first: its function refund is not offered to agents until the workflow is published. Nothing was sent.')
  expect(model.chats).toHaveLength(0)
})

// the examples have one webhook address, which one active workflow may hold
afterEach(async () => {
  const { data } = await publicApi<{ data: { id: string }[] }>(n8n, 'GET', '/workflows?active=true')
  for (const { id } of data) await deactivate(n8n, id)
})

it('[n8n.changed-refused] a call that was judged for a workflow that was edited meanwhile runs nothing, and the next one is of the new version', async () => {
  const workflow = await createWorkflow(n8n, refundExample())
  await publishRefund(n8n, workflow)
  const execution = await startRefund(n8n, workflow)
  const link = await linkOf(n8n, execution)
  const stood = functionAddress()
  const edited = refundExample()
  const nodes = edited.nodes.map((node) => (node.name === 'Refund in the Shop' ? { ...node, parameters: JSON.parse(JSON.stringify(node.parameters).replaceAll('=R-', '=NEW-')) as WorkflowNode['parameters'] } : node))
  await publicApi(n8n, 'PUT', `/workflows/${workflow}`, { ...edited, nodes })
  await activate(n8n, workflow)
  await wait(2_000)

  // n8n tells no trigger of an edit elsewhere in its workflow: the call finds it out, and nothing runs
  await decideOnPage(link, { decision: 'approve', responder: 'Ann' })
  const done = await nextEnd(execution, link)
  expect(done.status).toBe('success')
  expect(await callAs(stood)).toMatchObject({ status: 409, json: { code: 'workflow_changed' } })
  expect(functionAddress()).not.toBe(stood)
  const refunds = await refundsOf(n8n, workflow)
  expect(refunds.map((refund) => itemsOf(refund, 'Refund in the Shop')[0]?.json.reference as unknown).filter((reference) => !/^NEW-/.test(String(reference)))).toEqual([])
})

/** Until it is over; where it asks anew on the way, that is approved too. */
async function nextEnd(execution: string, old: string): Promise<Execution> {
  let link = old
  for (const until = performance.now() + 60_000; performance.now() < until; ) {
    await wait(300)
    const now = await executionIs(n8n, execution, ['waiting', 'success', 'error', 'canceled', 'crashed'])
    if (now.status !== 'waiting') return now
    const message = itemsOf(now, 'Message with the Link').at(-1)?.json.message as string | undefined
    const newer = /https?:\/\/\S+/.exec(message ?? '')?.[0]
    if (newer === undefined || newer === link) continue
    link = newer
    await decideOnPage(link, { decision: 'approve', responder: 'Ann' })
  }
  return executionIs(n8n, execution)
}

it('[n8n.no-nested-send] Send inside a workflow that runs as a function is refused with what to do', async () => {
  const example = refundExample()
  const nodes = example.nodes.map((node) => (node.name === 'Refund in the Shop'
    ? { ...node, type: `${ours}.harnessSend`, typeVersion: 1, parameters: { operation: 'send', message: 'Do it for me.' } }
    : node.type.endsWith('.harnessFunctionTrigger') ? { ...node, parameters: { ...node.parameters, unattended: {}, risk: 'low' } } : node))
  const workflow = await createWorkflow(n8n, { ...example, nodes })
  await publishRefund(n8n, workflow)
  const execution = await startRefund(n8n, workflow)
  expect(await decideOnPage(await linkOf(n8n, execution), { decision: 'approve', responder: 'Ann' })).toMatchObject({ status: 200 })
  await executionIs(n8n, execution)
  const [inner] = await refundsOf(n8n, workflow)
  expect(inner?.data.resultData.error?.message).toContain('Return a result, and let the agent that called go on.')
})

it('[n8n.own-settings] a credential with a folder of its own works, and the choice says when its turns go on after a restart', async () => {
  const { execution, done } = await ask(n8n, 'Say ok.', await settings('second'))
  expect(execution.status).toBe('success')
  expect(done).toMatchObject({ state: 'completed', result: 'ok' })
  expect(existsSync(path.join(place.folder, 'second', 'harness.db'))).toBe(true)
  const description = JSON.stringify(await (await fetch(`${n8n.url}/types/nodes.json`, { headers: { cookie: place.cookie } })).json())
  expect(description).toContain('After a restart of n8n its turns go on when the next Agent Harness node runs.')
})

it('[n8n.one-folder] a second n8n on the folder of another is refused clearly, and that of OLLAMA_HOST is the address it tries', async () => {
  const other = await startN8n(await makePlace(), { env: { OLLAMA_HOST: 'http://127.0.0.1:1' } })
  const taken = await createCredential(other, 'harnessEmbedded', 'taken', { folder: path.join(place.n8nFolder, 'agent-harness') })
  const refused = await ask(other, 'Say ok.', taken)
  expect(refused.execution.status).toBe('error')
  expect(refused.execution.data.resultData.error?.message).toContain('Only one n8n can use a folder')
  const named = await ask(other, 'Is anybody there?')
  expect(named.notDone.detail).toContain('http://127.0.0.1:1 ')
  expect(named.notDone.detail).toContain('http://host.docker.internal:11434')
  await other.stop()
})

/** Where calls of the refund go, as it is registered now. */
function functionAddress(): string {
  const database = new Database(path.join(place.n8nFolder, 'agent-harness', 'harness.db'), { readonly: true })
  try {
    const entry = database.prepare('SELECT entry FROM registrations WHERE id = ?').pluck().get('workflow::refund') as string
    return (JSON.parse(entry) as { target: { url: string } }).target.url
  } finally {
    database.close()
  }
}

/** A call signed as the harness of this n8n signs. */
async function callAs(url: string): Promise<{ status: number; json: unknown }> {
  const { callSigningKey } = await openHome(path.join(place.n8nFolder, 'agent-harness'), { embedded: true })
  const { pathname, search } = new URL(url)
  const signed = { callId: 'c_of_the_old_version', timestamp: String(Date.now()), body: JSON.stringify({ order: '1042', amount: 120 }) }
  const signature = signatureOf({ key: callSigningKey, method: 'POST', path: pathname + search, ...signed })
  const headers = { 'content-type': 'application/json', [callHeaders.callId]: signed.callId, [callHeaders.timestamp]: signed.timestamp, [callHeaders.signature]: signature }
  const answer = await fetch(url, { method: 'POST', headers, body: signed.body })
  return { status: answer.status, json: await answer.json() }
}
