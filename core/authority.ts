/*
 * Authority: everything that gives rights, read from configuration into memory. The database is never asked for any of it. Frozen; a
 * reload makes a new one.
 */
import type { ApprovalChannel, Approver } from './approvals/decide'
import type { Principal } from './identity/principal'
import type { Token } from './identity/tokens'
import type { FunctionEntry, PolicyLayer, Profile, Rule } from './policy/policy'
import type { Globs } from './policy/glob'
import type { WorkflowRules } from './policy/registration'
import type { ThinkingLevel } from './turn/turn'

export interface Agent {
  readonly id: string
  readonly description: string
  /** Null: the configured default, else the first by name that is local and can call functions. */
  readonly model: string | null
  readonly system_prompt: string
  readonly functions: Globs
  readonly rules: readonly Rule[]
  readonly max_turns: number
  readonly thinking_level: ThinkingLevel | null
}

/** A principal with the globs and rules of its grant. */
export interface Grant {
  readonly principal: Principal
  readonly functions: Globs | null
  readonly rules: readonly Rule[]
}

export interface Authority {
  /** `d_…`, made with the home; goes into every approval digest. */
  readonly deployment: string
  readonly profile: Profile
  /** SHA-256 over the parsed configuration, secrets by reference. Recorded when it is loaded. */
  readonly fingerprint: string
  readonly policy: PolicyLayer
  readonly functions: ReadonlyMap<string, FunctionEntry>
  /** For functions that workflows bring. */
  readonly workflows: WorkflowRules
  readonly agents: ReadonlyMap<string, Agent>
  readonly grants: ReadonlyMap<string, Grant>
  readonly approvers: readonly Approver[]
  /** Where a person may answer by name, on the word of the channel. */
  readonly channels: readonly ApprovalChannel[]
  /** Who may ask over HTTP, by the hash of what they hold. */
  readonly tokens: readonly Token[]
  readonly four_eyes: boolean
  /** Which principal speaks on the command line and on stdio. */
  readonly local_principal: string
  readonly models: {
    /** Default model name, null to take the first that fits. */
    readonly default: string | null
    readonly ollama: { readonly url: string; readonly num_ctx: number; readonly first_byte_ms: number; readonly idle_ms: number }
  }
  readonly limits: {
    readonly turn_ms: number
    readonly message_bytes: number
    readonly open_approvals_per_session: number
    readonly live_turns_per_principal: number
  }
  /** Values of secrets, to be masked wherever they would show. */
  readonly secrets: readonly string[]
}
