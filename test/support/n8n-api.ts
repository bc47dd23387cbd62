/* What tests ask a running n8n: by its public API where it has it, else as the editor does. Every answer that is no success throws with its text. */
import { setTimeout as wait } from 'node:timers/promises'
import type { N8nServer } from './n8n'

export interface Workflow {
  readonly id?: string
  readonly name: string
  readonly nodes: readonly WorkflowNode[]
  readonly connections: Readonly<Record<string, unknown>>
  readonly settings?: Readonly<Record<string, unknown>>
}

export interface WorkflowNode {
  readonly id: string
  readonly name: string
  readonly type: string
  readonly typeVersion: number
  readonly position: readonly [number, number]
  readonly parameters: Readonly<Record<string, unknown>>
  readonly webhookId?: string
  readonly credentials?: Readonly<Record<string, { readonly id: string; readonly name: string }>>
}

export type ExecutionStatus = 'new' | 'running' | 'waiting' | 'success' | 'error' | 'canceled' | 'crashed' | 'unknown'

export interface Item {
  readonly json: any
  readonly pairedItem?: unknown
}

export interface NodeRun {
  readonly executionStatus?: string
  readonly error?: { readonly message: string; readonly description?: string | null }
  readonly data?: { readonly main?: readonly (readonly Item[] | null)[] }
}

export interface Execution {
  readonly id: string
  readonly status: ExecutionStatus
  /** What started it. */
  readonly mode: 'manual' | 'webhook' | 'trigger' | 'integrated' | 'retry'
  readonly finished: boolean
  readonly workflowId: string
  readonly waitTill: string | null
  readonly data: {
    readonly resultData: {
      readonly runData: Readonly<Record<string, readonly NodeRun[]>>
      readonly error?: { readonly message: string; readonly description?: string | null }
      readonly lastNodeExecuted?: string
    }
  }
}

/** The public API: `publicApi(n8n, 'GET', '/workflows')`. */
export function publicApi<T = any>(n8n: N8nServer, method: string, path: string, body?: unknown): Promise<T> {
  return ask<T>(method, `${n8n.url}/api/v1${path}`, { 'x-n8n-api-key': n8n.place.apiKey }, body)
}

/** As the editor asks, whose answers stand in `data`. */
export async function editorApi<T = any>(n8n: N8nServer, method: string, path: string, body?: unknown): Promise<T> {
  const answer = await ask<{ data: T }>(method, `${n8n.url}/rest${path}`, { cookie: n8n.place.cookie, 'push-ref': 'tests' }, body)
  return answer.data
}

