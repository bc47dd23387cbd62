/* The port to a language model. Failures are values with a kind; a driver never throws and never retries by itself. */
import type { Json } from '../digest'
import type { ThinkingLevel, Usage } from '../turn/turn'

/** A function as it is offered to a model. */
export interface FunctionOffer {
  /** `namespace::name`; the driver encodes it for its wire (wire-names.ts). */
  readonly id: string
  readonly description: string
  /** JSON Schema, as configured. The driver cuts it down to what its server understands, on its own copy. */
  readonly schema: { readonly [key: string]: Json }
}

/** A call as the model asked for it. */
export interface AskedCall {
  /** The offered id, or what the model wrote when it is none that was offered (cut to 128 characters). */
  readonly function_id: string
  /** True only if the name is exactly one that was offered. */
  readonly offered: boolean
  /** Parsed arguments; null when what the model wrote is no JSON object. */
  readonly arguments: { readonly [key: string]: Json } | null
  /** What the server called it, as a note. */
  readonly native_id: string | null
}

/** The conversation as a model sees it: every call is followed by exactly one result, in the order asked. */
export type ModelMessage =
  | { readonly role: 'system' | 'user'; readonly text: string }
  | {
      readonly role: 'assistant'
      readonly text: string
      readonly thinking: string | null
      readonly calls: readonly { readonly call_id: string; readonly function_id: string; readonly arguments: { readonly [key: string]: Json } }[]
    }
  | { readonly role: 'function_result'; readonly call_id: string; readonly function_id: string; readonly text: string; readonly is_error: boolean }

export interface ModelRequest {
  readonly model: string
  /** The first is always the system message. */
  readonly messages: readonly ModelMessage[]
  readonly functions: readonly FunctionOffer[]
  readonly thinking_level: ThinkingLevel | null
  /** False: the driver must refuse a model that leaves the machine or the local network, however it learns of it. */
  readonly allow_cloud: boolean
}

export type ModelErrorKind = 'auth_expired' | 'rate_limited' | 'context_overflow' | 'transient' | 'permanent'

export interface ModelFailure {
  readonly kind: 'failure'
  readonly error_kind: ModelErrorKind
  /** `unreachable`: no server at the address. `cloud`: the model is not local and may not be used. `aborted`: our own signal. */
  readonly cause: 'unreachable' | 'model_missing' | 'cloud' | 'aborted' | 'other'
  /** One or two sentences, safe to show: what happened and what to do. */
  readonly message: string
}

export interface ModelReply {
  readonly kind: 'reply'
  readonly provider: string
  readonly model: string
  readonly text: string
  readonly thinking: string | null
  readonly calls: readonly AskedCall[]
  readonly stop_reason: 'end' | 'length' | 'function_call'
  readonly native_stop_reason: string | null
  readonly usage: Usage
  readonly warnings: readonly string[]
}

/** Where a model runs, as far as can be known. */
export type Locality = 'this_machine' | 'local_network' | 'cloud' | 'remote'

export interface ModelFacts {
  readonly name: string
  readonly locality: Locality
  /** Can it call functions? */
  readonly functions: boolean
}

export interface ModelProbe {
  /** For people: what was asked, e.g. `http://127.0.0.1:11434`. */
  readonly address: string
  readonly reachable: boolean
  /** When not reachable: what happened and what to do. */
  readonly problem: string | null
  /** By name, ascending. */
  readonly models: readonly ModelFacts[]
}

export interface Model {
  readonly provider: string
  /**
   * One model call.
   * Contract: never throws; settles within 250 ms after `signal` aborts, with cause `aborted` and its connection closed; may be called
   * again with the same request; opens no connection before the local-or-cloud rule has been checked.
   */
  generate(request: ModelRequest, signal: AbortSignal): Promise<ModelReply | ModelFailure>
  /** Which models are there. Contract: never throws; answers within 3 s. */
  probe(): Promise<ModelProbe>
}
