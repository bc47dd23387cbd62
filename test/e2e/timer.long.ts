/*
 * The long form: n8n's own timer, which stands by where the harness cannot call back. Takes four minutes, for n8n looks once a minute and
 * we leave the harness two. An approval that nobody answers leaves through Timed Out and never through Approved.
 */
import { appendFileSync, existsSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { endN8n, importWorkflows, makePlace, startN8n } from '../support/n8n'
import { activate, executionIs, itemsOf, outputsUsed } from '../support/n8n-api'
import { linkOf, refundScene, refundsOf, refundWorkflow, startRefund } from '../support/refund-workflow'
import { startStub } from '../support/stub-on-ollama-port'

afterAll(endN8n)

it('[n8n.approve-timeout] where nobody answers and the harness cannot call back, n8n lets the stamped item out of Timed Out', async () => {
  const model = await startStub(0, [refundScene])
  try {
    const place = await makePlace()
    await importWorkflows(place, path.join(__dirname, '../../examples/workflows/refund.json'))
    const env = { OLLAMA_HOST: model.url }
    let n8n = await startN8n(place, { env })
    await activate(n8n, refundWorkflow)
    const config = path.join(place.n8nFolder, 'agent-harness', 'harness.yaml')
    while (!existsSync(config)) await wait(100)
    appendFileSync(config, '\nworkflows: { approval_ttl: 60s }\n')
    const id = await startRefund(n8n)
    await linkOf(n8n, id)
    await n8n.stop()
    // n8n has moved: where the harness calls back nobody listens any more
    const port = place.port + 1
    n8n = await startN8n({ ...place, port, url: `http://127.0.0.1:${String(port)}` }, { env })
    const done = await executionIs(n8n, id, ['success', 'error', 'canceled', 'crashed'], 400_000)
    expect(done.status).toBe('success')
    const approve = done.data.resultData.runData['Agent Harness Approve']
    expect(approve?.[0]?.data?.main?.map((items) => (items ?? []).length)).toEqual([0, 0, 1])
    expect(itemsOf(done, 'Agent Harness Approve', 2)[0]?.json).toMatchObject({ decision: 'expired' })
    expect(outputsUsed(done, 'Agent Harness Approve')).toEqual([2])
    expect(await refundsOf(n8n)).toHaveLength(0)
  } finally {
    await model.stop()
  }
})
