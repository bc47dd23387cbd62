/*
 * Function Trigger: makes the workflow a function (tool) that agents of the harness may call. Registered while the workflow is active;
 * taken back when it is deactivated by hand. n8n takes no webhook down when it shuts down and, since it publishes workflows by its
 * publication service, sets none up again when it starts: so `create` and `delete` are the person's doing, and `trigger`, which n8n calls
 * at each start, says that the function is there again. Only what the harness signed starts the workflow, and each call starts it once.
 */
import {
  NodeConnectionTypes, UserError,
  type IDataObject, type IHookFunctions, type INodeType, type INodeTypeDescription, type ITriggerFunctions, type ITriggerResponse, type IWebhookFunctions, type IWebhookResponseData,
} from 'n8n-workflow'
import type { InputOf } from '../../core/index'
import { connect, harnessCredentials } from '../shared/connect'
import { n8nLog } from '../shared/embedded'
import { asNodeError, messageForStrangers, messageOf } from '../shared/errors'
import { limitsOf, replayGuard, schemaOf, versionOf, type ArgumentField, type LimitField } from '../shared/function-input'
import { callFactsKey } from '../shared/inside-function'
import { answerOf, queryText, requestOf } from '../shared/web'
import { triggerProperties } from './properties'

/** Twice as long as a signature is fresh. */
const isReplay = replayGuard(600_000)

export class HarnessFunctionTrigger implements INodeType {
  description: INodeTypeDescription = {
    displayName: 'Agent Harness Function Trigger',
    name: 'harnessFunctionTrigger',
    icon: { light: 'file:../icons/function.svg', dark: 'file:../icons/function.dark.svg' },
    group: ['trigger'],
    version: 1,
    subtitle: '={{ $parameter["functionId"] }}',
    description: 'Offer this workflow to agents as a function (tool). The last item is the result.',
    defaults: { name: 'Agent Harness Function Trigger' },
    inputs: [],
    outputs: [NodeConnectionTypes.Main],
    credentials: harnessCredentials,
    eventTriggerDescription: 'Agents call this workflow when it is published, not while you listen here. To try its steps, pin sample arguments on this node.',
    activationMessage: 'Agents can call this workflow now.',
    triggerPanel: {
      header: 'Agents call this workflow when it is published',
      executionsHelp: {
        active: 'Calls of agents show up under Executions. To try the steps here, pin sample arguments on this node.',
        inactive: 'Publish the workflow, and agents can call it. To try the steps here, pin sample arguments on this node.',
      },
      activationHint: 'Publish the workflow, and agents can call it.',
    },
    webhooks: [{ name: 'default', httpMethod: 'POST', responseMode: 'lastNode', responseData: 'allEntries', path: 'function', ndvHideUrl: true }],
    properties: triggerProperties,
  }

  webhookMethods = {
    default: {
      /** Registering the same again is no change, and another version must replace the old one. */
      async checkExists(this: IHookFunctions): Promise<boolean> {
        return false
      },
      async create(this: IHookFunctions): Promise<boolean> {
        // listening in the editor must not take the place of the active version
        if (isInEditor(this)) return true
        try {
          const url = this.getNodeWebhookUrl('default')
          if (url === undefined) throw new UserError('n8n gives this trigger no address.')
          await register(this, url)
          return true
        } catch (error) {
          throw asNodeError(this.getNode(), error)
        }
      },
      async delete(this: IHookFunctions): Promise<boolean> {
        const kept = this.getWorkflowStaticData('node')
        const { functionId, url } = kept
        if (typeof functionId !== 'string' || url !== this.getNodeWebhookUrl('default')) return true
        try {
          await (await connect(this)).call('unregister_function', { id: functionId, workflow_id: workflowOf(this).id })
        } catch (error) {
          throw asNodeError(this.getNode(), error)
        }
        delete kept['functionId']
        delete kept['url']
        return true
      },
    },
  }

  async trigger(this: ITriggerFunctions): Promise<ITriggerResponse> {
    const { url } = this.getWorkflowStaticData('node')
    // at the first publication `create` is about to do it
    if (isInEditor(this) || typeof url !== 'string') return {}
    try {
      await register(this, url)
      return {}
    } catch (error) {
      throw asNodeError(this.getNode(), error)
    }
  }

  async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
    try {
      return await receive(this)
    } catch (error) {
      // what is thrown here would start the workflow
      n8nLog.error({ workflow: this.getWorkflow().id }, `a call of a function could not be taken: ${messageOf(error)}`)
      return answer(this, 503, `${messageForStrangers(error)} Nothing ran.`)
    }
  }
}

