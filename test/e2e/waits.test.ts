/*
 * Waiting on the real n8n: whoever calls, however often and however early, an execution goes on once and with what the harness says; one
 * that is gone ends its await and never the turn.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { harnessRows } from '../support/refund-workflow'
import type { StrictOllama } from '../support/strict-ollama'
import { awaitIdOf } from '../../nodes/shared/awaited'
import { waitingUrl } from '../../nodes/shared/waiting'
import { endN8n, makePlace, startN8n, type N8nServer } from '../support/n8n'
import {
  callWebhook, createWorkflow, deleteExecution, executionIs, itemsOf, outputsUsed, resumeAddress, runManually, stopExecution,
  type Execution, type Workflow, type WorkflowNode,
} from '../support/n8n-api'
import { startOnOllamaPort } from '../support/stub-on-ollama-port'

let model: StrictOllama
let n8n: N8nServer

beforeAll(async () => {
  const scenes = [60, 150, 300, 1_500, 4_000].map((thinks_ms) => ({ when: `think ${String(thinks_ms)} ms`, thinks_ms, says: `thought for ${String(thinks_ms)}` }))
  model = await startOnOllamaPort(scenes)
  n8n = await startN8n(await makePlace())
})

afterAll(async () => {
  await endN8n()
  await model.stop()
})

const node = (name: string, type: string, parameters: WorkflowNode['parameters'] = {}, typeVersion = 1): WorkflowNode =>
  ({ id: name.toLowerCase().replaceAll(' ', '-'), name, type, typeVersion, position: [0, 0], parameters })
const start = node('Start', 'n8n-nodes-base.manualTrigger')
const end = node('End', 'n8n-nodes-base.noOp')
const send = (name: string, thinks: number): WorkflowNode => node(name, 'n8n-nodes-agent-harness.harnessSend', { operation: 'send', message: `think ${String(thinks)} ms`, options: {} })
const awaitTurn = (name: string): WorkflowNode => node(name, 'n8n-nodes-agent-harness.harnessAwaitTurn', { turnId: '={{ $json.turn_id }}', options: {} })
/** Chains of nodes by name; those that begin alike branch. */
const linked = (name: string, nodes: readonly WorkflowNode[], ...chains: readonly (readonly WorkflowNode[])[]): Workflow => {
  const connections: Record<string, { main: { node: string; type: 'main'; index: number }[][] }> = {}
  for (const chain of chains) {
    chain.slice(1).forEach((to, index) => {
      const targets = (connections[chain[index]!.name] ??= { main: [[]] }).main[0]!
      if (!targets.some((target) => target.node === to.name)) targets.push({ node: to.name, type: 'main', index: 0 })
    })
  }
  return { name, nodes, connections }
}
const oneTurn = (thinks: number): Workflow => {
  const nodes = [start, send('Send', thinks), awaitTurn('Await'), end]
  return linked(`One turn of ${String(thinks)} ms`, nodes, nodes)
}

/** The await that a node of this execution has open. */
const awaitOf = (execution: Execution, awaitNode: string, sendNode: string): string =>
  awaitIdOf({ kind: 'turns', execution: execution.id, node: awaitNode.toLowerCase().replaceAll(' ', '-'), run: 0, ids: [turnOf(execution, sendNode)] })
const turnOf = (execution: Execution, sendNode: string): string => itemsOf(execution, sendNode)[0]?.json.turn_id as string

interface Stored { readonly await_status: string | null; readonly turn_status: string | null }

function stored(turnId: string): Stored {
  const rows = harnessRows<Stored>(n8n, `SELECT (SELECT a.status FROM awaits a JOIN await_subjects s ON s.await_id = a.await_id WHERE s.subject_id = t.turn_id) AS await_status, status AS turn_status FROM turns t WHERE turn_id = ?`, turnId)
  return rows[0] ?? { await_status: null, turn_status: null }
}

async function storedIs(turnId: string, expected: Stored): Promise<void> {
  for (const until = performance.now() + 20_000; performance.now() < until; ) {
    await wait(100)
    if (JSON.stringify(stored(turnId)) === JSON.stringify(expected)) return
  }
  expect(stored(turnId)).toEqual(expected)
}

it('[n8n.callbacks] callbacks that come before n8n has saved the wait are made again: ten turns that end at once all come through', async () => {
  const workflows = await Promise.all([60, 150, 300].map((thinks) => createWorkflow(n8n, oneTurn(thinks))))
  for (let run = 0; run < 10; run += 1) {
    const done = await executionIs(n8n, await runManually(n8n, workflows[run % 3]!))
    expect([run, done.status, outputsUsed(done, 'Await'), itemsOf(done, 'End').length]).toEqual([run, 'success', [0], 1])
  }
})

it('[n8n.callbacks] eight who call the whole time, with the right await, resume it once, when the turn has ended and not before', async () => {
  const id = await runManually(n8n, await createWorkflow(n8n, oneTurn(1_500)))
  const waiting = await executionIs(n8n, id, ['waiting'])
  const address = waitingUrl(await resumeAddress(n8n, id))
  const body = { await_id: awaitOf(waiting, 'Await', 'Send'), status: 'done' }
  const answers: { status: number; json: any }[] = []
  let isOver = false
  const callers = Array.from({ length: 8 }, async () => {
    while (!isOver) answers.push(await callWebhook(n8n, address, body))
  })
  const done = await executionIs(n8n, id)
  isOver = true
  await Promise.all(callers)
  expect(done.status).toBe('success')
  expect(done.data.resultData.runData['Await']).toHaveLength(1)
  expect(itemsOf(done, 'End').map(({ json }) => [json.state, json.result])).toEqual([['completed', 'thought for 1500']])
  // those who were early were told to come again, and of those who raced at most one was told that it did it
  expect(answers.some(({ json }) => json?.pending === true)).toBe(true)
  expect(answers.filter(({ json }) => json?.accepted === true).length).toBeLessThanOrEqual(1)
  // n8n tells those who lost the race 409, or 500 where they had come further
  expect(answers.filter(({ status }) => ![200, 409, 500].includes(status))).toEqual([])
  await storedIs(turnOf(waiting, 'Send'), { await_status: stored(turnOf(waiting, 'Send')).await_status === 'delivered' ? 'delivered' : 'answered', turn_status: 'completed' })
})

