/* What the end-to-end tests do with examples/workflows/refund.json: start it, find its link, decide on the page, count its refunds. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { N8nServer } from './n8n'
import { executionIs, itemsOf, listExecutions, runManually, webhookIsThere, type Execution } from './n8n-api'
import type { Scene } from './stub-on-ollama-port'

interface Example {
  readonly id: string
  readonly nodes: readonly { readonly name: string; readonly type: string; readonly webhookId?: string }[]
}

const example = JSON.parse(readFileSync(path.join(__dirname, '../../examples/workflows/refund.json'), 'utf8')) as Example

export const refundWorkflow = example.id

/** The model reads the mail and asks for the refund that is in it, once. */
export const refundScene: Scene = { when: 'workflow::refund', rounds: [[{ function_id: 'workflow::refund', arguments: { order: '1042', amount: 120 } }]] }

const trigger = example.nodes.find(({ type }) => type.endsWith('.harnessFunctionTrigger'))!

/** "Execute workflow"; answers the execution's id. */
export async function startRefund(n8n: N8nServer): Promise<string> {
  await webhookIsThere(n8n, `/webhook/${trigger.webhookId!}/function`)
  return runManually(n8n, refundWorkflow, { trigger: 'Execute Workflow' })
}

/** Until the execution waits for a person; answers the link as the message has it. */
export async function linkOf(n8n: N8nServer, executionId: string): Promise<string> {
  for (const until = performance.now() + 60_000; performance.now() < until; await wait(100)) {
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
}

/** Does what a browser does: reads the form of the page and posts it. */
export async function decideOnPage(link: string, answer: Answer): Promise<{ status: number; text: string }> {
  const html = await (await fetch(link)).text()
  const action = /<form method="post" action="([^"]*)"/.exec(html)?.[1]?.replaceAll('&amp;', '&') ?? ''
  const hidden = [...html.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)].map(([, name = '', value = '']) => [name, value])
  const posted = await fetch(new URL(action, link), { method: 'POST', body: new URLSearchParams([...hidden, ...Object.entries({ reason: '', ...answer })]) })
  return { status: posted.status, text: await posted.text() }
}

/** Executions of the function, whatever became of them, newest first. */
export async function refundsOf(n8n: N8nServer): Promise<Execution[]> {
  return (await listExecutions(n8n, refundWorkflow)).filter(({ data }) => data.resultData.runData[trigger.name] !== undefined)
}
