/* Send: gives work to the harness and goes on. Thin: parameters to inputs (shared/send-input), the operation, its answer as an item. */
import {
  NodeConnectionTypes, NodeOperationError, UserError,
  type IDataObject, type IExecuteFunctions, type ILoadOptionsFunctions, type INodeExecutionData, type INodePropertyOptions, type INodeType, type INodeTypeDescription,
} from 'n8n-workflow'
import { openAtStart } from '../shared/at-start'
import { turnFacts } from '../shared/awaited'
import { connect, harnessCredentials, type Connection } from '../shared/connect'
import { asNodeError, messageOf } from '../shared/errors'
import { isToolForm, notFixed } from '../shared/fixed'
import { isInsideFunction } from '../shared/inside-function'
import { refuseUnpublished } from '../shared/published'
import { keyOf, runInput, sendInput, sentFacts, type SendOptions } from '../shared/send-input'
import { runOf } from '../shared/waiting'
import { sendProperties } from './properties'

openAtStart()

export class HarnessSend implements INodeType {
  description: INodeTypeDescription = {
    displayName: 'Agent Harness Send',
    name: 'harnessSend',
    icon: { light: 'file:../icons/harness.svg', dark: 'file:../icons/harness.dark.svg' },
    group: ['transform'],
    version: 1,
    subtitle: '={{ { send: "send a turn", status: "get status", stop: "stop", run: "run a function" }[$parameter["operation"]] }}',
    description: 'Give an agent a turn that survives restarts and asks people before it does what is risky; look at it, stop it, or run one function (tool)',
    defaults: { name: 'Agent Harness Send' },
    usableAsTool: true,
    inputs: [NodeConnectionTypes.Main],
    outputs: [NodeConnectionTypes.Main],
    credentials: harnessCredentials,
    properties: sendProperties,
  }

  methods = {
    loadOptions: {
      async getFunctions(this: ILoadOptionsFunctions): Promise<INodePropertyOptions[]> {
        const { functions } = await (await connect(this)).call('list_functions', {})
        return functions.map(({ id, description }) => ({ name: id, value: id, description }))
      },
    },
  }

  async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
    const items = this.getInputData()
    const done: INodeExecutionData[] = []
    for (let item = 0; item < items.length; item++) {
      try {
        done.push({ json: await perform(this, item), pairedItem: { item } })
      } catch (error) {
        if (!this.continueOnFail()) throw asNodeError(this.getNode(), error, item)
        done.push({ json: { error: messageOf(error) }, pairedItem: { item } })
      }
    }
    return [done]
  }
}

async function perform(context: IExecuteFunctions, item: number): Promise<IDataObject> {
  const operation = context.getNodeParameter('operation', item)
  refuse(context, operation)
  const connection = await connect(context)
  switch (operation) {
    case 'send':
      await refuseUnpublished(context, connection)
      return send(context, connection, item)
    case 'run':
      return run(context, connection, item)
    case 'status': {
      const turn = await connection.call('status', { turn_id: textOf(context, 'turnId', item) })
      if (turn === null) throw new UserError('There is no such turn, or it is not yours.')
      return turnFacts(turn)
    }
    case 'stop': {
      const turn = { session_id: textOf(context, 'stopSessionId', item), turn_id: textOf(context, 'turnId', item) }
      return { ...turn, ...(await connection.call('stop', turn)) }
    }
    default:
      throw new NodeOperationError(context.getNode(), `There is no operation ${operation}.`, { itemIndex: item })
  }
}

/** Before anything is sent. */
function refuse(context: IExecuteFunctions, operation: string): void {
  const { type, parameters } = context.getNode()
  const field = isToolForm(type) || context.isToolExecution() ? notFixed(parameters) : null
  if (field !== null) {
    throw new UserError(`${field} must be a fixed value where this node is a tool of an agent: with an expression there the model could choose what it may do. Only what is sent may come from the model.`)
  }
  if ((operation === 'send' || operation === 'run') && isInsideFunction(context, context.getInputData())) {
    throw new UserError('This workflow runs as a function of an agent, and from there no turn is started yet: it would have rights and a budget of its own. Return a result, and let the agent that called go on.')
  }
}

async function send(context: IExecuteFunctions, connection: Connection, item: number): Promise<IDataObject> {
  const fields = {
    message: textOf(context, 'message', item), sessionId: textOf(context, 'sessionId', item), agent: textOf(context, 'agent', item),
    model: textOf(context, 'model', item), options: context.getNodeParameter('options', item, {}) as SendOptions,
  }
  return sentFacts(await connection.call('send', sendInput(fields, keyFor(context, item, 'send'))), 'working')
}

async function run(context: IExecuteFunctions, connection: Connection, item: number): Promise<IDataObject> {
  const fields = {
    functionId: textOf(context, 'functionId', item), arguments: context.getNodeParameter('arguments', item), sessionId: textOf(context, 'sessionId', item),
    waitSeconds: context.getNodeParameter('waitSeconds', item, 20) as number,
  }
  const answer = await connection.call('trigger', runInput(fields, keyFor(context, item, 'run')))
  const { execution_id, session_id, turn_id, deduplicated, state, function_call_id, function_id, reason, details, content, is_error } = answer
  return {
    ...sentFacts({ execution_id, session_id, turn_id, deduplicated }, state), function_call_id, function_id, reason,
    result: (details ?? null) as IDataObject | null, text: (content ?? []).map(({ text }) => text).join('\n'), is_error: is_error ?? false,
  }
}

function keyFor(context: IExecuteFunctions, item: number, operation: string): string {
  return keyOf({ execution: context.getExecutionId(), node: context.getNode().id, run: runOf(context, item), item, operation })
}

function textOf(context: IExecuteFunctions, name: string, item: number): string {
  const value = context.getNodeParameter(name, item, '') as unknown
  if (value === null || value === undefined) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}
