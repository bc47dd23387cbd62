/* The operations that start and stop turns. What is asked for is checked and frozen here, sealed, and on disk before the answer. */
import { digestOf, seal, sealHolds, type Json } from './digest'
import { HarnessError } from './errors'
import { defaultConstraints, eventHash, type Execution } from './executions/execution'
import { maySee, type Caller } from './identity/principal'
import type { Engine } from './engine/engine'
import { newTurn } from './engine/new-turn'
import { newInboxItem } from './engine/steps/inbox'
import { proposedCall } from './engine/steps/call-model'
import { untilUndisturbed, waitWhileWorking, type HarnessParts } from './harness-parts'
import { approvalView, quoted, shownId, stateOf } from './harness-views'
import { checkGlob } from './policy/glob'
import type { OutputOf, ParsedOf } from './protocol/operations'
import { askPersonId } from './turn/ask-person'
import { turnCreated, type Change, type Session } from './turn/changes'
import { jsonOf, newContent } from './turn/content'
import { nothingAsked, type TurnRow, type TurnSpec } from './turn/turn'
import type { IdempotencyRecord } from './store/store'

const idempotencyMs = 24 * 3_600_000
/** How often a send looks again when somebody else wrote to the same turn or session in the same moment. */
const mostTries = 200

export async function send(input: ParsedOf<'send'>, caller: Caller, { engine }: HarnessParts): Promise<OutputOf<'send'>> {
  const spec = frozenSpec(input, engine)
  const agent = agentOf(input, engine)
  const text = messageText(input, engine)
  return untilUndisturbed(mostTries, async () => {
    const key = await idempotency({ operation: 'send', key: input.idempotency_key, request: input }, caller, engine)
    if (key.answered !== null) return { ...(JSON.parse(key.answered) as OutputOf<'send'>), deduplicated: true }
    const at = engine.clock.now()
    const session = await sessionFor(input.session_id, { title: input.session?.title ?? null, at }, caller, engine)
    const live = session.isNew ? null : await engine.store.latestTurn(session.session.session_id)
    const joins = live !== null && mayJoin(live, { owner: caller.principal.id, agent, spec })
    if (!joins) await checkLiveTurns(caller, engine)
    const turnId = joins ? live.turn_id : engine.ids.next('t')
    const payload = { message: text, agent, ...(input.options?.metadata === undefined ? {} : { metadata: input.options.metadata }) }
    const execution = newExecution({ intent: 'agent_turn', payload, session_id: session.session.session_id, turn_id: turnId, at }, caller, engine)
    const turn = joins
      ? live
      : newTurn({ session_id: session.session.session_id, execution_id: execution.execution_id, owner: caller.principal.id, kind: 'agent', agent, spec, created_at: at, deadline_at: at + engine.authority().limits.turn_ms }, engine, turnId)
    const content = newContent(engine.ids, JSON.stringify([{ type: 'text', text }]))
    const item = newInboxItem(turn, { kind: 'message', content }, { principal: caller.principal.id, at }, engine)
    const answer = { accepted: true, session_id: turn.session_id, turn_id: turn.turn_id, execution_id: execution.execution_id, deduplicated: false, merged: joins }
    const changes: Change[] = [{ type: 'execution.accepted', execution }]
    if (session.isNew) changes.push({ type: 'session.created', session: session.session })
    if (!joins) changes.push(turnCreated(turn))
    changes.push({ type: 'inbox.posted', item })
    await engine.store.commit({ actor: caller.principal.id, at, session_id: turn.session_id, changes, ...key.record(answer) })
    return answer
  })
}

export async function trigger(input: ParsedOf<'trigger'>, caller: Caller, parts: HarnessParts, signal: AbortSignal | undefined): Promise<OutputOf<'trigger'>> {
  const { engine } = parts
  if (input.call.function_id === askPersonId) {
    throw new HarnessError('invalid_input', `${askPersonId} is for agents: it ends their turn with a question. There is no turn to end here; ask the person yourself.`)
  }
  const started = await startFunctionTurn(input, caller, engine)
  const row = await engine.store.findTurn(started.turn_id)
  if (row === null) throw new HarnessError('invariant_broken', `Turn ${started.turn_id} was stored and cannot be found.`)
  const turn = await waitWhileWorking(row, input.wait_seconds ?? 0, engine, signal)
  const call = (await engine.store.callsOf(turn.turn_id))[0]
  const approvals = await engine.store.approvalsOf(turn.turn_id)
  const base = {
    function_call_id: started.function_call_id, function_id: input.call.function_id, session_id: turn.session_id, turn_id: turn.turn_id, execution_id: turn.execution_id,
    state: stateOf(turn), reason: turn.reason, deduplicated: started.deduplicated, approvals: approvals.map(approvalView), worker: await parts.workerText(),
  }
  if (call?.result === undefined || call.result === null || turn.finished_at === null) {
    const open = approvals.find((approval) => approval.status === 'pending')
    return { ...base, pending: true, pending_timeout_ms: Math.max(0, (open?.expires_at ?? turn.deadline_at) - engine.clock.now()) }
  }
  const value = jsonOf(call.result.text)
  return {
    ...base, content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }], details: value,
    duration_ms: turn.finished_at - turn.created_at, is_error: call.status !== 'succeeded',
  }
}

