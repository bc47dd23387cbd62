/*
 * What went wrong, as n8n shows it: the sentence of the harness as it is, at the item it belongs to. The one place where errors of the
 * core become errors of n8n.
 */
import { NodeApiError, NodeOperationError, UserError, type INode, type JsonObject } from 'n8n-workflow'

const harnessBrand = Symbol.for('n8n-nodes-agent-harness.error')

function isHarnessError(error: unknown): error is Error & { code: string } {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[harnessBrand] === true
}

/** Never repeats what an unknown error says beyond its message; a stack stays in n8n. */
export function asNodeError(node: INode, error: unknown, itemIndex?: number): NodeOperationError | NodeApiError {
  const at = itemIndex === undefined ? {} : { itemIndex }
  if (error instanceof NodeOperationError || error instanceof NodeApiError) return error
  if (isHarnessError(error)) {
    const description = error.code === 'model_unavailable' ? dockerHint : `Code: ${error.code}`
    return new NodeOperationError(node, error.message, { ...at, description })
  }
  if (error instanceof UserError) return new NodeOperationError(node, error.message, at)
  if (typeof error === 'object' && error !== null && ('httpCode' in error || 'response' in error || 'errno' in error)) {
    return new NodeApiError(node, error as JsonObject, { ...at, message: 'The harness server could not be reached. See the address in the credential.' })
  }
  return new NodeOperationError(node, error instanceof Error ? error : new Error('An unexpected error happened.'), at)
}

const dockerHint = 'Is Ollama running? When n8n runs in Docker and Ollama on the machine around it, set OLLAMA_HOST=http://host.docker.internal:11434 for n8n, or use a credential.'

const toldToAnybody = new Set(['invalid_input', 'forbidden', 'not_found', 'conflict', 'approval_closed', 'approver_locked', 'wrong_passphrase', 'too_large', 'limit_reached'])

/** For whoever comes to an address of n8n: what they did themselves, and nothing of folders, processes and servers behind it. */
export function messageForStrangers(error: unknown): string {
  return isHarnessError(error) && toldToAnybody.has(error.code) ? error.message : 'The harness cannot be used at the moment. The log of n8n says why.'
}

/** For items that go on though they failed. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'An unexpected error happened.'
}
