/*
 * A function that a workflow brought, as it is stored: what the workflow declared, sealed whole. What of it counts is the configuration's
 * to say, at each use: its namespace, its risk floor, and whether workflows may set limits of their own.
 */
import type { Principal } from '../identity/principal'
import { jsonProblem } from '../json'
import type { FunctionEntry, Risk } from './policy'

export interface RegistrationRow {
  readonly id: string
  readonly workflow_id: string
  /** JSON text of the entry as declared. */
  readonly entry: string
  readonly status: 'active' | 'deactivated'
  /** HMAC over all of the others. */
  readonly seal: string
  readonly registered_by: string
  readonly updated_at: number
}

/** What configuration says of functions that workflows bring. */
export interface WorkflowRules {
  readonly namespace: string
  readonly risk_floor: Risk
  /** Whether `unattended` of a workflow counts. */
  readonly own_limits: boolean
  /** How long an approval of one of their calls stays open, ms. */
  readonly approval_ttl_ms: number
}

export function registrationSealFacts(row: Omit<RegistrationRow, 'seal'>): Readonly<Record<string, string | number>> {
  const { id, workflow_id, entry, status, registered_by, updated_at } = row
  return { id, workflow_id, entry, status, registered_by, updated_at }
}

/** Whoever registered it must still be let do so: with the principal, or its right, the function is gone. */
export function mayStillOffer({ registered_by }: Pick<RegistrationRow, 'registered_by'>, grants: ReadonlyMap<string, { readonly principal: Principal }>): boolean {
  const principal = grants.get(registered_by)?.principal
  return principal?.active === true && principal.scopes.includes('functions:register')
}

const order: readonly Risk[] = ['low', 'medium', 'high']

/** The entry as it counts under these rules; null when it is outside their namespace. Never lower in risk than declared. */
export function entryUnder(rules: WorkflowRules, declared: FunctionEntry): FunctionEntry | null {
  if (!declared.id.startsWith(`${rules.namespace}::`)) return null
  const risk = order[Math.max(order.indexOf(declared.risk), order.indexOf(rules.risk_floor))] ?? 'high'
  const unattended = rules.own_limits && risk !== 'high' ? declared.unattended : []
  return { ...declared, risk, unattended, approval_ttl_ms: rules.approval_ttl_ms }
}

/** The stored entry; null when it is none. Only for a row whose seal holds. */
export function entryOf(row: Pick<RegistrationRow, 'entry'>): FunctionEntry | null {
  try {
    const value: unknown = JSON.parse(row.entry)
    return jsonProblem(value, { bytes: 1024 * 1024, depth: 64 }) === null && typeof value === 'object' && value !== null ? (value as FunctionEntry) : null
  } catch {
    return null
  }
}