async function ask<T>(method: string, url: string, headers: Record<string, string>, body: unknown): Promise<T> {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await fetch(url, { method, headers: { 'content-type': 'application/json', ...headers }, ...sent })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${url}: ${String(answer.status)} ${text}`)
  return (text === '' ? undefined : JSON.parse(text)) as T
}

/** Answers its id. */
export async function createWorkflow(n8n: N8nServer, { name, nodes, connections, settings = {} }: Workflow): Promise<string> {
  return (await publicApi<{ id: string }>(n8n, 'POST', '/workflows', { name, nodes, connections, settings })).id
}

/** Active when the API says so; its webhooks are there some 0.25 s later, see {@link webhookIsThere}. */
export async function activate(n8n: N8nServer, workflowId: string): Promise<void> {
  await publicApi(n8n, 'POST', `/workflows/${workflowId}/activate`)
}

export async function deactivate(n8n: N8nServer, workflowId: string): Promise<void> {
  await publicApi(n8n, 'POST', `/workflows/${workflowId}/deactivate`)
}

/** "Execute workflow" in the editor; answers the execution's id at once. */
export async function runManually(n8n: N8nServer, workflowId: string, options: { trigger?: string; only_to?: string } = {}): Promise<string> {
  const workflowData = await editorApi<Workflow & { nodes: WorkflowNode[] }>(n8n, 'GET', `/workflows/${workflowId}`)
  const triggers = workflowData.nodes.filter(({ type }) => /trigger$/i.test(type))
  const first = options.trigger ?? (triggers.find(({ type }) => type.endsWith('.manualTrigger')) ?? triggers[0])?.name
  if (first === undefined) throw new Error(`Workflow ${workflowId} has no trigger.`)
  const end = options.only_to === undefined ? {} : { destinationNode: { nodeName: options.only_to, mode: 'inclusive' } }
  const body = { workflowData, triggerToStartFrom: { name: first }, ...end }
  return (await editorApi<{ executionId: string }>(n8n, 'POST', `/workflows/${workflowId}/run`, body)).executionId
}

export function getExecution(n8n: N8nServer, executionId: string): Promise<Execution> {
  return publicApi<Execution>(n8n, 'GET', `/executions/${executionId}?includeData=true`)
}

/** Newest first. */
export async function listExecutions(n8n: N8nServer, workflowId: string): Promise<Execution[]> {
  return (await publicApi<{ data: Execution[] }>(n8n, 'GET', `/executions?workflowId=${workflowId}&includeData=true&limit=100`)).data
}

export async function stopExecution(n8n: N8nServer, executionId: string): Promise<void> {
  await publicApi(n8n, 'POST', `/executions/${executionId}/stop`)
}

export async function deleteExecution(n8n: N8nServer, executionId: string): Promise<void> {
  await publicApi(n8n, 'DELETE', `/executions/${executionId}`)
}

/** Looks until the execution has one of the statuses (default: until it is over); the test fails with what it had instead. */
export async function executionIs(
  n8n: N8nServer, executionId: string, statuses: readonly ExecutionStatus[] = ['success', 'error', 'canceled', 'crashed'], milliseconds = 60_000,
): Promise<Execution> {
  const until = performance.now() + milliseconds
  for (;;) {
    // n8n answers 404 for an execution that it has only just begun
    const execution = await getExecution(n8n, executionId).catch((error: unknown) => (/: 404 /.test(String(error)) ? null : Promise.reject(error as Error)))
    if (execution !== null && statuses.includes(execution.status)) return execution
    if (performance.now() > until) {
      const { status, data } = execution ?? {}
      throw new Error(`Execution ${executionId} is ${status ?? 'not there'} and not ${statuses.join(' or ')}: ${JSON.stringify(data?.resultData.error ?? null)}`)
    }
    await wait(100)
  }
}

/** The address that resumes a waiting execution, with its token, as the harness gets it from the node that waits. */
export async function resumeAddress(n8n: N8nServer, executionId: string): Promise<string> {
  const { data } = await editorApi<{ data: string }>(n8n, 'GET', `/executions/${executionId}`)
  // a flat list, in which objects name their values by place
  const flat = JSON.parse(data) as unknown[]
  const holder = flat.find((part): part is { resumeToken: string } => typeof part === 'object' && part !== null && 'resumeToken' in part)
  return `${n8n.url}/webhook-waiting/${executionId}?signature=${String(flat[Number(holder?.resumeToken)])}`
}

/** What a node put out on one of its outputs, over all its runs. */
export function itemsOf(execution: Execution, node: string, output = 0): readonly Item[] {
  return (execution.data.resultData.runData[node] ?? []).flatMap((run) => run.data?.main?.[output] ?? [])
}

/** Outputs of the node's last run that any item left through. */
export function outputsUsed(execution: Execution, node: string): readonly number[] {
  const outputs = execution.data.resultData.runData[node]?.at(-1)?.data?.main ?? []
  return outputs.flatMap((items, index) => ((items ?? []).length > 0 ? [index] : []))
}

/** Calls an address of n8n, `/webhook/…`, `/webhook-waiting/…` or a whole one; answers whatever came. */
export async function callWebhook(
  n8n: N8nServer, address: string, body?: unknown, { method = 'POST', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; text: string; json: any }> {
  const url = new URL(address, n8n.url)
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await fetch(url, { method, headers: { 'content-type': 'application/json', ...headers }, ...sent, redirect: 'manual' })
  const text = await answer.text()
  let json: unknown = null
  try {
    json = JSON.parse(text)
  } catch {
    // a page or a sentence
  }
  return { status: answer.status, text, json }
}

/** Waits until a production webhook of an activated workflow is there. Asks by a method that starts nothing: n8n then names the right one. */
export async function webhookIsThere(n8n: N8nServer, address: string): Promise<void> {
  for (const until = performance.now() + 15_000; performance.now() < until; ) {
    if ((await callWebhook(n8n, address, undefined, { method: 'PATCH' })).text.includes('Did you mean')) return
    await wait(50)
  }
  throw new Error(`There is no webhook at ${address}.`)
}