async function startFunctionTurn(input: ParsedOf<'trigger'>, caller: Caller, engine: Engine): Promise<{ turn_id: string; function_call_id: string; deduplicated: boolean }> {
  const request = { call: input.call, session_id: input.session_id ?? null }
  checkSize(JSON.stringify(input.call.arguments), 'arguments', engine)
  return untilUndisturbed(mostTries, async () => {
    const key = await idempotency({ operation: 'trigger', key: keyOfCall(input), request }, caller, engine)
    if (key.answered !== null) return { ...(JSON.parse(key.answered) as { turn_id: string; function_call_id: string }), deduplicated: true }
    await checkLiveTurns(caller, engine)
    const at = engine.clock.now()
    const session = await sessionFor(input.session_id, { title: null, at }, caller, engine)
    const turnId = engine.ids.next('t')
    const payload = { function_id: input.call.function_id, arguments: input.call.arguments }
    const execution = newExecution({ intent: 'run_function', payload, session_id: session.session.session_id, turn_id: turnId, at }, caller, engine)
    const turn = newTurn({ session_id: session.session.session_id, execution_id: execution.execution_id, owner: caller.principal.id, kind: 'function', agent: '', spec: nothingAsked, created_at: at, deadline_at: at + engine.authority().limits.turn_ms }, engine, turnId)
    const given = input.call.arguments
    const asked = { function_id: input.call.function_id, arguments: isObject(given) ? given : null }
    const call = proposedCall(asked, { turn, step: 0, ordinal: 0, at }, engine)
    const changes: Change[] = [{ type: 'execution.accepted', execution }]
    if (session.isNew) changes.push({ type: 'session.created', session: session.session })
    changes.push(turnCreated(turn), { type: 'call.proposed', call })
    const answer = { turn_id: turn.turn_id, function_call_id: call.call_id }
    await engine.store.commit({ actor: caller.principal.id, at, session_id: turn.session_id, changes, ...key.record(answer) })
    return { ...answer, deduplicated: false }
  })
}

/** A caller's own id of a call names it within its session only: short ids are used again elsewhere. */
function keyOfCall(input: ParsedOf<'trigger'>): string | undefined {
  if (input.idempotency_key !== undefined) return input.idempotency_key
  return input.call.id === undefined || input.session_id === undefined ? undefined : `${input.session_id} ${input.call.id}`
}

export async function stop(input: ParsedOf<'stop'>, caller: Caller, { engine }: HarnessParts): Promise<OutputOf<'stop'>> {
  const { store } = engine
  return untilUndisturbed(mostTries, async () => {
    const turn = input.turn_id === undefined ? await store.firstUnfinishedTurn(input.session_id) : await store.findTurn(input.turn_id)
    if (turn === null || turn.session_id !== input.session_id) {
      const session = await store.findSession(input.session_id)
      if (input.turn_id === undefined && session !== null && maySee(caller.principal, session.owner)) return { stopping: false }
      throw notFound('turn', input.turn_id ?? input.session_id)
    }
    if (!maySee(caller.principal, turn.owner)) throw notFound('turn', input.turn_id ?? input.session_id)
    if (turn.finished_at !== null) return { stopping: false }
    const at = engine.clock.now()
    const item = newInboxItem(turn, { kind: 'stop' }, { principal: caller.principal.id, at }, engine)
    await store.commit({ actor: caller.principal.id, at, session_id: turn.session_id, changes: [{ type: 'inbox.posted', item }] })
    return { stopping: true }
  })
}

function notFound(kind: string, id: string): HarnessError {
  return new HarnessError('not_found', `There is no ${kind} ${shownId(id)} of yours. Check the id; ids of others look the same as ids that do not exist.`, { data: { id } })
}

async function sessionFor(sessionId: string | undefined, facts: { title: string | null; at: number }, caller: Caller, engine: Engine): Promise<{ session: Session; isNew: boolean }> {
  if (sessionId === undefined) {
    return { session: { session_id: engine.ids.next('s'), owner: caller.principal.id, title: facts.title === null ? null : newContent(engine.ids, facts.title), created_at: facts.at }, isNew: true }
  }
  const session = await engine.store.findSession(sessionId)
  if (session?.owner !== caller.principal.id) throw notFound('session', sessionId)
  return { session, isNew: false }
}

function mayJoin(live: TurnRow, wanted: Pick<TurnRow, 'owner' | 'agent' | 'spec'>): boolean {
  if (live.finished_at !== null || live.kind !== 'agent') return false
  const facts = (turn: Pick<TurnRow, 'owner' | 'agent' | 'spec'>): string => digestOf('join', { owner: turn.owner, agent: turn.agent, spec: turn.spec })
  return facts(live) === facts(wanted)
}

