/* Workflows of our nodes for end-to-end tests, and our credentials in n8n: small ones, and the refund example on a harness that a credential names. */
import type { N8nServer } from './n8n'
import { editorApi, executionIs, itemsOf, publicApi, runManually, createWorkflow, type Execution, type Workflow, type WorkflowNode } from './n8n-api'
import { refundExample } from './refund-workflow'

export const ours = 'n8n-nodes-agent-harness'

export type CredentialType = 'harnessServer' | 'harnessEmbedded'

export interface Credential {
  readonly id: string
  readonly name: string
  readonly type: CredentialType
}

export async function createCredential(n8n: N8nServer, type: CredentialType, name: string, data: Readonly<Record<string, string>>): Promise<Credential> {
  const { id } = await publicApi<{ id: string }>(n8n, 'POST', '/credentials', { name, type, data })
  return { id, name, type }
}

/** What the editor's button "test" shows. */
export function testCredential(n8n: N8nServer, credential: Credential, data: Readonly<Record<string, string>>): Promise<{ status: string; message: string }> {
  return editorApi(n8n, 'POST', '/credentials/test', { credentials: { ...credential, data } })
}

/** Every node of ours on the harness that the credential names. */
export function onHarness(workflow: Workflow, { id, name, type }: Credential): Workflow {
  const harness = type === 'harnessServer' ? 'server' : 'settings'
  const nodes = workflow.nodes.map((node) => (node.type.startsWith(`${ours}.`) ? { ...node, parameters: { ...node.parameters, harness }, credentials: { [type]: { id, name } } } : node))
  return { ...workflow, nodes }
}

/** The refund example as it stands, but not under its own id. */
export function refundOn(credential: Credential): Workflow {
  return onHarness(refundExample(), credential)
}

/** A person starts it, an agent gets the message, the workflow waits for the end. */
export function askWorkflow(message: string): Workflow {
  const node = (name: string, type: string, parameters: WorkflowNode['parameters'], webhookId?: string): WorkflowNode => ({
    id: name.toLowerCase(), name, type, typeVersion: 1, position: [0, 0], parameters, ...(webhookId === undefined ? {} : { webhookId }),
  })
  const to = (name: string): unknown => ({ main: [[{ node: name, type: 'main', index: 0 }]] })
  return {
    name: message,
    nodes: [
      node('Start', 'n8n-nodes-base.manualTrigger', {}),
      node('Send', `${ours}.harnessSend`, { operation: 'send', message }),
      node('Await', `${ours}.harnessAwaitTurn`, {}, '3a0c8f0e-53ba-4c0e-9a5f-3d20f1d1c0de'),
    ],
    connections: { Start: to('Send'), Send: to('Await') },
    settings: { executionOrder: 'v1' },
  }
}

/** Runs {@link askWorkflow} to its end. */
export async function ask(n8n: N8nServer, message: string, credential?: Credential): Promise<{ execution: Execution; done: any; notDone: any }> {
  const workflow = askWorkflow(message)
  const id = await createWorkflow(n8n, credential === undefined ? workflow : onHarness(workflow, credential))
  const execution = await executionIs(n8n, await runManually(n8n, id))
  return { execution, done: itemsOf(execution, 'Await').at(-1)?.json, notDone: itemsOf(execution, 'Await', 2).at(-1)?.json }
}
