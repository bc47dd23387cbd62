/*
 * Functions that are n8n workflows: the same one signed request as to any HTTP function (http.ts), and what n8n's webhook answers read as
 * a function's answer. It answers with all items of the last node as a list, of which the last is the result; a workflow that is not
 * active is told from one that failed, since then it is certain that nothing ran.
 */
import type { Json } from '../digest'
import type { FunctionCall, FunctionOutcome, FunctionSource } from './function'
import { callOnce, type HttpSourceOptions } from './http'

/** The source of functions with a target of kind `workflow`. Keeps the contract of {@link FunctionSource}. */
export function workflowSource(options: HttpSourceOptions): FunctionSource {
  return {
    call: async (call, signal) => {
      const { outcome, refused } = await callOnce(options, call, signal)
      if (refused) return { kind: 'not_live', message: `n8n could not be reached, so the workflow of ${call.entry.id} is not active` }
      return outcome.kind === 'answered' ? read(call, outcome) : outcome
    },
  }
}

function read({ entry }: FunctionCall, outcome: Extract<FunctionOutcome, { kind: 'answered' }>): FunctionOutcome {
  if (!outcome.is_error) return { ...outcome, value: lastItem(outcome.value) }
  const { status, body } = outcome.value as { readonly status: number; readonly body: Json }
  const failed = (error: string, message: string): FunctionOutcome => ({ kind: 'answered', value: { error, message, status }, is_error: true })
  if (status === 404 && isNotRegistered(body)) return { kind: 'not_live', message: `n8n says that the workflow of ${entry.id} is not active` }
  if (status === 409 && isChanged(body)) return { kind: 'not_live', message: `n8n runs another version of the workflow of ${entry.id} than the one that is registered; nothing ran` }
  if (status === 401) {
    return failed('not_authenticated', 'The workflow did not accept the signature of this harness: its trigger knows another signing key. Nothing ran.')
  }
  // a proxy that gave up does not tell what became of the workflow behind it
  if (status === 502 || status === 504) return { kind: 'cut', message: `${entry.id}: something between here and n8n answered ${String(status)}; whether the workflow acted is unknown.` }
  if (status >= 500) return failed('workflow_failed', `The workflow failed${saidBy(body)}.`)
  return { kind: 'answered', value: { error: 'refused', message: `n8n refused the call${saidBy(body)}.`, status, body }, is_error: true }
}

/** Items of the last node, of which the last counts. Nothing at all is an empty object, so that a result is always there. */
function lastItem(value: Json): Json {
  if (!Array.isArray(value)) return value ?? {}
  const items = value as readonly Json[]
  return items.at(-1) ?? {}
}

/** n8n's own words for a webhook that nobody listens to. It says so before any workflow is looked at. */
function isNotRegistered(body: Json): boolean {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return false
  const { code, message } = body as { readonly code?: Json; readonly message?: Json }
  return code === 404 && typeof message === 'string' && /^The requested webhook ".*" is not registered\.?$/s.test(message)
}

/** The trigger's word for a call that was judged for another version of its workflow. */
function isChanged(body: Json): boolean {
  return typeof body === 'object' && body !== null && !Array.isArray(body) && (body as { readonly code?: Json }).code === 'workflow_changed'
}

function saidBy(body: Json): string {
  const message = typeof body === 'object' && body !== null && !Array.isArray(body) ? (body as { readonly message?: Json }).message : body
  return typeof message === 'string' && message.trim() !== '' ? `: ${message.trim().slice(0, 500).replace(/\.$/, '')}` : ''
}
