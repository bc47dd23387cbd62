/*
 * The MCP tools: names, titles, descriptions and annotations from the table of operations, their input a flat part of its input. Knows no
 * SDK. Nothing here decides an approval, and nothing a model fills in sets functions, policy, rights or constraints.
 */
import { HarnessError, operations, type Caller, type Json, type McpTool, type OpenHarness, type OperationName, type TurnView } from '../core/index'
import type { Facts } from './capped'
import { decideForModel, nextForModel, type Surroundings } from './guidance'
import { jsonSchemaOf, readArguments, type Fields, type ToolArguments } from './tool-input'
import { waitForTurn } from './waiting'

/** Default and most seconds that a call waits: clients give up at 60. */
export const usualWait = 20
export const longestWait = 45

export interface ToolContext {
  readonly harness: OpenHarness
  readonly caller: Caller
  readonly surroundings: () => Surroundings
  /** Ends the waiting, never the turn. */
  readonly signal: AbortSignal
  /** How long run_function and send_to_agent wait when the model does not say, in seconds. */
  readonly defaultWait: number
  /** The client's own id of this call: a repetition of it starts nothing new. */
  readonly toolUseId: string | undefined
  readonly onLook?: (view: TurnView, changed: boolean) => void
}

export interface Tool extends McpTool {
  readonly operation: OperationName
  readonly description: string
  readonly fields: Fields
  readonly inputSchema: ReturnType<typeof jsonSchemaOf>
  /** Throws a HarnessError for what cannot be done. */
  run(given: ToolArguments, context: Omit<ToolContext, 'defaultWait'>): Promise<Facts>
}

interface Shape {
  readonly fields: Fields
  readonly example: ToolArguments
  /** `given` has only the fields above, in their types. */
  readonly run: (given: never, context: ToolContext) => Promise<Facts>
}

const wait = (standard: number): Fields[string] => ({
  type: 'number',
  minimum: 0,
  maximum: longestWait,
  description: `How long to wait for the outcome, in seconds. Default ${String(standard)}, most ${String(longestWait)}. The turn goes on after it.`,
})
const sessionId: Fields[string] = { type: 'string', description: 'Session to go on in, as an earlier answer named it. Leave out for a new one.' }
const turnId: Fields[string] = {
  type: 'string',
  description: 'The turn, as an earlier answer named it. Ids stay good as long as the session is kept.',
}
const idempotencyKey: Fields[string] = {
  type: 'string',
  description: 'A repetition with the same key within 24 hours starts nothing new and answers the first turn.',
}

const shapesFor = (standardWait: number): Readonly<Partial<Record<OperationName, Shape>>> => ({
  trigger: {
    fields: {
      function_id: { type: 'string', required: true, description: 'The function, e.g. shop::refund. list_functions names them.' },
      arguments: { type: 'object', description: "The function's arguments, by its schema in list_functions." },
      session_id: sessionId,
      idempotency_key: idempotencyKey,
      wait_seconds: wait(standardWait),
    },
    example: { function_id: 'shop::refund', arguments: { order: 'A-1001' } },
    run: runFunction,
  },
  send: {
    fields: {
      message: { type: 'string', required: true, description: 'What the agent is to do or answer.' },
      agent: { type: 'string', description: 'A configured agent. Leave out for the default one.' },
      model: { type: 'string', description: 'A model by the name its server knows. Leave out for the configured one.' },
      session_id: sessionId,
      idempotency_key: idempotencyKey,
      wait_seconds: wait(standardWait),
    },
    example: { message: 'Where is order A-1001?' },
    run: sendToAgent,
  },
  status: {
    fields: {
      turn_id: turnId,
      session_id: { type: 'string', description: 'In place of turn_id: the newest turn of this session.' },
      wait_seconds: wait(0),
    },
    example: { turn_id: 't_…', wait_seconds: longestWait },
    run: getTurn,
  },
  stop: {
    fields: { turn_id: turnId, session_id: { type: 'string', description: 'In place of turn_id: the newest turn of this session.' } },
    example: { turn_id: 't_…' },
    run: stopTurn,
  },
  list_approvals: {
    fields: {
      status: { type: 'string', enum: ['pending', 'approved', 'rejected', 'expired', 'cancelled'], description: 'Only those. Leave out for all.' },
      session_id: { type: 'string', description: 'Only those of this session.' },
      limit: { type: 'integer', minimum: 1, maximum: 200, description: 'At most so many, newest first. Default 50.' },
    },
    example: { status: 'pending' },
    run: async (given: { status?: 'pending'; session_id?: string; limit?: number }, { harness, caller, surroundings }) => {
      const { approvals } = await harness.list_approvals(given, caller)
      const first = approvals.find((approval) => approval.status === 'pending')
      return {
        next: first === undefined ? 'Nothing here waits for a person.' : `Waits for a person. ${decideForModel(first, surroundings())}`,
        approvals,
      }
    },
  },
  get_approval: {
    fields: { approval_id: { type: 'string', required: true, description: 'The approval, a_…, as list_approvals or a held answer names it.' } },
    example: { approval_id: 'a_…' },
    run: async (given: { approval_id: string }, { harness, caller, surroundings }) => {
      const { how_to_decide: _inGeneral, ...approval } = await harness.get_approval(given, caller)
      const next =
        approval.status === 'pending'
          ? `Waits for a person. ${decideForModel(approval, surroundings())}`
          : `It is ${approval.status}; nothing is left to decide.`
      return { next, ...approval }
    },
  },
  get_user_context: {
    fields: {},
    example: {},
    run: async (_given: unknown, { harness, caller }) => ({
      next: 'functions may be run with run_function, agents asked with send_to_agent.',
      ...(await harness.get_user_context({}, caller)),
    }),
  },
  list_functions: {
    fields: {},
    example: {},
    run: async (_given: unknown, { harness, caller }) => {
      const { functions } = await harness.list_functions({}, caller)
      const next =
        functions.length === 0
          ? 'There are none yet: the user declares functions in harness.yaml.'
          : 'Run one with run_function: function_id is its id, arguments go by its schema.'
      return { next, functions: functions as unknown as Json }
    },
  },
})

