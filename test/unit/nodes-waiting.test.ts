/* What a parked node answers to whoever comes to its address. n8n resumes an execution when a webhook throws, so nothing here may. */
import type { IWebhookFunctions } from 'n8n-workflow'
import { HarnessFunctionTrigger } from '../../nodes/HarnessFunctionTrigger/HarnessFunctionTrigger.node'
import { answerWaiting, waitingSuffix, waitingWebhooks } from '../../nodes/shared/waiting'

interface Visit {
  readonly method: string
  readonly query?: Record<string, string>
  readonly body?: Record<string, unknown>
  readonly kept?: unknown
}

function visit({ method, query = {}, body = {}, kept = null }: Visit): { context: IWebhookFunctions; sent: { status: number; body: unknown }[] } {
  const sent: { status: number; body: unknown }[] = []
  let status = 200
  const answer = { status: (code: number) => { status = code; return answer }, set: () => answer, send: (text: string) => { sent.push({ status, body: text }); return answer }, json: (body: unknown) => { sent.push({ status, body }); return answer } }
  const context = {
    getRequestObject: () => ({ method, originalUrl: '/webhook-waiting/7/agent-harness', headers: {} }), getResponseObject: () => answer, getQueryData: () => query, getBodyData: () => body,
    getExecutionId: () => '7', getNode: () => ({ name: 'A "quoted" node', parameters: {} }), getWorkflow: () => ({ id: 'w' }), getWorkflowSettings: () => ({ engineType: 'v2' }),
    evaluateExpression: () => { if (kept instanceof Error) throw kept; return JSON.stringify(kept) },
  }
  return { context: context as unknown as IWebhookFunctions, sent }
}

const resume = jest.fn(() => [[]])
const pending = { webhookResponse: { pending: true } }
afterEach(() => { expect(resume).not.toHaveBeenCalled() })

it('[n8n.strangers-ignored] a callback that names no await, or another one, leaves the execution waiting', async () => {
  const kept = { input: { await_id: 'a'.repeat(64), turn_ids: ['t_1'] }, asked: [], given: [] }
  for (const body of [{}, { await_id: 'b'.repeat(64), status: 'done' }, { await_id: null }, { await_id: { x: 1 } }]) {
    expect(await answerWaiting(visit({ method: 'POST', body, kept }).context, resume)).toEqual(pending)
  }
})

it('[n8n.strangers-ignored] a node that remembers nothing, or an error on the way, leaves the execution waiting', async () => {
  const body = { await_id: 'a'.repeat(64), status: 'done' }
  expect(await answerWaiting(visit({ method: 'POST', body }).context, resume)).toEqual(pending)
  expect(await answerWaiting(visit({ method: 'POST', body, kept: new Error('no isolate') }).context, resume)).toEqual(pending)
  // the harness cannot be reached: this engine is refused
  const kept = { input: { await_id: body.await_id, turn_ids: ['t_1'] }, asked: [], given: [] }
  expect(await answerWaiting(visit({ method: 'POST', body, kept }).context, resume)).toEqual(pending)
})

it('[n8n.get-decides-nothing] a visit shows a page and resumes nothing', async () => {
  const { context, sent } = visit({ method: 'GET' })
  expect(await answerWaiting(context, resume)).toEqual({ noWebhookResponse: true })
  expect(sent).toEqual([{ status: 200, body: expect.stringContaining('Nothing is decided') }])
})

it('[n8n.strangers-told-nothing] whoever comes to a page that cannot be shown, or to a trigger whose harness is away, is told nothing of what is behind', async () => {
  const { context, sent } = visit({ method: 'GET', query: { approval_id: 'a_1', key: 'k' } })
  await answerWaiting(context, resume)
  const trigger = visit({ method: 'POST' })
  await new HarnessFunctionTrigger().webhook.call(trigger.context)
  for (const { status, body } of [...sent, ...trigger.sent]) {
    expect(status).toBeGreaterThanOrEqual(404)
    expect(JSON.stringify(body)).toMatch(/cannot be used at the moment/)
    expect(JSON.stringify(body)).not.toMatch(/engine/)
  }
  expect([sent.length, trigger.sent.length]).toEqual([1, 1])
})

it('the address of our nodes is no id of a node, which n8n would sign in its own way', () => {
  expect(waitingWebhooks.map(({ httpMethod, path, restartWebhook, responseData }) => [httpMethod, path, restartWebhook, responseData])).toEqual([
    ['GET', waitingSuffix, true, ''], ['POST', waitingSuffix, true, ''],
  ])
})
