/*
 * A workflow may hold both an agent's turn and a function for it. Executed in the editor before it is published, the function is not there,
 * and a model could only say so in words of its own; so nothing is sent, and the person is told what to do. A function that is registered
 * is never complained about, nor is one of a published workflow: the policy may keep that from this caller, and then it is left out.
 */
import { UserError, type IExecuteFunctions, type INode } from 'n8n-workflow'
import type { Connection } from './connect'

export async function refuseUnpublished(context: IExecuteFunctions, connection: Connection): Promise<void> {
  if (context.getWorkflow().active) return
  const declared = functionsDeclared(context)
  if (declared.length === 0) return
  const { functions } = await connection.call('list_functions', {})
  const missing = declared.find((name) => !functions.some(({ id }) => id === name || id.endsWith(`::${name}`)))
  if (missing === undefined) return
  throw new UserError(`Publish this workflow first: its function ${missing} is not offered to agents until the workflow is published. Nothing was sent.`)
}

/** Of triggers in this workflow that speak to the same harness. n8n gives a node no list of its neighbours but in the workflow that it runs. */
function functionsDeclared(context: IExecuteFunctions): string[] {
  const { nodes = {} } = (Reflect.get(context, 'workflow') ?? {}) as { nodes?: Readonly<Record<string, INode>> }
  const kindOf = ({ parameters }: INode): unknown => parameters['harness'] ?? 'inside'
  const kind = kindOf(context.getNode())
  return Object.values(nodes).filter((node) => node.type.endsWith('.harnessFunctionTrigger') && node.disabled !== true && kindOf(node) === kind).flatMap(({ parameters }) => {
    const { functionId } = parameters
    return typeof functionId === 'string' && functionId.trim() !== '' && !functionId.startsWith('=') ? [functionId.trim()] : []
  })
}