async function receive(context: IWebhookFunctions): Promise<IWebhookResponseData> {
  const { callSigningKey } = await connect(context)
  if (callSigningKey === null) return answer(context, 401, 'The credential of this trigger has no Call Signing Secret. Nothing ran.')
  const { verifyCall } = await import('../../core/index.js')
  const request = requestOf(context)
  // as it was registered, which is what the harness signed: a proxy may have changed what arrived
  const version = queryText(context, versionParameter) ?? ''
  const { pathname, search } = new URL(versioned(context.getNodeWebhookUrl('default') ?? '', version))
  const verdict = verifyCall({
    method: 'POST', path: `${pathname}${search}`, body: request.rawBody ?? '', now: Date.now(),
    header: (name) => { const value = request.headers[name.toLowerCase()]; return typeof value === 'string' ? value : null },
  }, callSigningKey)
  if (!verdict.ok) return answer(context, 401, `${verdict.problem} Nothing ran.`)
  // What a person approved is not what would run. When only other nodes of the workflow changed, n8n publishes them without telling the trigger.
  if (version !== versionHere(context)) {
    await register(context, context.getNodeWebhookUrl('default') ?? '')
    return answer(context, 409, 'The workflow was changed since this call was judged. Nothing ran.', 'workflow_changed')
  }
  const { idempotent } = context.getNodeParameter('options', {}) as { idempotent?: boolean }
  if (idempotent !== true && isReplay(`${context.getNode().id} ${verdict.callId}`, Date.now())) return answer(context, 409, 'This call came already. It is not run twice.')
  const json: IDataObject = {
    ...context.getBodyData(),
    [callFactsKey]: { call_id: verdict.callId, function_id: context.getNodeParameter('functionId') as string },
  }
  return { workflowData: [[{ json }]] }
}

function answer(context: IWebhookFunctions, status: number, message: string, code?: string): IWebhookResponseData {
  answerOf(context).status(status).json({ ...(code === undefined ? {} : { code }), message })
  return { noWebhookResponse: true }
}

/** The version goes along in the address, so that it is under the signature of each call. */
const versionParameter = 'version'

function versioned(url: string, version: string): string {
  const address = new URL(url)
  address.searchParams.set(versionParameter, version)
  return address.href
}

type Registering = IHookFunctions | ITriggerFunctions | IWebhookFunctions

async function register(context: Registering, url: string): Promise<void> {
  const { id } = await (await connect(context as IHookFunctions)).call('register_function', registrationOf(context, url))
  Object.assign(context.getWorkflowStaticData('node'), { functionId: id, url })
}

function isInEditor(context: IHookFunctions | ITriggerFunctions): boolean {
  return context.getMode() === 'manual' || context.getActivationMode() === 'manual'
}

function registrationOf(context: Registering, url: string): InputOf<'register_function'> {
  const fields = (context.getNodeParameter('arguments', {}) as { argument?: ArgumentField[] }).argument ?? []
  const limits = (context.getNodeParameter('unattended', {}) as { limit?: LimitField[] }).limit ?? []
  const { idempotent, timeLimit } = context.getNodeParameter('options', {}) as { idempotent?: boolean; timeLimit?: number }
  const version = versionHere(context)
  return {
    id: textOf(context, 'functionId', 'Function Name'),
    description: textOf(context, 'functionDescription', 'Description'),
    schema: schemaOf(fields),
    risk: context.getNodeParameter('risk') as 'low' | 'medium' | 'high',
    side_effects: context.getNodeParameter('sideEffects') as 'none' | 'read' | 'write',
    idempotent: idempotent ?? false,
    ...(timeLimit === undefined ? {} : { timeout_ms: timeLimit * 1000 }),
    unattended: limitsOf(limits, fields),
    workflow: { ...workflowOf(context), version, url: versioned(url, version) },
  }
}

function textOf(context: Registering, name: string, shown: string): string {
  const given = context.getNodeParameter(name, '') as unknown
  const text = typeof given === 'string' ? given.trim() : ''
  if (text === '') throw new UserError(`${shown} is empty.`)
  return text
}

function workflowOf(context: Registering): { id: string; name: string } {
  const { id, name } = context.getWorkflow()
  if (id === undefined || id === '') throw new UserError('The workflow has no ID yet. Save it first.')
  return { id, name: (name ?? 'unnamed').slice(0, 256) }
}

/** n8n tells a node no version, so it is made of what this function consists of: the nodes after this one and those they hang on. */
function versionHere(context: Registering): string {
  const own = context.getNode().name
  const after = context.getChildNodes(own).map(({ name }) => name)
  const before = after.flatMap((name) => context.getParentNodes(name, { connectionType: 'ALL' as never }).map((node) => node.name))
  const names = [...new Set([own, ...after, ...before])].sort()
  const workflow = Reflect.get(context, 'workflow') as { nodes?: Record<string, IDataObject>; connectionsBySourceNode?: Record<string, unknown> } | undefined
  const nodes = names.map((name) => {
    const { type, typeVersion, parameters, disabled, credentials } = workflow?.nodes?.[name] ?? {}
    return { name, type, typeVersion, parameters, disabled, credentials }
  })
  return versionOf(nodes, names.map((name) => workflow?.connectionsBySourceNode?.[name] ?? null))
}
