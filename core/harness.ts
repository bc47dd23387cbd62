/*
 * The operations over the core: parse, check the scope, then the object's owner, then do it. Each is a few lines; what they share is
 * below them. Nothing here waits for a turn unless it is asked to, and a caller that goes away never ends one.
 */
import type { z } from 'zod'
import { HarnessError } from './errors'
import { jsonProblem } from './json'
import { maySee, type Caller } from './identity/principal'
import { layersOf, type Engine } from './engine/engine'
import { decideApproval, getApproval, listApprovals } from './harness-approvals'
import { answerApproval, openApprovalPage } from './harness-approval-page'
import { send, stop, trigger } from './harness-turns'
import { awaitAny, unawait } from './harness-awaits'
import { functionTurn, registerFunction, unregisterFunction, usuallyOf } from './harness-functions'
import { waitWhileWorking, type HarnessParts } from './harness-parts'
import { turnView } from './harness-views'
import { isOffered } from './policy/evaluate'
import type { FunctionEntry } from './policy/policy'
import { inputLimits, operations, type Harness, type OperationName, type OutputOf, type ParsedOf } from './protocol/operations'
import type { TurnRow } from './turn/turn'

type Handler<Name extends OperationName> = (input: ParsedOf<Name>, caller: Caller, parts: HarnessParts, signal: AbortSignal | undefined) => Promise<OutputOf<Name>>
type Handlers = { readonly [Name in OperationName]: Handler<Name> }

const handlers: Handlers = {
  send,
  trigger,
  stop,
  status,
  list_approvals: listApprovals,
  get_approval: getApproval,
  decide_approval: decideApproval,
  open_approval: openApprovalPage,
  answer_approval: answerApproval,
  await: awaitAny,
  unawait,
  register_function: registerFunction,
  unregister_function: unregisterFunction,
  get_user_context: (_input, caller, { engine }) => {
    const { id, type, name, roles, scopes, active } = caller.principal
    const functions = visibleFunctions(caller, engine).map((entry) => entry.id)
    return Promise.resolve({ id, type, name, roles: [...roles], scopes: [...scopes], active, functions, agents: [...engine.authority().agents.keys()] })
  },
  list_functions: (_input, caller, { engine }) => Promise.resolve({ functions: visibleFunctions(caller, engine).map((entry) => functionView(entry, caller, engine)) }),
  verify_audit: async (_input, _caller, parts) => ({ ...(await parts.verifyAudit()) }),
}

/** The Harness over these parts: every method parses its input and checks caller and scope before its handler sees them. */
export function makeHarness(parts: HarnessParts): Harness {
  const names = Object.keys(operations) as OperationName[]
  const methods = names.map((name) => [name, (input: unknown, caller: Caller, signal?: AbortSignal) => invoke(name, { input, caller, parts, signal })])
  return Object.fromEntries(methods) as Harness
}

async function invoke<Name extends OperationName>(name: Name, call: { input: unknown; caller: Caller; parts: HarnessParts; signal: AbortSignal | undefined }): Promise<OutputOf<Name>> {
  const operation = operations[name]
  const { principal } = call.caller
  if (!principal.active) throw new HarnessError('forbidden', `Principal ${principal.id} is not active.`)
  if (!principal.scopes.includes(operation.scope)) {
    throw new HarnessError('forbidden', `${name} needs the scope ${operation.scope}, which ${principal.id} does not have here.`)
  }
  // before the schema, which passes over some keys in silence and does not get to the end of a value without one
  const problem = jsonProblem(call.input ?? null, inputLimits)
  if (problem !== null) throw new HarnessError('invalid_input', `${name}: the input ${problem}.`)
  const parsed = operation.input.safeParse(call.input)
  if (!parsed.success) throw new HarnessError('invalid_input', `${name}: ${problemOf(parsed.error)}`)
  return (handlers[name] as Handler<Name>)(parsed.data as ParsedOf<Name>, call.caller, call.parts, call.signal)
}

function problemOf(error: z.ZodError): string {
  const issue = error.issues[0]
  return issue === undefined ? 'the input is not valid.' : `${issue.path.length === 0 ? 'input' : issue.path.join('.')}: ${issue.message}.`
}

async function status(input: ParsedOf<'status'>, caller: Caller, parts: HarnessParts, signal: AbortSignal | undefined): Promise<OutputOf<'status'>> {
  const { engine } = parts
  if (input.turn_id === undefined && input.session_id === undefined) throw new HarnessError('invalid_input', 'status: give turn_id or session_id.')
  const find = (): Promise<TurnRow | null> =>
    input.turn_id === undefined ? engine.store.latestTurn(input.session_id ?? '') : engine.store.findTurn(input.turn_id)
  const found = await find()
  if (found === null || !maySee(caller.principal, found.owner) || (input.session_id !== undefined && found.session_id !== input.session_id)) return null
  const turn = await waitWhileWorking(found, input.wait_seconds ?? 0, engine, signal)
  return turnView(turn, { calls: await engine.store.callsOf(turn.turn_id), approvals: await engine.store.approvalsOf(turn.turn_id), worker: await parts.workerText() })
}

function visibleFunctions(caller: Caller, engine: Engine): FunctionEntry[] {
  const authority = engine.authority()
  const grant = authority.grants.get(caller.principal.id)
  if (grant === undefined) return []
  const layers = layersOf(authority, grant, functionTurn)
  return [...authority.functions.values()].filter((entry) => isOffered(entry, caller.principal, layers, 'agent'))
}

function functionView(entry: FunctionEntry, caller: Caller, engine: Engine): OutputOf<'list_functions'>['functions'][number] {
  const { id, description, risk, side_effects, idempotent, schema } = entry
  return { id, description, risk, side_effects, idempotent, usually: usuallyOf(entry, caller, engine), schema: { ...schema } }
}

