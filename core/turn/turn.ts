/* A turn: one run of the loop in a session. This is the whole state the planner sees; it lives in rows and in nothing else. */
import type { Json } from '../digest'
import type { Approval } from '../approvals/approval'
import type { Globs } from '../policy/glob'
import type { Mode } from '../policy/policy'
import type { Call } from './call'
import type { Content } from './content'
import type { InboxItem } from './inbox'

/**
 * | status | what is true | who moves it on |
 * |---|---|---|
 * | waiting_approval | its execution waits for admission by a person | a decision |
 * | queued | a worker may take it | a worker |
 * | running | a worker holds its lease | the worker; another one when the lease is over |
 * | awaiting_functions | parked for the reason in `park` | the inbox, the clock (`wake_at`) |
 * | completed, failed, cancelled | over; `reason` says why | nobody |
 */
export const turnStatuses = ['waiting_approval', 'queued', 'running', 'awaiting_functions', 'completed', 'failed', 'cancelled'] as const
export type TurnStatus = (typeof turnStatuses)[number]

export const turnMoves: Readonly<Record<TurnStatus, readonly TurnStatus[]>> = {
  waiting_approval: ['queued', 'cancelled'],
  queued: ['running'],
  running: ['running', 'awaiting_functions', 'completed', 'failed', 'cancelled'],
  awaiting_functions: ['running'],
  completed: [], failed: [], cancelled: [],
}

export type TerminalStatus = 'completed' | 'failed' | 'cancelled'

export function isTerminal(status: TurnStatus): status is TerminalStatus {
  return turnMoves[status].length === 0
}

/** Why a turn ended. Function turns also end `denied`, `rejected`, `expired`, `function_failed`, `call_failed` or `interrupted`, as their call did. */
export type EndReason =
  | 'done' | 'stopped' | 'max_turns' | 'deadline' | 'crash_loop' | 'owner_inactive' | 'tampered'
  | 'model_unavailable' | 'model_failed' | 'context_overflow' | 'empty_reply' | 'reply_cut'
  | 'asked_person' | 'denied' | 'rejected' | 'expired' | 'function_failed' | 'call_failed' | 'interrupted'

/** Why a turn is parked: for a person, or for a workflow that is not active at the moment. */
export type ParkReason = 'approval' | 'function'

export type ThinkingLevel = 'minimal' | 'low' | 'medium' | 'high' | 'xhigh'

/** What was asked for, checked and frozen at send. */
export interface TurnSpec {
  /** Null: the agent's, else the configured or first local model. Fixed when the turn first calls it. */
  readonly model: string | null
  readonly system_prompt: string | null
  readonly system_prompt_strategy: 'override' | 'enrich'
  readonly mode: Mode
  readonly functions: Globs | null
  /** Most model calls. */
  readonly max_turns: number
  readonly thinking_level: ThinkingLevel | null
  readonly metadata: Json
}

/** What a function turn, or a caller who asks for nothing, asks for. */
export const nothingAsked: TurnSpec = {
  model: null, system_prompt: null, system_prompt_strategy: 'enrich', mode: 'agent', functions: null, max_turns: 0, thinking_level: null, metadata: null,
}

/** What is left of what was asked for once its text was erased: nothing that could widen it. */
export const nothingAllowed: TurnSpec = { ...nothingAsked, mode: 'plan', functions: { allow: [], deny: [] } }

/** How a turn is reached: the loop is the same, only where calls come from differs. */
export type TurnKind = 'agent' | 'function'

export interface Message {
  readonly message_id: string
  readonly session_id: string
  readonly turn_id: string
  /** Place in the session, from 1. */
  readonly ordinal: number
  /** The round that wrote it; 0 for what came from outside. Results of calls are not messages: they stand on their call. */
  readonly step: number
  readonly role: 'user' | 'assistant'
  /** JSON text of the seed's content blocks. */
  readonly content: Content
  /** HMAC over its identity and digest. */
  readonly seal: string
  /** Of an assistant message: model, provider, stop_reason, usage, warnings; null on others. */
  readonly reply: ReplyFacts | null
  readonly created_at: number
}

