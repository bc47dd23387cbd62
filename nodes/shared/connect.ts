/*
 * How a node reaches its harness: inside this n8n (with no credential, or with one that names another folder, Ollama or keys), or on a
 * server. A node sees one thing either way: an operation of the table by its name.
 */
import {
  UserError,
  type IExecuteFunctions, type IHookFunctions, type IHttpRequestOptions, type ILoadOptionsFunctions, type INodeCredentialDescription, type INodeProperties, type ITriggerFunctions, type IWebhookFunctions,
} from 'n8n-workflow'
import type { Caller, Harness, InputOf, OperationName, OutputOf } from '../../core/index'
import { defaultSettings, openEmbedded, runsTurns, whyNotHere, type EmbeddedSettings } from './embedded'

export type Context = IExecuteFunctions | IWebhookFunctions | IHookFunctions | ITriggerFunctions | ILoadOptionsFunctions

export interface Connection {
  call<Name extends OperationName>(operation: Name, input: InputOf<Name>): Promise<OutputOf<Name>>
  /** For texts: where the harness is. */
  readonly where: string
  /** Under which calls of functions are signed; null when this connection was not given one. */
  readonly callSigningKey: Buffer | string | null
}

/** First in every node: which harness. The default needs nothing typed. */
export const harnessProperty: INodeProperties = {
  displayName: 'Harness',
  name: 'harness',
  type: 'options',
  noDataExpression: true,
  options: [
    { name: 'In This Installation', value: 'inside', description: 'Needs nothing: lives in the folder of this n8n and uses Ollama on this machine' },
    { name: 'In This Installation, Own Settings', value: 'settings', description: 'Another folder, another Ollama, or keys. After a restart of n8n its turns go on when the next Agent Harness node runs.' },
    { name: 'Server', value: 'server', description: 'One that runs with "agent-harness serve". Needed in queue mode.' },
  ],
  default: 'inside',
  description: 'Where the agent and its record live',
}

export const harnessCredentials: INodeCredentialDescription[] = [
  { name: 'harnessEmbedded', required: true, displayOptions: { show: { harness: ['settings'] } } },
  { name: 'harnessServer', required: true, displayOptions: { show: { harness: ['server'] } } },
]

/** The harness that the node names; inside this n8n it is opened if need be, which may take seconds. Throws `UserError` with what to do, and what opening throws. */
export async function connect(context: Context): Promise<Connection> {
  if (Reflect.get(context.getWorkflowSettings(), 'engineType') === 'v2') {
    throw new UserError('This workflow is set to the engine v2 of n8n, which cannot park a node until it is called back. Choose the standard engine in the workflow settings.')
  }
  const kind = harnessKind(context)
  if (kind === 'server') return serverConnection(context)
  const problem = whyNotHere(process.env, process.versions.node)
  if (problem !== null) throw new UserError(problem)
  return embeddedConnection(kind === 'settings' ? await settingsOf(context) : defaultSettings(process.env), `n8n:${context.getWorkflow().id ?? 'unsaved'}`)
}

/** The raw parameter: it takes no expression, and in a list of choices there are no items to evaluate one with. */
function harnessKind(context: Context): string {
  const kind = context.getNode().parameters['harness'] ?? 'inside'
  if (kind === 'inside' || kind === 'settings' || kind === 'server') return kind
  throw new UserError('Harness takes no expression: choose one of its values.')
}

async function settingsOf(context: Context): Promise<EmbeddedSettings> {
  const given = await context.getCredentials<{ folder?: string; ollamaUrl?: string; secrets?: string }>('harnessEmbedded')
  const folder = (given.folder ?? '').trim()
  if (folder === '') throw new UserError('The credential names no folder.')
  return {
    folder,
    setBy: context.getNode().credentials?.['harnessEmbedded']?.id ?? '',
    env: { ...secretsOf(given.secrets ?? ''), ...((given.ollamaUrl ?? '').trim() === '' ? {} : { OLLAMA_HOST: (given.ollamaUrl ?? '').trim() }) },
  }
}

/** `NAME=value` a line. */
export function secretsOf(text: string): Record<string, string> {
  const lines = text.split('\n').map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(lines.map((line, index) => {
    const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$/.exec(line) ?? []
    // the line itself may be a secret: it is not shown
    if (name === undefined || value === undefined) throw new UserError(`Line ${index + 1} of Secrets is not NAME=value.`)
    return [name, value]
  }))
}

async function embeddedConnection(settings: EmbeddedSettings, sourceId: string): Promise<Connection> {
  const harness = await openEmbedded(settings)
  if (!(await runsTurns(harness))) {
    throw new UserError(`Another process runs the turns of ${settings.folder}. ${harness.workerState().text} Only one n8n can use a folder: end the other, or choose Harness: Server for both.`)
  }
  const caller: Caller = { ...harness.localCaller(sourceId), source: { type: 'n8n', id: sourceId } }
  return {
    call: (operation, input) => callOf(harness, operation)(input, caller),
    where: `inside this n8n (${settings.folder})`,
    callSigningKey: harness.home.callSigningKey,
  }
}

async function serverConnection(context: Context): Promise<Connection> {
  const { address, callSigningSecret } = await context.getCredentials<{ address: string; callSigningSecret?: string }>('harnessServer')
  const { remoteHarness } = await import('../../core/index.js')
  const harness = remoteHarness(async (path, body) => {
    const options: IHttpRequestOptions = {
      method: 'POST', baseURL: address.replace(/\/+$/, ''), url: path, body: body as NonNullable<IHttpRequestOptions['body']>,
      json: true, returnFullResponse: true, ignoreHttpStatusErrors: true, timeout: 60_000,
    }
    const response = (await context.helpers.httpRequestWithAuthentication.call(context as IExecuteFunctions, 'harnessServer', options)) as { statusCode: number; body: unknown }
    return { status: response.statusCode, body: response.body }
  })
  const key = (callSigningSecret ?? '').trim()
  return {
    // the server knows by the token who calls
    call: (operation, input) => callOf(harness, operation)(input, nobody),
    where: address,
    callSigningKey: key === '' ? null : /^[0-9a-f]{64}$/i.test(key) ? Buffer.from(key, 'hex') : key,
  }
}

const nobody: Caller = { principal: { id: '', type: 'system', name: '', roles: [], scopes: [], active: false }, source: { type: 'n8n', id: '' }, callbacks: [] }

type Call<Name extends OperationName> = (input: InputOf<Name>, caller: Caller) => Promise<OutputOf<Name>>

function callOf<Name extends OperationName>(harness: Harness, operation: Name): Call<Name> {
  return harness[operation]
}
