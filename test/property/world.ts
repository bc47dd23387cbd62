/*
 * A harness without threads of its own, for random interleavings: the test says when a worker claims a turn, at which commit it dies or
 * loses its lease, and what happens inside each model and function call. Real store, planner, policy and signatures.
 */
import { generateKeyPairSync } from 'node:crypto'
import { verifyAudit } from '../../core/audit/verify'
import { signDecision } from '../../core/approvals/decide'
import type { Clock } from '../../core/clock'
import { loadAuthority } from '../../core/config'
import type { Json } from '../../core/digest'
import type { Engine } from '../../core/engine/engine'
import { runTurn, type RunEnd } from '../../core/engine/run-turn'
import { tampering } from '../../core/engine/tampering'
import { isHarnessError } from '../../core/errors'
import type { FunctionCall } from '../../core/functions/function'
import { validateArguments } from '../../core/functions/validate'
import { makeHarness } from '../../core/harness'
import type { Caller } from '../../core/identity/principal'
import type { IdPrefix, Ids } from '../../core/ids'
import { silentLog } from '../../core/log'
import type { ModelReply, ModelRequest } from '../../core/model/model'
import { openRegistrations } from '../../core/registrations'
import { auditReads } from '../../core/store/audit-reads'
import { migrate, readMigrations } from '../../core/store/migrate'
import { sqlStore } from '../../core/store/sql-store'
import { openSqlite } from '../../core/store/sqlite'
import type { Store } from '../../core/store/store'
import { shopConfig } from '../support/place'

export class Crash extends Error {}