export interface Usage {
  readonly input?: number
  readonly output?: number
}

export interface ReplyFacts {
  readonly model: string
  readonly provider: string
  readonly stop_reason: 'end' | 'length' | 'function_call'
  readonly native_stop_reason: string | null
  readonly usage: Usage
  readonly warnings: readonly string[]
  /** How many calls it asks for. */
  readonly calls: number
}

/** The turn's own row. */
export interface TurnRow {
  readonly turn_id: string
  readonly session_id: string
  readonly execution_id: string
  readonly owner: string
  readonly kind: TurnKind
  readonly agent: string
  readonly spec: TurnSpec
  /** The same as JSON text; what a caller wrote into it (prompt, metadata) is a text like any other. */
  readonly spec_content: Content
  /** HMAC over identity, owner, agent and spec: a turn put into the database or widened by hand has none that holds. */
  readonly seal: string
  readonly status: TurnStatus
  readonly reason: EndReason | null
  /** One sentence for people beside `reason`. */
  readonly detail: string | null
  readonly park: ParkReason | null
  readonly wake_at: number | null
  /** Rounds begun: model calls that were answered. */
  readonly rounds: number
  /** Claims since the last commit of a worker. */
  readonly claims: number
  readonly lease_epoch: number
  /** Items ever posted to its inbox. */
  readonly inbox_posted: number
  /** How many of them the worker knew when it last parked the turn: more posted than seen wakes it. */
  readonly inbox_seen: number
  readonly result: Content | null
  readonly created_at: number
  readonly started_at: number | null
  readonly finished_at: number | null
  readonly deadline_at: number
}

/** The aggregate a worker holds while it runs the turn. */
export interface Turn extends TurnRow {
  /** Set once a stop was folded in. */
  readonly stop: { readonly by: string; readonly seq: number } | null
  /** The session's messages that this turn may see, in order. */
  readonly messages: readonly Message[]
  /** This turn's calls by step and ordinal. */
  readonly calls: readonly Call[]
  /** Settled calls of earlier turns in the session, for the model's history. */
  readonly history: readonly Call[]
  readonly approvals: readonly Approval[]
  /** Posted, not yet folded in. In order of `seq`. */
  readonly inbox: readonly InboxItem[]
  /** What the last model call or check failed with, until the turn is finished with it. */
  readonly failure: { readonly reason: EndReason; readonly detail: string } | null
}

export const crashLoopClaims = 3

/** The HMAC's subject: what gives a turn its rights. */
export function turnSealFacts(turn: Pick<TurnRow, 'turn_id' | 'session_id' | 'execution_id' | 'owner' | 'kind' | 'agent' | 'spec_content' | 'created_at' | 'deadline_at'>): Json {
  const { turn_id, session_id, execution_id, owner, kind, agent, created_at, deadline_at } = turn
  return { turn_id, session_id, execution_id, owner, kind, agent, created_at, deadline_at, spec: turn.spec_content.digest }
}

export function callSealFacts(call: Pick<Call, 'call_id' | 'turn_id' | 'step' | 'ordinal' | 'function_id' | 'arguments'>): Json {
  const { call_id, turn_id, step, ordinal, function_id } = call
  return { call_id, turn_id, step, ordinal, function_id, arguments: call.arguments.digest }
}

/** With its place, so that none is taken out or moved unseen, and the owner whose conversation it is part of. */
export function messageSealFacts(message: Omit<Message, 'seal' | 'created_at'>, owner: string): Json {
  const { message_id, session_id, turn_id, ordinal, step, role } = message
  return { message_id, session_id, turn_id, ordinal, step, role, owner, content: message.content.digest, reply: message.reply as unknown as Json }
}