async function checkLiveTurns(caller: Caller, engine: Engine): Promise<void> {
  const limit = engine.authority().limits.live_turns_per_principal
  if ((await engine.store.countLiveTurns(caller.principal.id)) < limit) return
  throw new HarnessError('limit_reached', `${caller.principal.id} has ${String(limit)} turns that are not finished, the most that may be. Wait for some, or stop them.`)
}

function agentOf(input: ParsedOf<'send'>, engine: Engine): string {
  const agent = input.agent ?? 'assistant'
  if (!engine.authority().agents.has(agent)) {
    throw new HarnessError('invalid_input', `There is no agent ${quoted(agent)}. Known agents: ${[...engine.authority().agents.keys()].join(', ')}.`)
  }
  return agent
}

function frozenSpec(input: ParsedOf<'send'>, engine: Engine): TurnSpec {
  const options = input.options ?? {}
  const refuse = (what: string): never => {
    throw new HarnessError('invalid_input', `send: ${what}`)
  }
  if (input.provider !== undefined && input.provider !== engine.model.provider) refuse(`provider ${quoted(input.provider)} is not available; the one there is is ${engine.model.provider}.`)
  if (options.output?.type === 'json') refuse('output of type json is not available in this version; ask for text.')
  if (options.functions?.expose === 'agent_trigger') refuse('expose agent_trigger is not available in this version; functions are offered natively.')
  const given = options.functions
  const functions = given === null || given === undefined ? null : { allow: given.allow ?? [], deny: given.deny ?? [] }
  for (const glob of [...(functions?.allow ?? []), ...(functions?.deny ?? [])]) checkGlob(glob)
  const agent = engine.authority().agents.get(agentOf(input, engine))
  checkSize(JSON.stringify(options.metadata ?? null), 'metadata', engine)
  return {
    model: input.model ?? null, system_prompt: options.system_prompt ?? null, system_prompt_strategy: options.system_prompt_strategy ?? 'enrich',
    mode: options.mode ?? 'agent', functions, max_turns: options.max_turns ?? agent?.max_turns ?? 16, thinking_level: options.thinking_level ?? agent?.thinking_level ?? null,
    metadata: options.metadata ?? null,
  }
}

function messageText(input: ParsedOf<'send'>, engine: Engine): string {
  const text = typeof input.message === 'string' ? input.message : input.message.content.map((block) => block.text).join('\n')
  if (text.trim() === '') throw new HarnessError('invalid_input', 'send: the message is empty.')
  checkSize(text, 'message', engine)
  return text
}

function checkSize(text: string, what: string, engine: Engine): void {
  const bytes = Buffer.byteLength(text)
  const most = engine.authority().limits.message_bytes
  if (bytes > most) throw new HarnessError('too_large', `The size of the ${what} is ${String(bytes)} bytes; the most is ${String(most)} (limits.message in harness.yaml). Nothing was stored.`)
}

function newExecution(facts: { intent: string; payload: Json; session_id: string; turn_id: string; at: number }, caller: Caller, engine: Engine): Execution {
  const { intent, session_id, turn_id, at } = facts
  const payload = newContent(engine.ids, JSON.stringify(facts.payload))
  const event = { source: caller.source, actor: { type: caller.principal.type === 'user' ? ('user' as const) : ('system' as const), id: caller.principal.id }, intent, constraints: defaultConstraints }
  return {
    ...event, execution_id: engine.ids.next('x'), session_id, turn_id, owner: caller.principal.id, payload, event_hash: eventHash(event, payload),
    corrects_execution_id: null, created_at: at,
  }
}

interface Idempotency {
  /** The answer given before under this key. */
  readonly answered: string | null
  /** What the commit adds so that the answer is remembered. */
  record(answer: unknown): { idempotency?: IdempotencyRecord }
}

async function idempotency(request: { operation: string; key: string | undefined; request: unknown }, caller: Caller, engine: Engine): Promise<Idempotency> {
  const { operation, key } = request
  if (key === undefined) return { answered: null, record: () => ({}) }
  const now = engine.clock.now()
  const request_hash = digestOf(operation, request.request)
  const found = await engine.store.findIdempotency(caller.principal.id, operation, key, now)
  if (found !== null && found.request_hash !== request_hash) {
    throw new HarnessError('conflict', `The idempotency key ${quoted(key)} was used for another request. Use a new key for a new request.`, { data: { final: true } })
  }
  const sealed = { principal: caller.principal.id, operation, key, request_hash }
  const [given = null, answered = null] = found?.response.split(/ (.*)/s) ?? []
  if (found !== null && !sealHolds(engine.sealKey, 'answer', { ...sealed, answered }, given)) {
    const text = `The answer kept under the idempotency key ${quoted(key)} was altered outside the harness. Run "agent-harness audit verify", and use a new key.`
    throw new HarnessError('conflict', text, { data: { final: true } })
  }
  return {
    answered,
    record(answer) {
      const text = JSON.stringify(answer)
      const response = `${seal(engine.sealKey, 'answer', { ...sealed, answered: text })} ${text}`
      return { idempotency: { ...sealed, response, expires_at: now + idempotencyMs } }
    },
  }
}

function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

