/*
 * The refund example against a harness outside n8n: a real `agent-harness serve` on a home of its own, reached by a credential with a token.
 * There an approver answers on the page with a passphrase. Either process may be killed while the other waits; and queue mode needs such a server.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { StrictOllama } from '../support/strict-ollama'
import { askWorkflow, createCredential, onHarness, refundOn, testCredential, type Credential } from '../support/harness-workflows'
import { endAll, passphrase, testHome, type Running, type TestHome } from '../support/mcp-process'
import { decideOnPage, linkOf, refundScene, refundsOf, startRefund } from '../support/refund-workflow'
import { endN8n, makePlace, n8nCommand, restartN8n, startN8n, type N8nPlace, type N8nServer } from '../support/n8n'
import { activate, createWorkflow, executionIs, itemsOf, outputsUsed, runManually } from '../support/n8n-api'
import { ollamaPort, startOnOllamaPort } from '../support/stub-on-ollama-port'

const env = { OLLAMA_HOST: `127.0.0.1:${String(ollamaPort)}` }

let model: StrictOllama
let home: TestHome
let port: number
let serve: Running
let place: N8nPlace
let n8n: N8nServer
let credential: Credential
let data: Record<string, string>
let refund: string

beforeAll(async () => {
  model = await startOnOllamaPort([refundScene, { when: 'think for a while', thinks_ms: 3_000, says: 'done thinking' }])
  home = testHome()
  await home.init()
  port = await freePort()
  place = await makePlace()
  const token = (await home.run(['tokens', 'add', 'n8n', '--callback', `${place.url}/`])).stdout.trim()
  const callSigningSecret = (await home.run(['tokens', 'signing-secret'])).stdout.trim()
  await startServe()
  n8n = await startN8n(place)
  data = { address: `http://127.0.0.1:${String(port)}`, token, callSigningSecret }
  credential = await createCredential(n8n, 'harnessServer', 'our server', data)
  refund = await createWorkflow(n8n, refundOn(credential))
  await activate(n8n, refund)
})

afterAll(async () => {
  await endN8n()
  await endAll()
  await model.stop()
})

async function startServe(): Promise<void> {
  serve = home.start(['serve', '--port', String(port)], { env })
  await serve.says(/is up/)
}

async function killServe(): Promise<void> {
  serve.child.kill('SIGKILL')
  await serve.ended
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port: free } = server.address() as AddressInfo
  server.close()
  return free
}

async function approvedByAlice(execution: string): Promise<void> {
  const link = await linkOf(n8n, execution)
  expect(await (await fetch(link)).text()).toContain('type="password"')
  expect(await decideOnPage(link, { decision: 'approve', responder: 'alice', passphrase: 'a wrong one entirely' })).toMatchObject({ status: 400 })
  expect(await decideOnPage(link, { decision: 'approve', responder: 'alice', passphrase })).toMatchObject({ status: 200, text: expect.stringContaining('alice') })
  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(outputsUsed(done, 'Agent Harness Approve')).toEqual([0])
  expect(itemsOf(done, 'Agent Harness Approve')[0]?.json).toMatchObject({ decision: 'approved', channel: 'page' })
  expect(itemsOf(done, 'Agent Harness Await Turn').at(-1)?.json).toMatchObject({ state: 'completed', decision: 'approved' })
}

it('[n8n.credential-test] the test of the credential says OK for a good token, and not for a bad one or where nobody listens', async () => {
  expect(await testCredential(n8n, credential, data)).toMatchObject({ status: 'OK' })
  expect(await testCredential(n8n, credential, { ...data, token: `${data['token']!.slice(0, -3)}abc` })).toMatchObject({ status: 'Error' })
  expect(await testCredential(n8n, credential, { ...data, address: 'http://127.0.0.1:1' })).toMatchObject({ status: 'Error' })
})

it('[n8n.server] on a server the page asks for an approver\'s passphrase, and approving refunds once', async () => {
  await approvedByAlice(await startRefund(n8n, refund))
  expect(await refundsOf(n8n, refund)).toHaveLength(1)
})

it('[n8n.server-kill] the server is killed while a person is asked: back on its port, the link works and the refund is made once', async () => {
  const before = (await refundsOf(n8n, refund)).length
  const execution = await startRefund(n8n, refund)
  const link = await linkOf(n8n, execution)
  await killServe()
  expect((await decideOnPage(link, { decision: 'approve', responder: 'alice', passphrase }).catch(() => ({ status: 0 }))).status).not.toBe(200)
  await startServe()
  await approvedByAlice(execution)
  expect(await refundsOf(n8n, refund)).toHaveLength(before + 1)
})

it('[n8n.server-kill] n8n is killed and the turn ends meanwhile: the workflow gets the result when n8n is back', async () => {
  const workflow = await createWorkflow(n8n, onHarness(askWorkflow('Please think for a while.'), credential))
  const execution = await runManually(n8n, workflow)
  await executionIs(n8n, execution, ['waiting'])
  await n8n.kill()
  await wait(4_000)
  n8n = await restartN8n(n8n, 'kill')
  const done = await executionIs(n8n, execution)
  expect(done.status).toBe('success')
  expect(itemsOf(done, 'Await')[0]?.json).toMatchObject({ state: 'completed', result: 'done thinking' })
})

it('[n8n.queue-refused] in queue mode a node without a server is refused with what to do, and one with a server works', async () => {
  const queue = { env: { EXECUTIONS_MODE: 'queue' } }
  const inside = await createWorkflow(n8n, askWorkflow('Nobody gets this.'))
  const refused = await n8nCommand(place, ['execute', `--id=${inside}`, '--rawOutput'], queue)
  expect(`${refused.stdout}${refused.stderr}`).toContain('agent-harness serve')
  expect(refused.code).not.toBe(0)
  const outside = await createWorkflow(n8n, onHarness(askWorkflow('Answer with ok.'), credential))
  const sent = await n8nCommand(place, ['execute', `--id=${outside}`, '--rawOutput'], queue)
  expect(`${sent.stdout}${sent.stderr}`).toContain('turn_id')
  expect(sent.code).toBe(0)
})