/** All tools, in the order of the table. */
export function makeTools(defaultWait = usualWait): readonly Tool[] {
  const shapes = shapesFor(defaultWait)
  return Object.entries(operations).flatMap(([name, row]): Tool[] => {
    const { mcp } = row
    if (mcp === null) return []
    const shape = shapes[name as OperationName]
    // the table is the truth: a tool without a flat input is a mistake of ours, found by the first test
    if (shape === undefined) throw new HarnessError('invariant_broken', `Operation ${name} is offered over MCP and has no flat input.`)
    const { fields, example, run } = shape
    return [
      {
        ...mcp,
        operation: name as OperationName,
        description: row.description,
        fields,
        inputSchema: jsonSchemaOf(fields),
        run: async (given, context) => run(readArguments(mcp.name, fields, example, given) as never, { ...context, defaultWait }),
      },
    ]
  })
}

interface Started {
  readonly session_id?: string
  readonly idempotency_key?: string
  readonly wait_seconds?: number
}

async function runFunction(given: Started & { function_id: string; arguments?: ToolArguments }, context: ToolContext): Promise<Facts> {
  const { function_id, arguments: args = {}, wait_seconds = context.defaultWait, ...rest } = given
  const started = await context.harness.trigger({ ...rest, ...keyOf(given, context), call: { function_id, arguments: args } }, context.caller)
  return outcome(started, wait_seconds, true, context)
}

async function sendToAgent(given: Started & { message: string; agent?: string; model?: string }, context: ToolContext): Promise<Facts> {
  const { wait_seconds = context.defaultWait, ...rest } = given
  const started = await context.harness.send({ ...rest, ...keyOf(given, context) }, context.caller)
  return outcome(started, wait_seconds, true, context)
}

/** Some clients tell which call of the model this is; a repetition of it is no second request. */
function keyOf(given: Started, { toolUseId }: ToolContext): { idempotency_key?: string } {
  return given.idempotency_key === undefined && toolUseId !== undefined ? { idempotency_key: `tool-use:${toolUseId}`.slice(0, 256) } : {}
}

async function getTurn(given: { turn_id?: string; session_id?: string; wait_seconds?: number }, context: ToolContext): Promise<Facts> {
  const view = await findTurn(given, context)
  return outcome(view, given.wait_seconds ?? 0, false, context)
}

async function stopTurn(given: { turn_id?: string; session_id?: string }, context: ToolContext): Promise<Facts> {
  const { session_id, turn_id } = await findTurn(given, context)
  const { stopping } = await context.harness.stop({ session_id, turn_id }, context.caller)
  const next = stopping
    ? `It is being stopped. Call get_turn with turn_id ${turn_id} to see how it ended.`
    : `It was over already. Call get_turn with turn_id ${turn_id} for the outcome.`
  return { next, stopping, session_id, turn_id }
}

async function findTurn({ turn_id, session_id }: { turn_id?: string; session_id?: string }, { harness, caller }: ToolContext): Promise<TurnView> {
  if (turn_id === undefined && session_id === undefined)
    throw new HarnessError('invalid_input', 'Name a turn: give turn_id, or session_id for its newest turn.')
  const view = await harness.status(turn_id === undefined ? { session_id: session_id ?? '' } : { turn_id }, caller)
  if (view === null)
    throw new HarnessError(
      'not_found',
      `There is no ${turn_id === undefined ? `session ${session_id ?? ''} with a turn` : `turn ${turn_id}`} here that you may see. Check the id.`,
    )
  return view
}

async function outcome(
  started: { turn_id: string; deduplicated?: boolean },
  seconds: number,
  untilHeld: boolean,
  context: ToolContext,
): Promise<Facts> {
  const { harness, caller, signal, onLook } = context
  const view = await waitForTurn(harness, started.turn_id, caller, { seconds, untilHeld, signal, ...(onLook === undefined ? {} : { onLook }) })
  if (view === null) throw new HarnessError('not_found', `Turn ${started.turn_id} is no longer here.`)
  return turnFacts(view, context.surroundings(), started.deduplicated === true)
}

/** What a model needs to know of a turn, the important first: some clients cut the end. */
export function turnFacts(view: TurnView, surroundings: Surroundings, deduplicated = false): Facts {
  const { state, reason, detail, turn_id, session_id, result, result_error, calls, approvals, worker, ...rest } = view
  const facts = {
    state,
    next: nextForModel(view, surroundings),
    reason,
    detail,
    turn_id,
    session_id,
    result,
    result_error,
    calls,
    approvals,
    worker,
    ...(deduplicated ? { deduplicated } : {}),
    ...rest,
  }
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined)) as Facts
}