it('[n8n.callbacks] what does not name the await of the node, lies about it or only looks leaves the execution waiting', async () => {
  const id = await runManually(n8n, await createWorkflow(n8n, oneTurn(4_000)))
  const waiting = await executionIs(n8n, id, ['waiting'])
  const address = waitingUrl(await resumeAddress(n8n, id))
  const liars: unknown[] = [{}, { await_id: 'f'.repeat(64), status: 'done' }, { await_id: awaitOf(waiting, 'Await', 'Send'), status: 'done' }, { await_id: { $gt: '' } }, [], { turns: [{ state: 'completed' }] }]
  for (const body of liars) expect(await callWebhook(n8n, address, body)).toMatchObject({ status: 200, json: { pending: true } })
  expect(await callWebhook(n8n, address, undefined, { method: 'GET' })).toMatchObject({ status: 200 })
  const withoutToken = new URL(address)
  withoutToken.searchParams.delete('signature')
  expect((await callWebhook(n8n, withoutToken.toString(), liars[2])).status).toBe(401)
  expect((await executionIs(n8n, id, ['waiting'])).status).toBe('waiting')
  expect(itemsOf(await executionIs(n8n, id), 'End')[0]?.json).toMatchObject({ state: 'completed' })
})

it('[n8n.gone] an execution that was stopped while it waits ends its await, and the turn ends by itself', async () => {
  const id = await runManually(n8n, await createWorkflow(n8n, oneTurn(1_500)))
  const turn = turnOf(await executionIs(n8n, id, ['waiting']), 'Send')
  await stopExecution(n8n, id)
  await storedIs(turn, { await_status: 'orphaned', turn_status: 'completed' })
  expect((await executionIs(n8n, id)).status).toBe('canceled')
})

it('[n8n.gone] one that was deleted while it waits likewise', async () => {
  const id = await runManually(n8n, await createWorkflow(n8n, oneTurn(1_500)))
  const turn = turnOf(await executionIs(n8n, id, ['waiting']), 'Send')
  await deleteExecution(n8n, id)
  await storedIs(turn, { await_status: 'orphaned', turn_status: 'completed' })
})

it('[n8n.callbacks] two waits in one execution, one after the other: what is late for the first does not resume the second', async () => {
  const nodes = [start, send('Send 1', 150), awaitTurn('Await 1'), send('Send 2', 1_500), awaitTurn('Await 2'), end]
  const id = await runManually(n8n, await createWorkflow(n8n, linked('Two in a row', nodes, nodes)))
  let execution = await executionIs(n8n, id, ['waiting'])
  while (itemsOf(execution, 'Send 2').length === 0) execution = await executionIs(n8n, id, ['waiting'])
  const late = { await_id: awaitOf(execution, 'Await 1', 'Send 1'), status: 'done' }
  expect(await callWebhook(n8n, waitingUrl(await resumeAddress(n8n, id)), late)).toMatchObject({ status: 200, json: { pending: true } })
  const done = await executionIs(n8n, id)
  expect([itemsOf(done, 'Await 1')[0]?.json.result, itemsOf(done, 'Await 2')[0]?.json.result]).toEqual(['thought for 150', 'thought for 1500'])
  expect(done.status).toBe('success')
})

it('[n8n.callbacks] two waits in branches beside each other both come through, each with its own turn', async () => {
  const [first, second] = [[start, send('Send 1', 1_500), awaitTurn('Await 1')], [start, send('Send 2', 300), awaitTurn('Await 2')]]
  const id = await runManually(n8n, await createWorkflow(n8n, linked('Two branches', [start, ...first.slice(1), ...second.slice(1)], first, second)))
  const done = await executionIs(n8n, id)
  expect([done.status, itemsOf(done, 'Await 1')[0]?.json.result, itemsOf(done, 'Await 2')[0]?.json.result]).toEqual(['success', 'thought for 1500', 'thought for 300'])
})

it('[n8n.callbacks] a sub-workflow that waits gives its parent what the turn came to', async () => {
  const called = node('Start', 'n8n-nodes-base.executeWorkflowTrigger', { inputSource: 'passthrough' }, 1.1)
  const inner = [called, send('Send', 1_500), awaitTurn('Await')]
  const child = await createWorkflow(n8n, linked('Child', inner, inner))
  const call = node('Call', 'n8n-nodes-base.executeWorkflow', { workflowId: { __rl: true, mode: 'id', value: child }, options: { waitForSubWorkflow: true } }, 1.2)
  const outer = [start, call, end]
  const id = await runManually(n8n, await createWorkflow(n8n, linked('Parent', outer, outer)))
  const done = await executionIs(n8n, id)
  expect([done.status, itemsOf(done, 'End').map(({ json }) => json.result)]).toEqual(['success', ['thought for 1500']])
})
