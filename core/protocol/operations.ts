/*
 * The one table of operations. From it come the Harness type, the MCP tools, later the HTTP routes and the remote client. An operation
 * with `mcp: null` is never offered to a model; none that decides an approval ever has anything else.
 */
import { z } from 'zod'
import type { Caller, Scope } from '../identity/principal'
import { approvalDetail, approvalView, awaitedApproval, functionView, json, risk, sideEffects, states, turnView } from './views'

export { states, type ApprovalDetail, type ApprovalView, type State, type TurnView } from './views'

export interface McpTool {
  readonly name: string
  readonly title: string
  readonly annotations: { readonly readOnlyHint: boolean; readonly destructiveHint: boolean; readonly idempotentHint: boolean; readonly openWorldHint: boolean }
}

export interface Operation<Input extends z.ZodType = z.ZodType, Output extends z.ZodType = z.ZodType> {
  /** For people and models: when to use it, what comes back. First sentence first. */
  readonly description: string
  readonly input: Input
  readonly output: Output
  readonly scope: Scope
  readonly mcp: McpTool | null
}

function operation<Input extends z.ZodType, Output extends z.ZodType>(row: Operation<Input, Output>): Operation<Input, Output> {
  return row
}

const id = z.string().min(1).max(128)

const waitSeconds = z.number().min(0).max(45).optional().describe('How long to wait for the end, in seconds. Default 0, most 45.')

const textBlock = z.looseObject({ type: z.literal('text'), text: z.string() })
const messageInput = z.union(
  [z.string(), z.looseObject({ role: z.literal('user'), content: z.array(textBlock).min(1), timestamp: z.number().int().optional() })],
  { error: 'must be a text, or {"role": "user", "content": [{"type": "text", "text": …}]}' },
)

const globs = z.strictObject({ allow: z.array(z.string()).max(200).optional(), deny: z.array(z.string()).max(200).optional(), expose: z.enum(['native', 'agent_trigger']).optional() })

const turnOptions = z.strictObject({
  functions: globs.nullable().optional(),
  max_turns: z.number().int().min(0).max(500).optional(),
  metadata: json.optional(),
  mode: z.enum(['plan', 'ask', 'agent']).nullable().optional(),
  output: z.looseObject({ type: z.enum(['text', 'json']) }).nullable().optional(),
  system_prompt: z.string().max(65_536).optional(),
  system_prompt_strategy: z.enum(['override', 'enrich']).optional(),
  thinking_level: z.enum(['minimal', 'low', 'medium', 'high', 'xhigh']).nullable().optional(),
})

const readOnly = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false }

