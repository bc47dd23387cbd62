/*
 * What must be true of a home after a crash: looked at in the rows themselves, in what the functions' server saw and in what the model was
 * told, never by asking the code that is under test. Each finding names the promise that it breaks.
 */
import Database from 'better-sqlite3'
import { createPublicKey, verify } from 'node:crypto'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { signedBytes, type SignedDecision } from '../../core/approvals/approval'
import type { AuditReport } from '../../core/audit/report'
import { canonical } from '../../core/digest'
import { openHomeReadOnly } from '../../core/home'
import { verifyDatabase } from '../../core/verify-database'
import { copyDatabase, type RunEnd, type CrashHome, type TracedMessage } from './crash-child'
import { scriptedAwaitId, type ScriptedTurn } from './crash-scripts'
import type { SeenRequest } from './counting-server'

export interface Finding {
  readonly promise: string
  readonly text: string
}

const found = (promise: string, text: string): Finding => ({ promise, text })

interface CallRow {
  readonly call_id: string
  readonly turn_id: string
  readonly function_id: string
  readonly status: string
  readonly attempts: number
  readonly approval_id: string | null
  readonly arguments: string
  readonly result: string | null
}

interface TurnRow {
  readonly turn_id: string
  readonly kind: string
  readonly status: string
  readonly reason: string | null
  readonly park: string | null
}

interface ApprovalRow {
  readonly approval_id: string
  readonly call_id: string
  readonly status: string
  readonly approval_digest: string
  readonly decided: string | null
}

export interface Rows {
  readonly turns: readonly TurnRow[]
  readonly calls: readonly CallRow[]
  readonly approvals: readonly ApprovalRow[]
  /** Texts of the messages of users. */
  readonly said: readonly string[]
  readonly unread: number
  readonly worker: { readonly pid: number; readonly lease_until: number } | null
}

const nothing: Rows = { turns: [], calls: [], approvals: [], said: [], unread: 0, worker: null }

/** Names of the tables and triggers that are there. */
export function readObjects(home: CrashHome): string[] {
  return looking(home, (database) => database.prepare('SELECT name FROM sqlite_master').all().map((row) => (row as { name: string }).name)) ?? []
}

function looking<T>(home: CrashHome, look: (database: Database.Database) => T): T | null {
  const file = copyDatabase(home)
  if (file === null) return null
  const database = new Database(file)
  try {
    return look(database)
  } finally {
    database.close()
    rmSync(path.dirname(file), { recursive: true, force: true })
  }
}

/** The rows as they lie on disk. */
export function readRows(home: CrashHome): Rows {
  return looking(home, rowsOf) ?? nothing
}

function rowsOf(database: Database.Database): Rows {
  const all = (text: string): unknown[] => database.prepare(text).all()
  if (all(`SELECT name FROM sqlite_master WHERE name = 'migrations'`).length === 0) return nothing
  return {
    turns: all('SELECT turn_id, kind, status, reason, park FROM turns ORDER BY created_at') as TurnRow[],
    calls: all(`SELECT c.call_id, c.turn_id, c.function_id, c.status, c.attempts, c.approval_id, a.text AS arguments, r.text AS result
      FROM calls c JOIN contents a ON a.content_id = c.arguments LEFT JOIN contents r ON r.content_id = c.result`) as CallRow[],
    approvals: all('SELECT approval_id, call_id, status, approval_digest, decided FROM approval_requests') as ApprovalRow[],
    said: textsOf(all(`SELECT k.text FROM messages m JOIN contents k ON k.content_id = m.content WHERE m.role = 'user'`)),
    unread: all('SELECT * FROM inbox WHERE fate IS NULL').length,
    worker: (all('SELECT pid, lease_until FROM workers')[0] ?? null) as Rows['worker'],
  }
}

const textsOf = (rows: unknown[]): string[] => (rows as { text: string }[]).map((row) => row.text)

const traits = (functionId: string): 'read' | 'idempotent' | 'write' =>
  functionId === 'shop::look_up' || functionId === 'shop::secret' ? 'read' : functionId === 'shop::set' ? 'idempotent' : 'write'
