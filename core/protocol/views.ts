/* What operations answer with: turns, approvals and functions as a caller sees them. Shared by several rows of the table. */
import { z } from 'zod'
import type { Json } from '../digest'

// readonly, as the core has it
export const json: z.ZodType<Json, Json> = z.json()
export const risk = z.enum(['low', 'medium', 'high'])
export const sideEffects = z.enum(['none', 'read', 'write'])

/** What people are told of a turn's state; the seed's word stands beside it in `status`. */
export const states = ['working', 'held', 'completed', 'failed', 'cancelled'] as const
export type State = (typeof states)[number]

export const approvalView = z.object({
  approval_id: z.string(),
  status: z.enum(['pending', 'approved', 'rejected', 'expired', 'cancelled']),
  session_id: z.string(),
  turn_id: z.string(),
  function_call_id: z.string(),
  function_id: z.string(),
  requested_by: z.string(),
  approver_roles: z.array(z.string()),
  created_at: z.number(),
  expires_at: z.number(),
  decided_by: z.string().nullable(),
  decided_at: z.number().nullable(),
  channel: z.enum(['command_line', 'page']).nullable().describe('Where it was decided.'),
  responder: z.string().nullable().describe('Who the channel says answered, when it vouches for a name.'),
  reason: z.string().nullable(),
})
export type ApprovalView = z.infer<typeof approvalView>

export const approvalDetail = approvalView.extend({
  arguments: json.describe('Exactly what would be sent.'),
  why: z.array(z.string()).describe('The rules that hold the call.'),
  description: z.string(),
  risk: risk,
  side_effects: sideEffects,
  approval_digest: z.string().describe('What an approver signs.'),
  is_current: z.boolean().describe('False when the function or its definition changed since it was asked: it cannot be decided any more.'),
  how_to_decide: z.string(),
})
export type ApprovalDetail = z.infer<typeof approvalDetail>

/** For programs that show a person the way to the page; never for a model. */
export const awaitedApproval = approvalDetail.extend({
  link_key: z.string().nullable().describe('Opens the approval page of this one approval; null for whoever has no right to decide. Whoever has it may answer: give it to the person who decides, never to a model.'),
})

export const turnView = z.object({
  session_id: z.string(),
  turn_id: z.string(),
  execution_id: z.string(),
  kind: z.enum(['agent', 'function']),
  status: z.enum(['running', 'awaiting_functions', 'completed', 'cancelled', 'failed']),
  state: z.enum(states),
  reason: z.string().nullable().describe('Why it ended, as a code; null while it runs.'),
  detail: z.string().nullable(),
  step: z.number().int(),
  turn_count: z.number().int(),
  max_turns: z.number().int(),
  depth: z.number().int(),
  children: z.array(z.object({ function_call_id: z.string(), session_id: z.string(), turn_id: z.string() })),
  pending_function_calls: z.array(z.string()),
  calls: z.array(z.object({ function_call_id: z.string(), function_id: z.string(), status: z.string(), reason: z.string().nullable(), result: json.optional() })),
  approvals: z.array(approvalView),
  result: json.optional().describe("The agent's last text, or the function's answer."),
  result_error: z.string().optional(),
  question: z.object({ text: z.string(), choices: z.array(z.string()) }).nullable().describe('What the agent asks a person, when it ended its turn with harness::ask_person. Answer with a new message to the session.'),
  worker: z.string().describe('Who runs turns on this database at the moment.'),
})
export type TurnView = z.infer<typeof turnView>

export const functionView = z.object({
  id: z.string(),
  description: z.string(),
  risk: risk,
  side_effects: sideEffects,
  idempotent: z.boolean(),
  usually: z.enum(['runs', 'waits_for_a_person']).describe('What policy says when no rule about its arguments decides otherwise.'),
  schema: z.record(z.string(), json),
})
