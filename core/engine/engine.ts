/* What the steps of a turn work with. Made once by the composition root; everything in it is a port or pure. */
import type { Authority, Grant } from '../authority'
import type { Clock } from '../clock'
import type { Json } from '../digest'
import type { Ids } from '../ids'
import type { Log } from '../log'
import type { FunctionSource } from '../functions/function'
import type { Model } from '../model/model'
import type { FunctionEntry, PolicyLayer } from '../policy/policy'
import type { Registrations } from '../registrations'
import type { Store } from '../store/store'
import { askPersonId } from '../turn/ask-person'
import type { Change } from '../turn/changes'
import type { Turn, TurnRow } from '../turn/turn'

export type SchemaAnswer = { readonly ok: true } | { readonly ok: false; readonly problem: string }

/** The memory outside the database of which writes were handed to the wire. */
export interface SentLog {
  has(callId: string): boolean
  /** Contract: on disk when it resolves. */
  append(callId: string): Promise<void>
}

export interface Engine {
  readonly store: Store
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
  readonly sealKey: Buffer
  readonly model: Model
  readonly sentLog: SentLog
  /** The configuration as it is at this moment; a reload replaces it between two steps. */
  authority(): Authority
  /** Takes up a changed configuration, if there is one that is valid. Contract: never throws. */
  refreshAuthority(): Promise<void>
  /** The functions that workflows brought, and which of them can be called now. */
  readonly registrations: Registrations
  /** How a function is reached. */
  source(entry: FunctionEntry): FunctionSource
  /** Throws `invalid_input`, beginning with `where`, when a schema that came with a request cannot be used. */
  checkSchema(schema: FunctionEntry['schema'], where: string): void
  validateArguments(schema: FunctionEntry['schema'], value: Json): SchemaAnswer
  /** Masks secrets in a text that will be recorded or shown. */
  mask(text: string): string
}

/** What a step came to: facts to commit, and possibly the reason why the turn cannot go on. */
export interface StepResult {
  readonly changes: readonly Change[]
  readonly failure?: Turn['failure']
}

export function ownerGrant(authority: Authority, owner: string): Grant | null {
  const grant = authority.grants.get(owner)
  return grant?.principal.active === true ? grant : null
}

/** The documents whose strictest answer counts, for this turn. */
export function layersOf(authority: Authority, grant: Grant, turn: Pick<TurnRow, 'kind' | 'agent' | 'spec'>): readonly PolicyLayer[] {
  const agent = turn.kind === 'agent' ? authority.agents.get(turn.agent) : undefined
  const layers: PolicyLayer[] = [authority.policy, { layer: 'principal', functions: grant.functions, rules: grant.rules }]
  // an agent that configuration no longer knows may call nothing
  if (turn.kind === 'agent') layers.push({ layer: 'agent', functions: agent?.functions ?? { allow: [], deny: [] }, rules: agent?.rules ?? [] })
  // a turn of one function has no conversation that a question to a person could end
  const asked = turn.kind === 'function' ? { allow: ['*'], deny: [askPersonId] } : turn.spec.functions
  layers.push({ layer: 'send', functions: asked, rules: [] })
  return layers
}
