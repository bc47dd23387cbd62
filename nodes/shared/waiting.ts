/*
 * Parking an execution until the harness calls back, and answering what comes to its address meanwhile. n8n's rules behind this: a timer
 * that fires lets the parked items out without running the node, so what they would be is stamped beforehand; everything that throws in
 * a webhook resumes the execution, so nothing may; and the address is one for the whole execution, so who calls must name the await.
 */
import { UserError, WAIT_INDEFINITELY, type IExecuteFunctions, type INodeExecutionData, type IWebhookDescription, type IWebhookFunctions, type IWebhookResponseData } from 'n8n-workflow'
import type { InputOf } from '../../core/index'
import { answerOnPage } from './approval-page'
import { askedBy, awaitIdOf, type Asked, type Awaited } from './awaited'
import { connect } from './connect'
import { n8nLog } from './embedded'
import { messageOf } from './errors'
import { answerOf, queryText, requestOf } from './web'

/** The end of the address of a parked execution that is ours, for callbacks and pages of all our nodes. Not a node's id: n8n would sign that otherwise. */
export const waitingSuffix = 'agent-harness'

const page: IWebhookDescription = { name: 'default', httpMethod: 'GET', responseMode: 'onReceived', responseData: '', path: waitingSuffix, restartWebhook: true, isFullPath: true }

/** GET shows a page, POST is the harness calling back or a decision from the page. */
export const waitingWebhooks: IWebhookDescription[] = [page, { ...page, httpMethod: 'POST' }]

/** The end of a wait is the harness's to tell; n8n's timer, once a minute, only stands by. */
const graceMs = 120_000

type AwaitInput = InputOf<'await'>

/** What a parked node remembers, in its part of the execution's data. */
export interface Kept {
  readonly input: AwaitInput
  readonly asked: readonly Asked[]
  readonly given: readonly INodeExecutionData[]
}

const keptKey = 'agentHarnessAwait'

/** How often this node has run before in this execution: a loop comes back to it. */
export function runOf(context: IExecuteFunctions, item: number): number {
  return Number(context.evaluateExpression('{{ $runIndex }}', item))
}

/** The ids that the items name, each with its items. `hint`: where such an id comes from, for whoever left it empty. */
export function askedFor(context: IExecuteFunctions, field: { readonly name: string; readonly shown: string; readonly hint: string }): Asked[] {
  return askedBy(context.getInputData().map((_item, index) => {
    const id = context.getNodeParameter(field.name, index, '') as unknown
    if (typeof id === 'string' && id.trim() !== '') return id.trim()
    throw new UserError(`${field.shown} is empty at item ${index}. ${field.hint}`)
  }))
}

/** What every wait of our nodes asks for: one id for the same wait of the same run, and this execution's address to be called back at. */
export function waitOf(context: IExecuteFunctions, kind: 'turns' | 'approvals', ids: readonly string[]): Required<Pick<AwaitInput, 'await_id' | 'callback'>> {
  const { id: node } = context.getNode()
  const await_id = awaitIdOf({ kind, execution: context.getExecutionId(), node, run: runOf(context, 0), ids })
  return { await_id, callback: { url: waitingUrl(resumeUrl(context)) } }
}

/** Where the harness calls back, with the token of this execution in it. */
export function resumeUrl(context: IExecuteFunctions | IWebhookFunctions): string {
  const url: unknown = context.evaluateExpression('{{ $execution.resumeUrl }}', 0)
  if (typeof url === 'string') return url
  throw new UserError('n8n gives this execution no address to be called back at.')
}

/** An address of this execution that ends with our suffix. */
export function waitingUrl(resume: string, query: Readonly<Record<string, string>> = {}): string {
  const url = new URL(resume)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${waitingSuffix}`
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  return url.toString()
}

/** Parks the execution. `stamped` is what leaves, by output, if n8n's own timer is the one that ends the wait. */
export async function park(context: IExecuteFunctions, kept: Kept, facts: { stamped: INodeExecutionData[][]; deadline: number | null }): Promise<void> {
  context.getContext('node')[keptKey] = kept
  // a plain copy: n8n writes this to its database, and reads it when the timer fires
  context.getExecuteData().data = { main: facts.stamped }
  context.setMetadata({ forwardAllOutputs: true, resumeUrl: resumeUrl(context) })
  await context.putExecutionToWait(facts.deadline === null ? WAIT_INDEFINITELY : new Date(facts.deadline + graceMs))
}

/** What to do with a callback: the outputs to go on with; null to go on waiting. */
export type Resume = (awaited: Awaited, kept: Kept, resume: string) => INodeExecutionData[][] | null

/** Answers whatever comes to the address of a parked node. Never throws. */
export async function answerWaiting(context: IWebhookFunctions, resume: Resume): Promise<IWebhookResponseData> {
  try {
    if (isForPage(context)) return await answerOnPage(context)
    if (requestOf(context).method !== 'POST') return statusPage(context)
    return await answerCallback(context, resume)
  } catch (error) {
    n8nLog.warn({ execution: context.getExecutionId() }, `an answer to a waiting node failed: ${messageOf(error)}`)
    return stillPending
  }
}

const stillPending: IWebhookResponseData = { webhookResponse: { pending: true } }

async function answerCallback(context: IWebhookFunctions, resume: Resume): Promise<IWebhookResponseData> {
  const kept = keptBy(context)
  // a stranger, or the callback of another wait of this execution
  if (kept === null || context.getBodyData()['await_id'] !== kept.input.await_id) return stillPending
  const awaited = await (await connect(context)).call('await', kept.input)
  if (awaited.status === 'pending') return stillPending
  const outputs = resume(awaited, kept, resumeUrl(context))
  if (outputs === null) return stillPending
  return { workflowData: outputs, webhookResponse: { accepted: true, awaitId: kept.input.await_id } }
}

function isForPage(context: IWebhookFunctions): boolean {
  return queryText(context, 'approval_id') !== null
}

function keptBy(context: IWebhookFunctions): Kept | null {
  const name = JSON.stringify(context.getNode().name)
  const kept = context.evaluateExpression(`{{ JSON.stringify($node[${name}].context[${JSON.stringify(keptKey)}] ?? null) }}`)
  return typeof kept === 'string' ? (JSON.parse(kept) as Kept | null) : null
}

function statusPage(context: IWebhookFunctions): IWebhookResponseData {
  const text = 'This workflow waits for an agent, or for the person who decides about what it wants to do.\nNothing is decided at this address.\n'
  answerOf(context).status(200).set({ 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' }).send(text)
  return { noWebhookResponse: true }
}

