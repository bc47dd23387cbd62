/*
 * The approval page behind the address of a parked execution. GET shows, POST decides; who has the link has the key of that one approval.
 * A decision does not resume the execution: the harness calls back for that, so that all ways to decide end the same. Nothing here is
 * ever reached by a model.
 */
import type { IDataObject, IWebhookFunctions, IWebhookResponseData } from 'n8n-workflow'
import { connect } from './connect'
import { n8nLog } from './embedded'
import { messageForStrangers, messageOf } from './errors'
import { answerOf, queryText, requestOf } from './web'

export async function answerOnPage(context: IWebhookFunctions): Promise<IWebhookResponseData> {
  const { answeredPage, answerInput, approvalPage, pageHeaders, problemPage } = await import('../../core/index.js')
  const send = (status: number, html: string): IWebhookResponseData => {
    answerOf(context).status(status).set(pageHeaders).send(html)
    return { noWebhookResponse: true }
  }
  try {
    const named = { approval_id: queryText(context, 'approval_id') ?? '', link_key: queryText(context, 'key') ?? '' }
    const connection = await connect(context)
    const detail = await connection.call('open_approval', named)
    const options = { action: sameAddress(context), linkKey: named.link_key }
    if (requestOf(context).method !== 'POST' || detail.status !== 'pending') return send(200, approvalPage(detail, options))
    const form = texts(context.getBodyData())
    // which approval and by which key stands in the address; a form cannot say otherwise
    const problem = await connection.call('answer_approval', { ...answerInput(form), ...named }).then(() => null, messageForStrangers)
    const after = await connection.call('open_approval', named)
    if (problem === null || after.status !== 'pending') return send(200, answeredPage(after))
    const { responder = '', reason = '' } = form
    return send(400, approvalPage(after, { ...options, problem, given: { responder, reason } }))
  } catch (error) {
    n8nLog.warn({ execution: context.getExecutionId() }, `the page of an approval could not be shown: ${messageOf(error)}`)
    return send(404, problemPage({ title: 'This cannot be shown', message: messageForStrangers(error) }))
  }
}

/** Only the query: a proxy may have put n8n below a path that n8n does not know of. */
function sameAddress(context: IWebhookFunctions): string {
  const { originalUrl } = requestOf(context)
  const at = originalUrl.indexOf('?')
  return at === -1 ? '' : originalUrl.slice(at)
}

export function texts(body: IDataObject): Record<string, string> {
  return Object.fromEntries(Object.entries(body).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])))
}
