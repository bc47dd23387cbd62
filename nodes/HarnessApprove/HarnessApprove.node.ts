/*
 * Approve: parks the workflow until a person has decided, on the page behind `approval.url` or anywhere else. It decides nothing itself:
 * Approved is only what the harness says is approved, and nobody's answer in time is Timed Out.
 */
import {
  NodeConnectionTypes,
  type IExecuteFunctions, type INodeExecutionData, type INodeType, type INodeTypeDescription, type IWebhookFunctions, type IWebhookResponseData,
} from 'n8n-workflow'
import { sortApprovals, timedOutApprovals } from '../shared/awaited'
import { connect, harnessCredentials, harnessProperty } from '../shared/connect'
import { asNodeError, messageOf } from '../shared/errors'
import { answerWaiting, askedFor, park, waitOf, waitingWebhooks, type Kept } from '../shared/waiting'

const names = ['Approved', 'Rejected', 'Timed Out']
const approvalId = { name: 'approvalId', shown: 'Approval ID', hint: 'It comes from the output Needs Approval of Agent Harness Await Turn.' }

export class HarnessApprove implements INodeType {
  description: INodeTypeDescription = {
    displayName: 'Agent Harness Approve',
    name: 'harnessApprove',
    icon: { light: 'file:../icons/approve.svg', dark: 'file:../icons/approve.dark.svg' },
    group: ['organization'],
    version: 1,
    subtitle: 'until a person has decided',
    description: 'Wait until a person has decided about what an agent wants to do. Send them approval.url before this node; lead all outputs back to Await Turn.',
    defaults: { name: 'Agent Harness Approve' },
    // no tool form, which n8n offers by default: a model must not be what answers for a call of a model
    usableAsTool: undefined as never,
    inputs: [NodeConnectionTypes.Main],
    outputs: names.map((displayName) => ({ type: NodeConnectionTypes.Main, displayName })),
    outputNames: names,
    credentials: harnessCredentials,
    webhooks: waitingWebhooks,
    waitingNodeTooltip: 'Waits for a person. The link is in approval.url of the item that came in.',
    properties: [
      harnessProperty,
      {
        displayName: 'Approval ID', name: 'approvalId', type: 'string', default: '={{ $json.approval?.approval_id ?? $("Agent Harness Await Turn").item.json.approval.approval_id }}', required: true,
        description: 'From the output Needs Approval of Await Turn, also across a message node between',
      },
    ],
  }

  async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
    const items = this.getInputData()
    try {
      const asked = askedFor(this, approvalId)
      const ids = asked.map(({ id }) => id)
      const input: Kept['input'] = { ...waitOf(this, 'approvals', ids), approval_ids: ids }
      const awaited = await (await connect(this)).call('await', input)
      const given = items.map(({ json }, item) => ({ json: { harness_execution_id: json['harness_execution_id'] ?? null }, pairedItem: { item } }))
      if (awaited.status !== 'pending') return sortApprovals(awaited, asked, given)
      const deadline = Math.max(...awaited.approvals.map(({ expires_at }) => expires_at))
      await park(this, { input, asked, given }, { stamped: [[], [], timedOutApprovals(awaited, asked, given)], deadline })
      return [items]
    } catch (error) {
      if (!this.continueOnFail()) throw asNodeError(this.getNode(), error)
      // an error is no approval, and nobody has rejected
      return [[], [], items.map((_item, item) => ({ json: { error: messageOf(error) }, pairedItem: { item } }))]
    }
  }

  async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
    return answerWaiting(this, (awaited, { asked, given }) => (awaited.approvals.some(({ status }) => status === 'pending') ? null : sortApprovals(awaited, asked, given)))
  }
}
