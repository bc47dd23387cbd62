/*
 * What a policy is made of. Documents are configuration, read into memory; the database never holds one. A verdict always names the
 * rules that gave it.
 */
import type { Json } from '../digest'
import type { Globs } from './glob'

export type Risk = 'low' | 'medium' | 'high'
export type SideEffects = 'none' | 'read' | 'write'
export type Effect = 'allow' | 'deny' | 'hold'

/** How sure we are that a person decided (assurance classes). */
export type Assurance = 'human-verified' | 'channel-asserted' | 'client-asserted'

const sureness: Readonly<Record<Assurance, number>> = { 'client-asserted': 0, 'channel-asserted': 1, 'human-verified': 2 }

/** Whether an answer that is `given` sure may decide what needs `required`. */
export function suffices(given: Assurance, required: Assurance): boolean {
  return sureness[given] >= sureness[required]
}

/** Personal: one person on one machine. Server: several. */
export type Profile = 'personal' | 'server'

/** The least that an answer must be sure of: on a server, for high risk, that an approver's passphrase was given; else that a channel of the configuration took it. */
export function requiredAssurance(profile: Profile, risk: Risk): Assurance {
  return profile === 'server' && risk === 'high' ? 'human-verified' : 'channel-asserted'
}

/** A function (tool) as configuration declares it: everything a verdict and an approval depend on. */
export interface FunctionEntry {
  /** `namespace::name`. */
  readonly id: string
  readonly description: string
  /** JSON Schema of the arguments; an object at its root. */
  readonly schema: { readonly [key: string]: Json }
  readonly risk: Risk
  /** Undeclared means `write`. */
  readonly side_effects: SideEffects
  /** May it be sent again under the same call id? Undeclared means no. */
  readonly idempotent: boolean
  /** Who may have it called: any of these roles; empty means everybody whom the globs let. */
  readonly roles: readonly string[]
  /** Who may decide its approvals: any of these roles. */
  readonly approver_roles: readonly string[]
  /** How long an approval stays open, ms. */
  readonly approval_ttl_ms: number
  /** Limit of one call, ms. */
  readonly timeout_ms: number
  /** A write that no rule of the deployment speaks of passes without a person only when all of these hold. Empty: never. */
  readonly unattended: readonly ArgumentTest[]
  /** How it is reached. Opaque to policy, part of the definition digest; secrets appear as references only. */
  readonly target: { readonly [key: string]: Json }
}

/** One test of an argument. `unknown` (absent, or of another type) counts against the caller: no allow matches, every deny and hold does. */
export interface ArgumentTest {
  /** Dotted path into the arguments, e.g. `order.currency`. */
  readonly argument: string
  readonly test: 'equals' | 'one_of' | 'at_most' | 'at_least' | 'matches'
  /** A scalar for equals; a list for one_of; a number for at_most and at_least; a glob over any text for matches. */
  readonly value: Json
}

export interface Rule {
  readonly id: string
  readonly functions: readonly string[]
  /** All must hold. */
  readonly when: readonly ArgumentTest[]
  readonly effect: Effect
  /** Told to the caller and put on record. */
  readonly reason: string
}

export type LayerName = 'deployment' | 'principal' | 'agent' | 'send'

/** One document of the chain whose strictest answer counts. Without `functions` the layer sets no globs of its own. */
export interface PolicyLayer {
  readonly layer: LayerName
  readonly functions: Globs | null
  readonly rules: readonly Rule[]
}

/** Plan and ask let nothing with a side effect through; agent lets policy decide. */
export type Mode = 'plan' | 'ask' | 'agent'

export interface PolicyRequest {
  /** The id asked for, possibly of no function at all. */
  readonly function_id: string
  /** Null when no such function exists: the answer is then the same as for a forbidden one. */
  readonly entry: FunctionEntry | null
  readonly arguments: Json
  readonly mode: Mode
  readonly profile: Profile
  /** A function digest of which a person said no, or of which the outcome is unknown, earlier in this turn. */
  readonly earlier: 'rejected' | 'interrupted' | null
}

/** What a rule said, in the order asked. `decisive` marks those that made the verdict. */
export interface Reason {
  readonly layer: LayerName | 'registry' | 'turn'
  readonly rule: string
  readonly effect: Effect
  readonly text: string
  readonly decisive: boolean
}

/** Codes: `not_available` unknown and forbidden alike · `role` · `mode` · `rule` · `rejected_before` · `inactive`. */
export type DenyCode = 'not_available' | 'role' | 'mode' | 'rule' | 'rejected_before' | 'inactive'

export type Verdict =
  | { readonly effect: 'allow'; readonly reasons: readonly Reason[] }
  | { readonly effect: 'deny'; readonly code: DenyCode; readonly reasons: readonly Reason[] }
  | {
      readonly effect: 'hold'
      readonly reasons: readonly Reason[]
      readonly approver_roles: readonly string[]
      readonly ttl_ms: number
      readonly assurance: Assurance
    }
