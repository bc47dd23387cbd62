/*
 * The approval page over HTTP on loopback. Whoever has the link sees one question; a POST of its form answers it, nothing else does. A
 * page of somebody else in the same browser gets nothing: names other than loopback and foreign origins are refused.
 */
import { bodyLimit } from 'hono/body-limit'
import type { Context, MiddlewareHandler } from 'hono'
import {
  answeredPage,
  answerInput,
  approvalPage,
  errorCodes,
  pageHeaders,
  problemPage,
  toHarnessError,
  type Caller,
  type HarnessError,
  type Log,
  type OpenHarness,
  type PageOptions,
} from '../core/index'
import { loopbackOnly, type Mount } from './http'

const largestForm = 16 * 1024

type Pages = Pick<OpenHarness, 'open_approval' | 'answer_approval'>

export interface PageParts {
  readonly harness: Pages
  /** Asked at each request: rights may have changed. */
  readonly caller: () => Caller
  readonly log: Log
}

export function approvalRoutes(parts: PageParts): Mount {
  return (app) => {
    app.use('/approvals/*', loopbackOnly)
    app.get('/approvals/:id', async (context) => {
      const [id, key] = [context.req.param('id'), context.req.query('key') ?? '']
      return answered(context, parts, async () => [200, await question(id, key, parts)])
    })
    app.post('/approvals/:id', ownOrigin, bodyLimit({ maxSize: largestForm, onError: tooLarge }), async (context) => {
      const form = formOf(context.req.header('content-type') ?? '', await context.req.text())
      if (form === null) return html(context, 400, problemPage({ title: 'Not understood', message: 'That is not the form of this page. Open the link again.' }))
      return answered(context, parts, () => answer(context.req.param('id'), form, parts))
    })
  }
}

async function question(id: string, key: string, { harness, caller }: PageParts, more: Partial<PageOptions> = {}): Promise<string> {
  const detail = await harness.open_approval({ approval_id: id, link_key: key === '' ? 'none' : key }, caller())
  return approvalPage(detail, { action: `/approvals/${id}`, linkKey: key, ...more })
}

/** A try that came to nothing shows the question again, with what was typed but the passphrase. */
async function answer(id: string, form: Readonly<Record<string, string>>, parts: PageParts): Promise<[status: number, page: string]> {
  const key = form['key'] ?? ''
  try {
    const given = answerInput({ ...form, approval: id, key: key === '' ? 'none' : key })
    return [200, answeredPage(await parts.harness.answer_approval(given, parts.caller()))]
  } catch (thrown) {
    const error = toHarnessError(thrown)
    const { fault, http } = errorCodes[error.code]
    if (fault !== 'caller' || error.code === 'not_found') throw error
    const { responder = '', reason = '' } = form
    return [http, await question(id, key, parts, { problem: error.message.replace(/^answer_approval: /, ''), given: { responder, reason } })]
  }
}

async function answered(context: Context, { log }: PageParts, work: () => Promise<[status: number, page: string]>): Promise<Response> {
  try {
    const [status, page] = await work()
    return html(context, status, page)
  } catch (thrown) {
    const error = toHarnessError(thrown)
    if (errorCodes[error.code].fault === 'us') log.error({ err: thrown }, 'the approval page failed')
    return html(context, errorCodes[error.code].http, problemPage({ title: titleOf(error), message: error.message }))
  }
}

function titleOf({ code }: HarnessError): string {
  return code === 'not_found' ? 'There is no such approval' : 'That did not work'
}

function html(context: Context, status: number, page: string): Response {
  return context.body(page, { status, headers: pageHeaders } as ResponseInit as { headers: Record<string, string> })
}

/** A form of another site cannot be posted here. Our own page, which sends no referrer, is `null` to some browsers, and in a sandbox. */
const ownOrigin: MiddlewareHandler = async (context, next) => {
  const origin = context.req.header('origin')
  if (origin !== undefined && origin !== 'null' && origin !== `http://${context.req.header('host') ?? ''}`) {
    return html(context, 403, problemPage({ title: 'Refused', message: 'This form was sent by another site.' }))
  }
  return next()
}

function tooLarge(context: Context): Response {
  return html(context, 413, problemPage({ title: 'Too much', message: 'What was sent is larger than this form can be.' }))
}

/** Null for what is no form, or names a field twice. */
function formOf(type: string, body: string): Readonly<Record<string, string>> | null {
  if (!/^application\/x-www-form-urlencoded\b/i.test(type)) return null
  const fields = [...new URLSearchParams(body)]
  return new Set(fields.map(([name]) => name)).size === fields.length ? Object.fromEntries(fields) : null
}
