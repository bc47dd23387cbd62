/*
 * Whether this node runs inside a workflow that an agent called as a function. A turn started from there would have rights, depth and
 * budget of its own; until the harness knows whose child it is, none is started. Two signs, either is enough: the trigger stands before
 * this node and ran, or the item carries the facts of the call, also through a sub-workflow.
 */
import type { IExecuteFunctions, INodeExecutionData } from 'n8n-workflow'

/** What the Function Trigger puts into its item beside the arguments. */
export const callFactsKey = 'harness'

export function isInsideFunction(context: IExecuteFunctions, items: readonly INodeExecutionData[]): boolean {
  if (items.some(carriesCall)) return true
  const triggers = context.getParentNodes(context.getNode().name).filter(({ type }) => type.endsWith('.harnessFunctionTrigger'))
  return triggers.some(({ name }) => hasRun(context, name))
}

export function carriesCall({ json }: INodeExecutionData): boolean {
  const facts = json[callFactsKey]
  return typeof facts === 'object' && facts !== null && 'call_id' in facts
}

/** In doubt it has. */
function hasRun(context: IExecuteFunctions, name: string): boolean {
  try {
    return context.evaluateExpression(`{{ $(${JSON.stringify(name)}).isExecuted }}`, 0) !== false
  } catch {
    return true
  }
}