const needsApproval = (functionId: string): boolean => functionId === 'shop::refund' || functionId === 'shop::transfer'
const functionOf = (home: CrashHome, request: SeenRequest): string => `shop::${request.path.slice(home.pathOf('shop::').length)}`

/** What must be true at every moment, so also between a death and the next start. */
export function checkAlways(home: CrashHome, rows: Rows): Finding[] {
  return [...checkRequests(home, rows), ...checkDoubles(home)]
}

function checkRequests(home: CrashHome, rows: Rows): Finding[] {
  return home.requests().flatMap((request) => {
    const functionId = functionOf(home, request)
    const call = rows.calls.find((candidate) => candidate.call_id === request.call_id)
    const unallowed = (text: string): Finding[] => [found('crash.nothing-unallowed', `${functionId} was sent ${text}`)]
    const early = found('write.started-first', `${functionId} was sent before it was on record as started`)
    if (call === undefined) return [...unallowed('for a call that is not in the database'), ...(traits(functionId) === 'read' ? [] : [early])]
    if (call.function_id !== functionId || canonical(JSON.parse(call.arguments)) !== request.body) return unallowed('otherwise than asked for')
    if (['proposed', 'held', 'denied', 'rejected', 'expired'].includes(call.status)) return unallowed(`although its call is ${call.status}`)
    if (call.status === 'allowed' && traits(functionId) !== 'read') return [early]
    return needsApproval(functionId) && !isApproved(home, call, rows) ? unallowed('without a signed approval') : []
  })
}

function isApproved(home: CrashHome, call: CallRow, rows: Rows): boolean {
  const approval = rows.approvals.find((candidate) => candidate.approval_id === call.approval_id && candidate.call_id === call.call_id)
  if (approval?.status !== 'approved' || approval.decided === null) return false
  const decided = JSON.parse(approval.decided) as SignedDecision
  const bytes = signedBytes(approval.approval_digest, decided)
  return decided.decision === 'approve' && verify(null, bytes, createPublicKey(home.key), Buffer.from(decided.signature, 'base64'))
}

/** A deed is asked for once by every script, so that two requests for it are two doings, whatever their ids. */
function checkDoubles(home: CrashHome): Finding[] {
  const findings: Finding[] = []
  const deeds = new Map<string, SeenRequest[]>()
  for (const request of home.requests()) {
    const deed = `${request.path} ${request.body}`
    deeds.set(deed, [...(deeds.get(deed) ?? []), request])
  }
  for (const [deed, requests] of deeds) {
    const kind = traits(functionOf(home, requests[0]!))
    const ids = new Set(requests.map((request) => request.call_id)).size
    if (kind === 'write' && requests.length > 1) findings.push(found('crash.no-double-write', `${deed} was sent ${requests.length} times`))
    if (ids > 1) findings.push(found('crash.no-double-write', `${deed} was sent under ${ids} call ids`))
  }
  return findings
}

/** Ids of the calls that were under way when it died: of those that are no idempotent ones the outcome is unknown from now on. */
export function cutCalls(rows: Rows): string[] {
  return rows.calls.filter((call) => call.status === 'started' && traits(call.function_id) === 'write').map((call) => call.call_id)
}

export interface Crash {
  readonly killed: boolean
  /** The calls that were under way at the kills. */
  readonly cut: ReadonlySet<string>
}

export const noCrash: Crash = { killed: false, cut: new Set() }