export const operations = {
  send: operation({
    description:
      'Send a message to an agent and start a turn. The turn is on disk before this answers and goes on whatever happens to the caller. ' +
      'Give session_id to go on in a conversation; a message to a turn that is still running joins it.',
    input: z.strictObject({
      message: messageInput,
      model: z.string().min(1).max(256).optional(),
      provider: z.string().max(128).optional(),
      agent: z.string().max(128).optional(),
      session_id: id.optional(),
      session: z.strictObject({ title: z.string().max(512).optional(), metadata: json.optional() }).nullable().optional(),
      options: turnOptions.nullable().optional(),
      idempotency_key: z.string().min(1).max(256).optional(),
    }),
    output: z.object({
      accepted: z.boolean(),
      session_id: z.string(),
      turn_id: z.string(),
      execution_id: z.string(),
      deduplicated: z.boolean(),
      merged: z.boolean(),
    }),
    scope: 'turns:write',
    mcp: { name: 'send_to_agent', title: 'Send a message to an agent', annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true } },
  }),
  trigger: operation({
    description:
      'Run one function (tool) under policy, approval and audit, without a model. A risky call is held until a person decides; the answer then says so, and where. ' +
      'Use list_functions to see what there is.',
    input: z.strictObject({
      call: z.strictObject({ function_id: z.string().min(1).max(128), arguments: json, id: z.string().min(1).max(256).optional() }),
      session_id: id.optional(),
      idempotency_key: z.string().min(1).max(256).optional(),
      wait_seconds: waitSeconds,
    }),
    output: z.object({
      function_call_id: z.string(),
      function_id: z.string(),
      session_id: z.string(),
      turn_id: z.string(),
      execution_id: z.string(),
      state: z.enum(states),
      reason: z.string().nullable(),
      deduplicated: z.boolean(),
      pending: z.boolean().optional(),
      pending_timeout_ms: z.number().int().optional(),
      approvals: z.array(approvalView),
      content: z.array(z.object({ type: z.literal('text'), text: z.string() })).optional(),
      details: json.optional(),
      duration_ms: z.number().int().optional(),
      is_error: z.boolean().optional(),
      worker: z.string(),
    }),
    scope: 'turns:write',
    mcp: { name: 'run_function', title: 'Run a function (tool)', annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true } },
  }),
  status: operation({
    description:
      'Where a turn is: working, held (waits for a person), completed, failed or cancelled, with its calls and its result. Give turn_id, or session_id for the newest turn there. ' +
      'An unknown or foreign id answers null.',
    input: z.strictObject({ session_id: id.optional(), turn_id: id.optional(), wait_seconds: waitSeconds }),
    output: turnView.nullable(),
    scope: 'turns:read',
    mcp: { name: 'get_turn', title: 'Look at a turn', annotations: readOnly },
  }),
  stop: operation({
    description: 'Stop a turn at any moment, also inside a model or function call. A write that was already sent is reported as unknown outcome.',
    input: z.strictObject({ session_id: id, turn_id: id.optional() }),
    output: z.object({ stopping: z.boolean() }),
    scope: 'turns:write',
    mcp: { name: 'stop_turn', title: 'Stop a turn', annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false } },
  }),
  list_approvals: operation({
    description: 'Calls that wait, or waited, for a person: your own, or those you may decide. Nobody decides here; the answer says where a person can.',
    input: z.strictObject({
      status: z.enum(['pending', 'approved', 'rejected', 'expired', 'cancelled']).optional(),
      session_id: id.optional(),
      limit: z.number().int().min(1).max(200).optional().describe('Default 50.'),
    }),
    output: z.object({ approvals: z.array(approvalView), how_to_decide: z.string() }),
    scope: 'turns:read',
    mcp: { name: 'list_approvals', title: 'List approvals', annotations: readOnly },
  }),
  get_approval: operation({
    description: 'One approval: the exact arguments, which rule holds the call, who may decide and until when.',
    input: z.strictObject({ approval_id: id }),
    output: approvalDetail,
    scope: 'turns:read',
    mcp: { name: 'get_approval', title: 'Look at an approval', annotations: readOnly },
  }),
  decide_approval: operation({
    description: "Decide an approval by an approver's signature over its digest. Never offered to a model.",
    input: z.strictObject({
      approval_id: id,
      decision: z.enum(['approve', 'reject']),
      approver: z.string().regex(/^[a-z0-9._-]{1,64}$/, { error: 'is no name of an approver' }),
      reason: z.string().max(2_000).nullable(),
      decided_at: z.number().int(),
      channel: z.enum(['command_line']),
      signature: z.string().max(512),
    }),
    output: z.object({ approval_id: z.string(), status: z.enum(['approved', 'rejected']) }),
    scope: 'approvals:decide',
    mcp: null,
  }),
  open_approval: operation({
    description: 'What the approval page shows: one approval, by the key of its link, and how it may be answered there. Never offered to a model.',
    input: z.strictObject({ approval_id: id, link_key: z.string().min(1).max(256) }),
    output: approvalDetail.extend({
      answer_by: z.enum(['name', 'passphrase', 'nobody']).describe('name: whoever has the link says who they are. passphrase: an approver unlocks their key. nobody: no approver has been made yet.'),
      approvers: z.array(z.string()).describe('Who may answer with a passphrase.'),
    }),
    scope: 'approvals:decide',
    mcp: null,
  }),
  answer_approval: operation({
    description: 'Answer an approval on its page: by the name of who has the link where configuration lets the page decide, else by the passphrase of an approver. Never offered to a model.',
    input: z.strictObject({
      approval_id: id,
      link_key: z.string().min(1).max(256),
      decision: z.enum(['approve', 'reject']),
      approval_digest: z.string().length(64).optional().describe('What was shown; anything else is not decided. Default: what is there now.'),
      responder: z.string().trim().min(1, { error: 'says nobody: give a name' }).max(100),
      reason: z.string().max(2_000).nullable(),
      passphrase: z.string().max(1_000).optional(),
    }),
    output: z.object({ approval_id: z.string(), status: z.enum(['approved', 'rejected']), decided_by: z.string() }),
    scope: 'approvals:decide',
    mcp: null,
  }),
  await: operation({
    description:
      'Be called back when turns end or need a person, or when approvals are decided. Answers with the results at once when that is so already. ' +
      'The same await_id is the same await: asking again tells how it stands.',
    input: z.strictObject({
      await_id: z.string().regex(/^[A-Za-z0-9_-]{16,128}$/, { error: 'is 16 to 128 of A-Z, a-z, 0-9, _ and -' }),
      turn_ids: z.array(id).min(1).max(100).optional(),
      approval_ids: z.array(id).min(1).max(100).optional(),
      until: z.enum(['held_or_ended', 'ended']).optional().describe('For turns: whether one whose call waits for a person counts as done. Told when none of them works any more. Default held_or_ended.'),
      callback: z.strictObject({ url: z.url({ protocol: /^https?$/ }).max(4_096) }).nullable().optional().describe('Called with POST {await_id, status} until it takes it. Without one: only tells how it stands.'),
      deadline: z.number().int().nullable().optional().describe('When to give up, in ms since 1970 UTC. Default never.'),
    }),
    output: z.object({
      await_id: z.string(),
      status: z.enum(['pending', 'done', 'timed_out', 'cancelled']),
      deadline: z.number().nullable(),
      turns: z.array(turnView).describe('In the order asked for.'),
      approvals: z.array(awaitedApproval).describe('Those asked for, or the open ones of the turns.'),
    }),
    scope: 'awaits',
    mcp: null,
  }),
  unawait: operation({
    description: 'Give an await up: nobody is called back any more. The turns go on.',
    input: z.strictObject({ await_id: z.string().min(1).max(128) }),
    output: z.object({ cancelled: z.boolean() }),
    scope: 'awaits',
    mcp: null,
  }),
  get_user_context: operation({
    description: 'Who you are here: name, roles, scopes and which functions you may use, as the configuration says.',
    input: z.strictObject({}),
    output: z.object({
      id: z.string(), type: z.enum(['user', 'system', 'agent']), name: z.string(), roles: z.array(z.string()), scopes: z.array(z.string()), active: z.boolean(),
      functions: z.array(z.string()), agents: z.array(z.string()),
    }),
    scope: 'identity:read',
    mcp: { name: 'get_user_context', title: 'Who am I here', annotations: readOnly },
  }),
  list_functions: operation({
    description: 'The functions (tools) you may use, with their arguments, their risk, and whether a call usually runs or waits for a person.',
    input: z.strictObject({}),
    output: z.object({ functions: z.array(functionView) }),
    scope: 'turns:read',
    mcp: { name: 'list_functions', title: 'List functions', annotations: readOnly },
  }),
  register_function: operation({
    description: 'Offer an n8n workflow as a function, under the namespace and risk floor of the configuration. Registering the same again is no change.',
    input: z.strictObject({
      id: z.string().min(1).max(128).describe('namespace::name; a name without a namespace gets that of the configuration.'),
      description: z.string().max(2_000),
      schema: z.record(z.string(), json).describe('JSON Schema of the arguments; an object at its root.'),
      risk: risk.optional().describe('Default medium; never below the floor of the configuration.'),
      side_effects: sideEffects.optional().describe('Default write.'),
      idempotent: z.boolean().optional(),
      timeout_ms: z.number().int().min(100).max(86_400_000).optional().describe('Default 300,000.'),
      unattended: z
        .array(z.strictObject({ argument: z.string().min(1).max(200), test: z.enum(['equals', 'one_of', 'at_most', 'at_least', 'matches']), value: json }))
        .max(20)
        .optional()
        .describe('A write passes without a person only when all of these hold, below high risk, where the configuration lets workflows say so. Default: never.'),
      workflow: z.strictObject({
        id: z.string().min(1).max(128), name: z.string().max(256), version: z.string().max(128), url: z.url({ protocol: /^https?$/ }).max(2_048),
      }),
    }),
    output: z.object({ id: z.string(), risk, usually: z.enum(['runs', 'waits_for_a_person']) }),
    scope: 'functions:register',
    mcp: null,
  }),
  unregister_function: operation({
    description: 'Take a workflow function back: its calls are denied from now on.',
    input: z.strictObject({ id: z.string().min(1).max(128), workflow_id: z.string().min(1).max(128) }),
    output: z.object({ removed: z.boolean() }),
    scope: 'functions:register',
    mcp: null,
  }),
  verify_audit: operation({
    description: 'Check the whole record against itself, the checkpoints and the rows.',
    input: z.strictObject({}),
    output: z.looseObject({ verdict: z.enum(['good', 'broken', 'unknown']) }),
    scope: 'admin',
    mcp: null,
  }),
} as const

/** Of the JSON of any input, the same on both sides of HTTP. How large a text may be is for its operation to say. */
export const inputLimits = { bytes: Infinity, depth: 128 }

export type OperationName = keyof typeof operations
export type InputOf<Name extends OperationName> = z.input<(typeof operations)[Name]['input']>
export type ParsedOf<Name extends OperationName> = z.output<(typeof operations)[Name]['input']>
export type OutputOf<Name extends OperationName> = z.output<(typeof operations)[Name]['output']>

/**
 * The product as a caller sees it. Every method authenticates nothing (the edge did), checks the caller's scope and right to the object,
 * and answers a value of the operation's output, or throws a HarnessError.
 */
export type Harness = {
  readonly [Name in OperationName]: (input: InputOf<Name>, caller: Caller, signal?: AbortSignal) => Promise<OutputOf<Name>>
}
