/*
 * Being called back: `await` and `unawait`. Asking opens the await or tells how it stands; the outbox (hooks/outbox.ts) calls. Asking is
 * cheap and may be done by many at once, since who is called asks again before it goes on.
 */
import type { Approval } from './approvals/approval'
import { sealHolds } from './digest'
import { HarnessError, isHarnessError } from './errors'
import type { Engine } from './engine/engine'
import { getApproval, visibleApproval } from './harness-approvals'
import { mayBeCalledAt, maySee, type Caller } from './identity/principal'
import type { HarnessParts } from './harness-parts'
import { linkKey, shownId, stateOf, turnView } from './harness-views'
import type { OutputOf, ParsedOf } from './protocol/operations'
import { answeredSeal, awaitHolds, callbackOf, isOpenAwait, outcomeOf, sealAwait, sealedCallback, wasAnswered, type Await, type AwaitFacts, type AwaitOutcome } from './turn/await'
import type { Change } from './turn/changes'
import { isTerminal, turnSealFacts, type TurnRow } from './turn/turn'

type Asked = ParsedOf<'await'>
type Answer = OutputOf<'await'>

/** Whoever loses so often meets somebody who asks without end. */
const mostTries = 50

/** Whether what it waits for is so now. A subject that is not there any more is never done. */
export async function isDone(row: Pick<AwaitFacts, 'kind' | 'until' | 'subjects'>, { store }: Pick<Engine, 'store'>): Promise<boolean> {
  if (row.kind === 'approval') {
    const approvals = await Promise.all(row.subjects.map((id) => store.findApproval(id)))
    return approvals.every((approval) => approval !== null && approval.status !== 'pending')
  }
  return areDone(row, await readTurns(row.subjects, store))
}

interface AwaitedTurn {
  readonly turn: TurnRow
  readonly approvals: readonly Approval[]
}

/** The row before its approvals: one that is decided in between then looks like one that works, which it soon does. */
function readTurns(ids: readonly string[], store: Engine['store']): Promise<(AwaitedTurn | null)[]> {
  return Promise.all(ids.map(async (id) => {
    const turn = await store.findTurn(id)
    return turn === null ? null : { turn, approvals: await store.approvalsOf(id) }
  }))
}

/** When none of them works any more: each is over, or a person is asked. */
function areDone({ until }: Pick<AwaitFacts, 'until'>, turns: readonly (AwaitedTurn | null)[]): boolean {
  const isHeld = ({ turn, approvals }: AwaitedTurn): boolean => stateOf(turn) === 'held' && approvals.some(({ status }) => status === 'pending')
  return turns.every((one) => one !== null && (isTerminal(one.turn.status) || (until === 'held_or_ended' && isHeld(one))))
}

/**
 * Opens the await, or tells how it stands. The first asking fixes subjects, `until` and deadline (ms since 1970 UTC); only the address may change.
 * Errors: `not_found` for a subject or an await that is not the caller's to see, `conflict` when the id stands for other subjects, `forbidden`
 * for an address outside the caller's callbacks, `invalid_input`, `store_unavailable`.
 */
export async function awaitAny(input: Asked, caller: Caller, parts: HarnessParts): Promise<Answer> {
  const { engine } = parts
  const owner = caller.principal.id
  const asked = subjectsOf(input)
  const url = input.callback === undefined || input.callback === null ? null : allowedCallback(input.callback.url, caller)
  if (asked !== null) await requireVisible(asked, caller, engine)
  for (let tries = 1; tries <= mostTries; tries += 1) {
    const row = await engine.store.findAwait(owner, input.await_id)
    if (row === null) {
      if (asked === null) throw unknownAwait(input.await_id)
      // looked at again after it is there, so that no end falls between
      await commit([opened(input, asked, { owner, url }, engine)], caller, engine)
      continue
    }
    requireSame(row, asked, input, engine)
    if (url !== null && isOpenAwait(row) && callbackOf(row, engine.sealKey) !== url) {
      const callback = sealedCallback(url, row, engine)
      await commit([{ type: 'await.readdressed', owner, await_id: row.await_id, callback, at: engine.clock.now() }], caller, engine)
      continue
    }
    if (asked === null) await requireVisible(row, caller, engine)
    // what is told is what the outcome was made of
    const read = row.kind === 'turn' ? await readTurns(row.subjects, engine.store) : []
    const done = row.kind === 'turn' ? areDone(row, read) : await isDone(row, engine)
    const outcome = outcomeOf(row, done, engine.clock.now(), engine.sealKey)
    const mustRemember = outcome !== null && isOpenAwait(row) && !wasAnswered(row, engine.sealKey)
    if (!mustRemember || (await remember(row, outcome, caller, engine))) return answerOf({ row, outcome, read, ids: asked?.asked ?? row.subjects }, caller, parts)
  }
  throw new HarnessError('store_unavailable', `Await ${input.await_id} is changed by too many at once. Ask again.`)
}