/** What must be true when all is over. */
export async function checkEnd(home: CrashHome, end: RunEnd, crash: Crash): Promise<Finding[]> {
  const { report } = end
  if (report === null) return [found('speed.zero-lost', `the last run ended with ${String(end.code ?? end.signal)}: ${end.errors}`)]
  const rows = readRows(home)
  const findings = [
    ...checkAlways(home, rows), ...checkResults(rows), ...checkModel(home, rows, crash.cut), ...checkCalls(home, rows, crash),
    ...checkTurns(home, rows, { ...crash, report }),
  ]
  findings.push(...checkAwait(home))
  const audit = await verified(home)
  if (audit.verdict !== 'good') findings.push(found('crash.chains-verify', `the record is ${audit.verdict}: ${audit.could_not_tell.join(' ')}`))
  for (const problem of audit.problems) {
    const isFold = problem.kind.startsWith('state_') || problem.kind === 'change_impossible'
    findings.push(found(isFold ? 'crash.chains-fold' : 'crash.chains-verify', problem.text))
  }
  if (report.stood_by) findings.push(found('lease.dead-owner-replaced', 'it stood by for a process that was dead'))
  return findings
}

/** Whoever waits was told: by a call, or by the answer to what they asked. Nobody is called who was told so. */
function checkAwait(home: CrashHome): Finding[] {
  if (home.script.isAwaited !== true) return []
  const lost = (text: string): Finding[] => [found('await.crash', text)]
  const answered = home.trace().flatMap((line) => ('awaited' in line ? [line.awaited] : []))
  const rows = looking(home, (database) => database.prepare('SELECT status, callback FROM awaits').all()) as { status: string; callback: string | null }[] | null
  if (rows?.length !== 1) return lost(`there are ${String(rows?.length)} awaits`)
  const bodies = home.callbacks().map((seen) => seen.body)
  const odd = bodies.filter((body) => body !== JSON.stringify({ await_id: scriptedAwaitId, status: 'done' }))
  if (odd.length > 0) return lost(`somebody was told ${odd.join()}`)
  if (rows[0]?.status === 'delivered') return bodies.length > 0 ? [] : lost('a callback counts as delivered that nobody got')
  return rows[0]?.status === 'answered' && answered.includes('done') ? [] : lost(`the await is ${String(rows[0]?.status)}, and whoever waits was told ${answered.join() || 'nothing'}`)
}

/** What a process says of the record that had no part in it. */
export async function verified(home: CrashHome): Promise<AuditReport> {
  return verifyDatabase(await openHomeReadOnly(home.folder))
}

function checkResults(rows: Rows): Finding[] {
  return rows.calls.flatMap(({ status, result, function_id }) => {
    const isSettled = ['denied', 'succeeded', 'failed', 'interrupted', 'rejected', 'expired'].includes(status)
    const text = `${function_id} is ${status} with ${result === null ? 'no' : 'a'} result`
    return isSettled === (result !== null) ? [] : [found('crash.one-result', text)]
  })
}

/** In all that a model was ever told, every call has its one result right behind it; and it hears of each cut. */
function checkModel(home: CrashHome, rows: Rows, cut: ReadonlySet<string>): Finding[] {
  const requests = home.trace().flatMap((line) => ('asked' in line ? [line.asked] : []))
  const findings = requests.flatMap(pairings)
  const results = requests.flat().filter((message) => message.role === 'function_result')
  const told = (callId: string): boolean => results.some((result) => result.call_id === callId && result.text.includes('unknown_outcome'))
  for (const call of rows.calls) {
    const turn = rows.turns.find((candidate) => candidate.turn_id === call.turn_id)
    if (!cut.has(call.call_id) || turn === undefined) continue
    const isTold = turn.kind === 'function' || turn.status !== 'completed' ? (call.result ?? '').includes('unknown_outcome') : told(call.call_id)
    if (!isTold) findings.push(found('write.cut-is-told', `nobody was told that the outcome of ${call.function_id} is unknown`))
  }
  return findings
}

function pairings(messages: readonly TracedMessage[]): Finding[] {
  const wrong = (text: string): Finding[] => [found('crash.one-result', text)]
  const asked = messages.flatMap((message, index) =>
    (message.calls ?? []).map(({ call_id }, place) => ({ call_id, behind: messages[index + 1 + place] })),
  )
  const results = messages.filter((message) => message.role === 'function_result').map((message) => message.call_id)
  const loose = asked.filter(({ call_id, behind }) => behind?.role !== 'function_result' || behind.call_id !== call_id)
  if (loose.length > 0) return wrong('the model was shown a call without its result right behind it')
  const isEachOnce = results.length === asked.length && new Set(results).size === results.length
  return isEachOnce ? [] : wrong('the model was shown a result twice, or one of no call')
}

