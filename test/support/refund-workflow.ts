/* What the end-to-end tests do with examples/workflows/refund.json: start it, find its link, decide on the page, count its refunds. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import Database from 'better-sqlite3'
import type { N8nServer } from './n8n'
import { executionIs, itemsOf, listExecutions, runManually, webhookIsThere, type Execution, type Workflow, type WorkflowNode } from './n8n-api'
import type { Scene } from './stub-on-ollama-port'

const example = JSON.parse(readFileSync(path.join(__dirname, '../../examples/workflows/refund.json'), 'utf8')) as Workflow & { readonly id: string }

export const refundWorkflow = example.id

/** The model reads the mail and asks for the refund that is in it, once. */
export const refundScene: Scene = { when: 'workflow::refund', rounds: [[{ function_id: 'workflow::refund', arguments: { order: '1042', amount: 120 } }]] }

const trigger = example.nodes.find(({ type }) => type.endsWith('.harnessFunctionTrigger'))!

/** The example, to be created under an id of its own; with a shop that takes its time if told so (seconds). */
export function refundExample({ shopTakes }: { readonly shopTakes?: number } = {}): Workflow {
  const { name, nodes, connections, settings } = example
  const whole = { name, nodes, connections, ...(settings === undefined ? {} : { settings }) }
  if (shopTakes === undefined) return whole
  const pause: WorkflowNode = { id: 'pause', name: 'The Shop Is Slow', type: 'n8n-nodes-base.wait', typeVersion: 1.1, position: [0, 900], parameters: { resume: 'timeInterval', amount: shopTakes, unit: 'seconds' } }
  const after = connections[trigger.name]
  return {
    ...whole, nodes: [...nodes, pause],
    connections: { ...connections, [trigger.name]: { main: [[{ node: pause.name, type: 'main', index: 0 }]] }, [pause.name]: after },
  }
}

/** "Execute workflow"; answers the execution's id. */
export async function startRefund(n8n: N8nServer, workflow = refundWorkflow): Promise<string> {
  await webhookIsThere(n8n, `/webhook/${trigger.webhookId!}/function`)
  return runManually(n8n, workflow, { trigger: 'Execute Workflow' })
}

/** Until the execution waits for a person; answers the link as the message has it. */
export async function linkOf(n8n: N8nServer, executionId: string): Promise<string> {
  for (const until = performance.now() + 60_000; performance.now() < until; ) {
    await wait(100)
    // it waits for the agent first
    const execution = await executionIs(n8n, executionId, ['waiting'])
    const message = itemsOf(execution, 'Message with the Link').at(-1)?.json.message as string | undefined
    const link = /https?:\/\/\S+/.exec(message ?? '')?.[0]
    if (link !== undefined && execution.data.resultData.lastNodeExecuted === 'Agent Harness Approve') return link
  }
  throw new Error(`Execution ${executionId} never asked a person.`)
}

export interface Answer {
  readonly decision: 'approve' | 'reject'
  readonly responder: string
  readonly reason?: string
  /** Where an approver answers and not a name. */
  readonly passphrase?: string
}

/** Does what a browser does: reads the form of the page and posts it. */
export async function decideOnPage(link: string, answer: Answer): Promise<{ status: number; text: string }> {
  const html = await (await fetch(link)).text()
  const action = /<form method="post" action="([^"]*)"/.exec(html)?.[1]?.replaceAll('&amp;', '&') ?? ''
  const hidden = [...html.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)].map(([, name = '', value = '']) => [name, value] as const)
  const posted = await fetch(new URL(action, link), { method: 'POST', body: new URLSearchParams(Object.fromEntries([...hidden, ...Object.entries({ reason: '', ...answer })])) })
  return { status: posted.status, text: await posted.text() }
}

/** Rows of the harness inside this n8n, beside it. */
export function harnessRows<T>(n8n: N8nServer, text: string, ...values: string[]): T[] {
  const database = new Database(path.join(n8n.place.n8nFolder, 'agent-harness', 'harness.db'), { readonly: true, timeout: 5_000 })
  try {
    return database.prepare(text).all(...values) as T[]
  } finally {
    database.close()
  }
}

/** Executions of the function that are over, whatever became of them, newest first. */
export async function refundsOf(n8n: N8nServer, workflow = refundWorkflow): Promise<Execution[]> {
  return (await listExecutions(n8n, workflow)).filter(({ mode }) => mode === 'webhook')
}
