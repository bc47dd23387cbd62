/*
 * The approval page behind the address of a parked execution. GET shows, POST decides; who has the link has the key of that one approval.
 * A decision does not resume the execution: the harness calls back for that, so that all ways to decide end the same. Nothing here is
 * ever reached by a model.
 */
import type { IDataObject, IWebhookFunctions, IWebhookResponseData } from 'n8n-workflow'
import { connect } from './connect'
import { messageOf } from './errors'

export async function answerOnPage(context: IWebhookFunctions): Promise<IWebhookResponseData> {
  const { answeredPage, answerInput, approvalPage, isHarnessError, pageHeaders, problemPage } = await import('../../core/index.js')
  const send = (status: number, html: string): IWebhookResponseData => {
    context.getResponseObject().status(status).set(pageHeaders).send(html)
    return { noWebhookResponse: true }
  }
  try {
    const query = context.getQueryData() as IDataObject
    const named = { approval_id: String(query['approval_id']), link_key: String(query['key'] ?? '') }
    const connection = await connect(context)
    const detail = await connection.call('open_approval', named)
    const options = { action: sameAddress(context), linkKey: named.link_key }
    if (context.getRequestObject().method !== 'POST' || detail.status !== 'pending') return send(200, approvalPage(detail, options))
    const form = texts(context.getBodyData())
    try {
      // which approval and by which key stands in the address; a form cannot say otherwise
      await connection.call('answer_approval', { ...answerInput(form), ...named })
    } catch (error) {
      if (!isHarnessError(error)) throw error
      const { responder = '', reason = '' } = form
      return send(400, approvalPage(await connection.call('open_approval', named), { ...options, problem: error.message, given: { responder, reason } }))
    }
    return send(200, answeredPage(await connection.call('open_approval', named)))
  } catch (error) {
    return send(404, problemPage({ title: 'This cannot be shown', message: messageOf(error) }))
  }
}

/** Only the query: a proxy may have put n8n below a path that n8n does not know of. */
function sameAddress(context: IWebhookFunctions): string {
  const { originalUrl } = context.getRequestObject()
  const at = originalUrl.indexOf('?')
  return at === -1 ? '' : originalUrl.slice(at)
}

export function texts(body: IDataObject): Record<string, string> {
  return Object.fromEntries(Object.entries(body).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])))
}