function checkCalls(home: CrashHome, rows: Rows, { killed, cut }: Crash): Finding[] {
  const wrong = (text: string): Finding[] => [found('crash.all-but-the-cut', text)]
  const known = new Set<string>()
  const findings = home.script.calls.flatMap(({ function_id, arguments: given, ends, orElse = [] }) => {
    const calls = rows.calls.filter((call) => call.function_id === function_id && canonical(JSON.parse(call.arguments)) === canonical(given))
    for (const call of calls) known.add(call.call_id)
    const [call] = calls
    if (call === undefined) return killed && orElse.includes('absent') ? [] : wrong(`${function_id} was never asked for`)
    if (calls.length > 1) return [found('crash.one-result', `${function_id} stands in ${calls.length} calls`)]
    const expected = cut.has(call.call_id) ? ['interrupted'] : killed ? [ends, ...orElse] : [ends]
    if (!expected.includes(call.status)) return wrong(`${function_id} is ${call.status}, not ${expected.join(' or ')}: ${call.result ?? ''}`)
    const sent = home.requests(function_id).filter((request) => request.call_id === call.call_id).length
    if (call.status === 'succeeded' && sent === 0) return wrong(`${function_id} is said to have succeeded and was never sent`)
    return call.status === 'succeeded' && sent > 1 && traits(function_id) === 'idempotent' && call.attempts < 2
      ? [found('call.idempotent-resent', `${function_id} was sent ${sent} times, and the record tells of ${call.attempts}`)]
      : []
  })
  const others = rows.calls.filter((call) => !known.has(call.call_id))
  return [...findings, ...others.flatMap((call) => wrong(`${call.function_id} was called though nobody asked for it`))]
}

interface TurnCheck extends Crash {
  readonly report: NonNullable<RunEnd['report']>
}

function checkTurns(home: CrashHome, rows: Rows, check: TurnCheck): Finding[] {
  const findings: Finding[] = []
  const lost = (text: string): void => { findings.push(found('speed.zero-lost', text)) }
  for (const turn of rows.turns) {
    const isOver = ['completed', 'failed', 'cancelled'].includes(turn.status)
    const why = isOver ? turn.reason : turn.park
    if (why === null) findings.push(found('crash.terminal-or-parked', `a turn is ${turn.status} without a reason`))
    const key = home.script.turns.find((candidate) => check.report.turns[candidate.key]?.turn_id === turn.turn_id)
    const expected = endsOf(turn, key, rows, check)
    const end = `${turn.status} ${String(why)}`
    if (!expected.includes(end)) lost(`a turn is ${end}, not ${expected.join(' or ')}`)
  }
  for (const { key } of home.script.turns) {
    const turnId = check.report.turns[key]?.turn_id
    if (!rows.turns.some((turn) => turn.turn_id === turnId)) lost(`there is no turn for step ${key}`)
  }
  for (const step of home.script.steps) {
    const count = step.do === 'send' ? rows.said.filter((text) => text.includes(step.message)).length : 1
    if (count !== 1) lost(`a message stands ${count} times in the conversation`)
  }
  if (rows.unread > 0) lost(`${rows.unread} items of an inbox were never read`)
  return findings
}

function endsOf(turn: TurnRow, key: ScriptedTurn | undefined, rows: Rows, { killed, cut }: TurnCheck): string[] {
  const isCut = rows.calls.some((call) => call.turn_id === turn.turn_id && cut.has(call.call_id))
  if (turn.kind === 'function' && isCut) return ['failed interrupted']
  // one that no step began answers a message that came too late
  const ends = key === undefined ? [['completed', 'done']] : [key.ends, ...(killed ? (key.orElse ?? []) : [])]
  return ends.map((end) => end.join(' '))
}
