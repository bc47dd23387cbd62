/*
 * PURE. As a tool of an agent a node is filled by a model. What the model may say is the message and where it goes; what it may be
 * allowed to do, by whom and with what is fixed by the person who built the workflow. So in tool form these fields take no expression at
 * all: one may read what the model said without naming $fromAI.
 */
import type { INodeParameters } from 'n8n-workflow'

const ofPeople: Readonly<Record<string, string>> = {
  harness: 'Harness', operation: 'Operation', agent: 'Agent', model: 'Model', functionId: 'Function', options: 'Options',
}

/** The shown name of the first such field that is not fixed; null when all are. */
export function notFixed(parameters: INodeParameters): string | null {
  const found = Object.keys(ofPeople).find((name) => holdsExpression(parameters[name]))
  return found === undefined ? null : (ofPeople[found] ?? found)
}

function holdsExpression(value: unknown): boolean {
  if (typeof value === 'string') return value.startsWith('=') || /\$from_?ai\b/i.test(value)
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsExpression)
}

/** n8n names the tool form of a node type so. */
export function isToolForm(nodeType: string): boolean {
  return nodeType.endsWith('Tool')
}