const pair = generateKeyPairSync('ed25519')
const authority = loadAuthority({
  configText: shopConfig(pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')), env: {}, deployment: 'd_0',
})
const migrations = readMigrations('sqlite')

export interface Asked {
  readonly function_id: string
  readonly arguments: { readonly [key: string]: Json }
}

export interface Fault {
  /** `before` and `after`: the process dies at this commit of the run, counted from 1. `lease`: somebody claims the turn just before it. */
  readonly kind: 'before' | 'after' | 'lease'
  readonly commit: number
}

export interface World {
  readonly harness: ReturnType<typeof makeHarness>
  readonly store: Store
  readonly caller: Caller
  readonly sent: readonly FunctionCall[]
  readonly requests: readonly ModelRequest[]
  /** Approvals that a person really approved. */
  readonly approved: ReadonlySet<string>
  now(): number
  pass(ms: number): void
  decide(approvalId: string, decision: 'approve' | 'reject'): Promise<boolean>
  /** One worker claims the next turn and runs it. Null when there is none. `inside` is called in every model and function call. */
  work(options: { fault?: Fault; inside?: (where: 'model' | 'function') => Promise<void> }): Promise<RunEnd | 'crashed' | null>
  /** Another worker takes the lease of this turn. */
  stealLease(turnId: string): Promise<boolean>
  problems(): Promise<readonly string[]>
  rows(text: string): Promise<readonly Readonly<Record<string, string | number | null>>[]>
  close(): Promise<void>
}

/** `reply(request, n)`: what the model answers the nth time it is asked since the last user message. */
export async function makeWorld(reply: (request: ModelRequest, count: number) => { text: string; calls: readonly Asked[] }): Promise<World> {
  let time = 1_700_000_000_000
  let serial = 0
  const clock: Clock = { now: () => time, monotonic: () => time }
  const ids: Ids = {
    next: (prefix: IdPrefix) => `${prefix}_${String((serial += 1)).padStart(32, '0')}`,
    hex: (bytes) => String((serial += 1)).padStart(bytes * 2, '0'),
  }
  const connection = openSqlite({ file: ':memory:' })
  await migrate(connection, migrations, time)
  const plain = sqlStore(connection)
  const registrations = await openRegistrations({ store: plain, sealKey: Buffer.alloc(32, 7), clock, log: silentLog, actor: 'test', startsWithWorkflows: true, memory: { last: () => Promise.resolve(new Map()), remember: () => Promise.resolve() } })
  registrations.close()
  const sent: FunctionCall[] = []
  const requests: ModelRequest[] = []
  const approved = new Set<string>()
  const handedOut = new Set<string>()
  let inside: (where: 'model' | 'function') => Promise<void> = () => Promise.resolve()

  const engineOn = (store: Store): Engine => ({
    store, clock, ids, log: silentLog, sealKey: Buffer.alloc(32, 7),
    model: {
      provider: 'scripted',
      generate: async (request, signal) => {
        requests.push(request)
        await inside('model')
        if (signal.aborted) return { kind: 'failure', error_kind: 'transient', cause: 'aborted', message: 'stopped' }
        const answer = reply(request, answersSinceUser(request))
        const calls = answer.calls.map((call) => ({ ...call, offered: true, native_id: null }))
        return { kind: 'reply', provider: 'scripted', model: 'm', thinking: null, native_stop_reason: null, usage: {}, warnings: [], ...answer, calls, stop_reason: calls.length > 0 ? 'function_call' : 'end' } satisfies ModelReply
      },
      probe: () => Promise.resolve({ address: 'script', reachable: true, problem: null, models: [{ name: 'm', locality: 'this_machine', functions: true }] }),
    },
    sentLog: { has: (callId) => handedOut.has(callId), append: (callId) => { handedOut.add(callId); return Promise.resolve() } },
    authority: () => authority,
    refreshAuthority: () => Promise.resolve(),
    source: () => ({
      call: async (call, signal) => {
        sent.push(call)
        await inside('function')
        if (signal.aborted) return { kind: 'cut', message: 'The call was stopped.' }
        return { kind: 'answered', value: { ok: true }, is_error: call.arguments['order'] === 'broken' }
      },
    }),
    registrations,
    checkSchema: () => undefined,
    validateArguments,
    mask: (text) => text,
  })
  const engine = engineOn(plain)
  const harness = makeHarness({
    engine, workerText: () => Promise.resolve('a test'), verifyAudit: () => Promise.reject(new Error('not here')), howToDecide: () => 'not here',
    deciding: { pagePublicKey: '', pageKey: () => pair.privateKey, hasKey: () => Promise.resolve(false), unlock: () => Promise.reject(new Error('not here')) },
  })
  const grant = authority.grants.get('local')
  if (grant === undefined) throw new Error('no local principal')
  const caller: Caller = { principal: grant.principal, source: { type: 'external_system', id: 'test' }, callbacks: null }

  const world: World = {
    harness, store: plain, caller, sent, requests, approved,
    now: () => time,
    pass: (ms) => { time += ms },
    async decide(approvalId, decision) {
      const approval = await plain.findApproval(approvalId)
      if (approval === null) return false
      const signed = signDecision(pair.privateKey, approval.approval_digest, { decision, approver: 'alice', decided_at: time, reason: decision === 'reject' ? 'no' : null, channel: 'command_line' })
      try {
        await harness.decide_approval({ approval_id: approvalId, ...signed }, caller)
      } catch (error) {
        if (isHarnessError(error) && error.code === 'approval_closed') return false
        throw error
      }
      if (decision === 'approve') approved.add(approval.call_id)
      return true
    },
    async work(options) {
      const worker = { worker_id: ids.next('w'), pid: 1, pid_start: null, host: 'h', fingerprint: 'f', program: 'test', started_at: time, lease_until: time + 10_000 }
      const [turnId] = await plain.findClaimable(worker, time, 1)
      if (turnId === undefined) return null
      const row = await plain.findTurn(turnId)
      if (row === null) throw new Error('claimable but unknown')
      const actor = `worker:${worker.worker_id}`
      await plain.commit({ actor, at: time, session_id: row.session_id, changes: [{ type: 'turn.claimed', turn_id: turnId, epoch: row.lease_epoch + 1, worker: worker.worker_id, at: time }] })
      const turn = await plain.loadTurn(turnId)
      if (turn === null) throw new Error('claimed but unknown')
      if (tampering(turn, engine) !== null) throw new Error(String(tampering(turn, engine)))
      const controller = new AbortController()
      inside = async (where) => {
        await options.inside?.(where)
        // what the worker does on a hint
        if ((await plain.readInbox(turnId)).some((item) => item.kind === 'stop')) controller.abort()
      }
      let commits = 0
      const faulty: Store = {
        ...plain,
        commit: async (commit) => {
          commits += 1
          const hit = options.fault !== undefined && options.fault.commit === commits ? options.fault.kind : null
          if (hit === 'before') throw new Crash()
          if (hit === 'lease') await world.stealLease(turnId)
          const inbox = await plain.commit.call(plain, commit)
          if (hit === 'after') throw new Crash()
          return inbox
        },
      }
      try {
        return await runTurn(turn, { actor, signal: controller.signal, mayGoOn: () => true }, engineOn(faulty))
      } catch (error) {
        if (error instanceof Crash) return 'crashed'
        throw error
      }
    },
    async stealLease(turnId) {
      const row = await plain.findTurn(turnId)
      if (row === null || row.finished_at !== null || row.status !== 'running') return false
      const thief = ids.next('w')
      await plain.commit({ actor: `worker:${thief}`, at: time, session_id: row.session_id, changes: [{ type: 'turn.claimed', turn_id: turnId, epoch: row.lease_epoch + 1, worker: thief, at: time }] })
      return true
    },
    async problems() {
      const report = await verifyAudit({ reads: auditReads(connection), checkpointLines: null, publicKey: null, laterCheckpoint: () => Promise.resolve(null) })
      return report.problems.map((problem) => problem.text)
    },
    rows: (text) => connection.query({ text, values: [] }),
    close: () => plain.close(),
  }
  return world
}

function answersSinceUser(request: ModelRequest): number {
  const last = request.messages.findLastIndex((message) => message.role === 'user')
  return request.messages.slice(last + 1).filter((message) => message.role === 'assistant').length
}