/** Gives the await up. `cancelled` is false when it was over already. Errors: `not_found`, `store_unavailable`. */
export async function unawait(input: ParsedOf<'unawait'>, caller: Caller, { engine }: HarnessParts): Promise<OutputOf<'unawait'>> {
  const owner = caller.principal.id
  for (let tries = 1; tries <= mostTries; tries += 1) {
    const row = await engine.store.findAwait(owner, input.await_id)
    if (row === null) throw unknownAwait(input.await_id)
    if (!isOpenAwait(row)) return { cancelled: false }
    const end = { status: 'cancelled' as const, outcome: null, answered: null, answer: row.last_answer }
    if (await commit([{ type: 'await.closed', owner, await_id: row.await_id, attempts: row.attempts, ...end }], caller, engine)) return { cancelled: true }
  }
  throw new HarnessError('store_unavailable', `Await ${input.await_id} is changed by too many at once. Ask again.`)
}

interface AskedSubjects extends Pick<AwaitFacts, 'kind' | 'subjects'> {
  /** As they were given, with repetitions. */
  readonly asked: readonly string[]
}

function subjectsOf({ turn_ids: turns, approval_ids: approvals }: Asked): AskedSubjects | null {
  if (turns !== undefined && approvals !== undefined) throw new HarnessError('invalid_input', 'await: give turn_ids or approval_ids, not both.')
  const asked = turns ?? approvals
  return asked === undefined ? null : { kind: turns === undefined ? 'approval' : 'turn', asked, subjects: [...new Set(asked)] }
}

/** All of them, or none is spoken of. */
async function requireVisible({ kind, subjects }: Pick<AwaitFacts, 'kind' | 'subjects'>, caller: Caller, engine: Engine): Promise<void> {
  for (const id of subjects) {
    if (kind === 'approval') await visibleApproval(id, caller, engine)
    else await visibleTurn(id, caller, engine)
  }
}

async function visibleTurn(id: string, caller: Caller, engine: Engine): Promise<TurnRow> {
  const turn = await engine.store.findTurn(id)
  if (turn === null || !maySee(caller.principal, turn.owner)) {
    throw new HarnessError('not_found', `There is no turn ${shownId(id)} that you may see. Give the turn_id that send answered with.`, { data: { turn_id: id } })
  }
  return turn
}

function unknownAwait(id: string): HarnessError {
  return new HarnessError('not_found', `You have no await ${shownId(id)}. Give turn_ids or approval_ids to open one.`, { data: { await_id: id } })
}

/** The first asking decides on subjects, until and deadline; only the address may be another one later. */
function requireSame(row: Await, asked: AskedSubjects | null, { until }: Asked, engine: Engine): void {
  const other = (what: string): HarnessError => new HarnessError('conflict', `Await ${row.await_id} ${what}. Use another await_id.`, { data: { await_id: row.await_id } })
  if (!awaitHolds(row, engine.sealKey)) throw other('was altered outside the harness')
  const isSame = asked === null || (asked.kind === row.kind && asked.subjects.length === row.subjects.length && asked.subjects.every((id) => row.subjects.includes(id)))
  if (!isSame) throw other('waits for others')
  if (until !== undefined && row.kind === 'turn' && until !== row.until) throw other(`waits until ${row.until}`)
}

function opened(input: Asked, asked: AskedSubjects, given: { readonly owner: string; readonly url: string | null }, engine: Engine): Change {
  const facts: AwaitFacts = {
    await_id: input.await_id, owner: given.owner, kind: asked.kind, until: asked.kind === 'approval' ? 'ended' : (input.until ?? 'held_or_ended'),
    subjects: asked.subjects, deadline: input.deadline ?? null, created_at: engine.clock.now(),
  }
  return { type: 'await.opened', await: facts, seal: sealAwait(facts, engine.sealKey), callback: given.url === null ? null : sealedCallback(given.url, facts, engine) }
}

