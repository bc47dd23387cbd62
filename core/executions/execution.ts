/*
 * The stored, immutable event that asked for something: the seed's fields word for word (seed/harness-ai/ExecutionEvent.json). Its
 * status after admission is a view of its turn.
 */
import { digestOf } from '../digest'
import type { Content } from '../turn/content'
import type { Risk } from '../policy/policy'

export interface ExecutionEvent {
  readonly source: { readonly type: 'astro' | 'n8n' | 'external_system' | 'watcher'; readonly id: string }
  readonly actor: { readonly type: 'user' | 'system'; readonly id: string }
  /** `agent_turn` or `run_function`. */
  readonly intent: string
  readonly constraints: { readonly allow_cloud: boolean; readonly require_audit: boolean; readonly risk_level: Risk }
}

export const defaultConstraints: ExecutionEvent['constraints'] = { allow_cloud: false, require_audit: true, risk_level: 'low' }

export interface Execution extends ExecutionEvent {
  readonly execution_id: string
  readonly session_id: string
  readonly turn_id: string
  readonly owner: string
  /** JSON text of the payload. */
  readonly payload: Content
  /** SHA-256 over the canonical event, its payload by digest. */
  readonly event_hash: string
  readonly corrects_execution_id: string | null
  readonly created_at: number
}

export function eventHash(event: ExecutionEvent, payload: Content): string {
  return digestOf('execution', { ...event, payload: payload.digest })
}
