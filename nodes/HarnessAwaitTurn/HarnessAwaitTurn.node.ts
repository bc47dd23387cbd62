/*
 * Await Turn: parks the workflow until turns end or need a person. Nothing is held in memory meanwhile; the harness owns the deadline and
 * calls back. What comes out is read from the harness, never from who calls.
 */
import {
  NodeConnectionTypes,
  type IExecuteFunctions, type INodeExecutionData, type INodeType, type INodeTypeDescription, type IWebhookFunctions, type IWebhookResponseData,
} from 'n8n-workflow'
import { worksAgain, sortTurns, timedOutTurns, turnsForModel, type Asked, type Awaited, type LinkOf } from '../shared/awaited'
import { connect, harnessCredentials, harnessProperty } from '../shared/connect'
import { asNodeError, messageOf } from '../shared/errors'
import { isToolForm } from '../shared/fixed'
import { answerWaiting, askedFor, park, resumeUrl, waitOf, waitingUrl, waitingWebhooks, type Kept } from '../shared/waiting'

const names = ['Done', 'Needs Approval', 'Not Done']
const turnId = { name: 'turnId', shown: 'Turn ID', hint: 'Put Agent Harness Send before this node, or name the turn.' }

export class HarnessAwaitTurn implements INodeType {
  description: INodeTypeDescription = {
    displayName: 'Agent Harness Await Turn',
    name: 'harnessAwaitTurn',
    icon: { light: 'file:../icons/await.svg', dark: 'file:../icons/await.dark.svg' },
    group: ['organization'],
    version: 1,
    subtitle: 'until it ends or needs a person',
    description: 'Wait, for as long as it takes, until turns end or a call of theirs needs a person',
    defaults: { name: 'Agent Harness Await Turn' },
    usableAsTool: true,
    inputs: [NodeConnectionTypes.Main],
    outputs: names.map((displayName) => ({ type: NodeConnectionTypes.Main, displayName })),
    outputNames: names,
    credentials: harnessCredentials,
    webhooks: waitingWebhooks,
    waitingNodeTooltip: 'Waits for the agent. The workflow goes on by itself when the turn ends or needs a person.',
    sensitiveOutputFields: ['approval.url'],
    properties: [
      harnessProperty,
      { displayName: 'Turn ID', name: 'turnId', type: 'string', default: '={{ $json.turn_id }}', required: true, description: 'Which turn to wait for. Lead items back here, after Approve for example, to wait on.' },
      {
        displayName: 'Options', name: 'options', type: 'collection', placeholder: 'Add option', default: {},
        options: [{ displayName: 'Time Limit (Minutes)', name: 'timeLimit', type: 'number', typeOptions: { minValue: 1 }, default: 60, description: 'When to give up waiting and leave through Not Done. The turn itself goes on. If left out, no limit.' }],
      },
    ],
  }

  async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
    const items = this.getInputData()
    try {
      const asked = askedFor(this, turnId)
      const isTool = isToolForm(this.getNode().type) || this.isToolExecution()
      const { awaited, input } = await askHarness(this, asked, isTool)
      const kept: Kept = { input, asked, given: [] }
      if (awaited.status !== 'pending') return outputsOf(awaited, asked, isTool ? null : linksOf(resumeUrl(this)))
      const late = timedOutTurns(awaited, asked)
      await park(this, kept, { stamped: isTool ? [late] : [[], [], late], deadline: awaited.deadline })
      return [items]
    } catch (error) {
      if (!this.continueOnFail()) throw asNodeError(this.getNode(), error)
      const failed = items.map((_item, item) => ({ json: { error: messageOf(error) }, pairedItem: { item } }))
      return isToolForm(this.getNode().type) ? [failed] : [[], [], failed]
    }
  }

  async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
    const isTool = isToolForm(this.getNode().type)
    return answerWaiting(this, (awaited, { asked }, resume) => (worksAgain(awaited) ? null : outputsOf(awaited, asked, isTool ? null : linksOf(resume))))
  }
}

/** null for a model, which gets no links. */
function outputsOf(awaited: Awaited, asked: readonly Asked[], linkOf: LinkOf | null): INodeExecutionData[][] {
  return linkOf === null ? turnsForModel(awaited, asked) : sortTurns(awaited, asked, { linkOf, now: Date.now() })
}

const linksOf = (resume: string): LinkOf => ({ approval_id, link_key }) => (link_key === null ? null : waitingUrl(resume, { approval_id, key: link_key }))

async function askHarness(context: IExecuteFunctions, asked: readonly Asked[], isTool: boolean): Promise<{ awaited: Awaited; input: Kept['input'] }> {
  const connection = await connect(context)
  const ids = asked.map(({ id }) => id)
  const { timeLimit } = context.getNodeParameter('options', 0, {}) as { timeLimit?: number }
  const deadline = timeLimit === undefined ? null : Date.now() + timeLimit * 60_000
  const input: Kept['input'] = { ...waitOf(context, 'turns', ids), turn_ids: ids, until: isTool ? 'ended' : 'held_or_ended', deadline }
  return { awaited: await connection.call('await', input), input }
}