/** False when somebody was quicker. */
async function commit(changes: readonly Change[], caller: Caller, engine: Engine): Promise<boolean> {
  try {
    await engine.store.commit({ actor: caller.principal.id, at: engine.clock.now(), session_id: null, changes })
    return true
  } catch (error) {
    if (!isHarnessError(error) || error.code !== 'conflict') throw error
    return false
  }
}

/** The caller is told: it need not be called; if it is being called already, it is until it says so itself. False when somebody was quicker. */
async function remember(row: Await, outcome: AwaitOutcome, caller: Caller, engine: Engine): Promise<boolean> {
  const answered = answeredSeal(row, outcome, engine.sealKey)
  if (row.attempts > 0 && row.callback !== null && row.status === 'due') return engine.store.noteAwait(row, { note: 'told', outcome, answered })
  const { owner, await_id, attempts } = row
  return commit([{ type: 'await.closed', owner, await_id, attempts, status: 'answered', outcome, answered, answer: row.last_answer }], caller, engine)
}

interface Standing {
  readonly row: Await
  readonly outcome: AwaitOutcome | null
  readonly read: readonly (AwaitedTurn | null)[]
  /** As asked for, with repetitions. */
  readonly ids: readonly string[]
}

async function answerOf({ row, outcome, read, ids }: Standing, caller: Caller, parts: HarnessParts): Promise<Answer> {
  const { engine } = parts
  const status: Answer['status'] = row.status === 'cancelled' ? 'cancelled' : (outcome ?? 'pending')
  const head = { await_id: row.await_id, status, deadline: row.deadline }
  if (row.kind === 'approval') return { ...head, turns: [], approvals: await Promise.all(ids.map((id) => linked(id, caller, parts))) }
  const worker = await parts.workerText()
  const found = read.filter((one) => one !== null)
  const views = new Map(await Promise.all(found.map(async ({ turn, approvals }) =>
    [turn.turn_id, turnView(turn, { calls: await engine.store.callsOf(turn.turn_id), approvals, worker })] as const,
  )))
  const open = [...views.values()].flatMap((view) => view.approvals).filter((approval) => approval.status === 'pending')
  const approvals = await Promise.all(open.map((approval) => linked(approval.approval_id, caller, parts).catch(leftOut)))
  return { ...head, turns: ids.flatMap((id) => views.get(id) ?? []), approvals: approvals.filter((approval) => approval !== null) }
}

/** One whose call was altered cannot be shown, and nobody is to decide it; the turn tells of it all the same. */
function leftOut(error: unknown): null {
  if (isHarnessError(error) && error.code === 'conflict') return null
  throw error
}

async function linked(approvalId: string, caller: Caller, parts: HarnessParts): Promise<Answer['approvals'][number]> {
  const detail = await getApproval({ approval_id: approvalId }, caller, parts)
  const mayDecide = caller.principal.scopes.includes('approvals:decide') && (await seesBySeal(detail, caller, parts.engine))
  return { ...detail, link_key: mayDecide ? linkKey(parts.engine.sealKey, { approval_id: detail.approval_id, call_id: detail.function_call_id }) : null }
}

/** Whether the caller may see it by configuration and by the sealed turn, whatever the approval's row says of owner and roles. */
async function seesBySeal({ turn_id, function_id }: OutputOf<'get_approval'>, { principal }: Caller, engine: Engine): Promise<boolean> {
  const turn = await engine.store.findTurn(turn_id)
  if (turn === null || !sealHolds(engine.sealKey, 'turn', turnSealFacts(turn), turn.seal)) return false
  const roles = engine.authority().functions.get(function_id)?.approver_roles ?? []
  return maySee(principal, turn.owner) || roles.some((role) => principal.roles.includes(role))
}

/** An address is only called below those that whoever asks may name; compared as the address that will be called. */
function allowedCallback(given: string, caller: Caller): string {
  const url = new URL(given)
  url.hash = ''
  if (url.username !== '' || url.password !== '') throw new HarnessError('invalid_input', 'await: a callback address must hold no user or password.')
  const isAllowed = mayBeCalledAt(caller, url)
  if (!isAllowed) throw new HarnessError('forbidden', `You may not be called at ${url.origin}. The address must begin with one that is registered for you.`)
  return url.href
}
