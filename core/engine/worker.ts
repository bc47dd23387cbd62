/*
 * The worker of a place: there is one at a time on a database. It holds the place by a lease that it renews, claims turns under a rising
 * epoch, runs them, and tells a running turn when somebody wants it to stop. Where another process holds the place it stands by.
 */
import { isHarnessError, toHarnessError } from '../errors'
import type { WorkerRow } from '../store/store'
import type { Turn } from '../turn/turn'
import type { Engine } from './engine'
import { runTurn } from './run-turn'
import { hintScheduler } from './scheduler'
import { isGenuine } from './steps/inbox'
import { tampering } from './tampering'

export const leaseMs = 10_000
export const beatMs = 3_000
/** Longest sleep between two looks for work: what a lost hint costs. */
const lookMs = 500
/** Shortest time between two looks. */
const quietMs = 10
const maxRunning = 16
/** After a run that broke off: this doubled with every claim, up to the longest. */
const pauseMs = 250
const longestPauseMs = 30_000

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
    if (signal.aborted) done()
  })
}

export interface WorkerOptions {
  readonly program: string
  readonly version: string
  readonly host: string
  readonly pid: number
  readonly pidStart: string | null
  /** Whether the process behind another worker's row is provably gone. */
  isDead(other: WorkerRow): boolean
}

export interface Worker {
  state(): { readonly state: 'working' | 'standing_by'; readonly holder: WorkerRow | null }
  /** Aborts what runs, gives leases up. Resolves when all is on disk. */
  stop(): Promise<void>
}

interface Running {
  readonly owner: string
  /** Aborted when a stop was heard, and when the worker must let go. */
  readonly controller: AbortController
  readonly done: Promise<void>
}

export function startWorker(engine: Engine, options: WorkerOptions): Worker {
  const { store, clock, log } = engine
  const scheduler = hintScheduler((listener) => store.onHint(listener))
  const running = new Map<string, Running>()
  const actor = (): string => `worker:${me.worker_id}`
  let me = identity()
  let working = false
  let holder: WorkerRow | null = null
  /** By the clock that never goes back: after this moment the place may be somebody else's. */
  let heldUntil = 0
  let stopping = false

  function identity(): WorkerRow {
    const now = clock.now()
    return {
      worker_id: engine.ids.next('w'), pid: options.pid, pid_start: options.pidStart, host: options.host, fingerprint: engine.authority().fingerprint,
      program: options.program, started_at: now, lease_until: now + leaseMs,
    }
  }

  const mayGoOn = (): boolean => working && !stopping && clock.monotonic() < heldUntil

  async function takePlace(): Promise<void> {
    const from = clock.monotonic()
    me = identity()
    const taken = await store.acquireWorker(me, (other) => options.isDead(other), clock.now())
    holder = taken.holder
    if (!taken.acquired) return
    heldUntil = from + leaseMs
    working = true
    await store.commit({
      actor: actor(), at: clock.now(), session_id: null,
      changes: [{ type: 'deployment.opened', worker: me.worker_id, fingerprint: me.fingerprint, version: options.version }],
    })
    log.info({ worker: me.worker_id }, 'this process runs the turns')
  }

  function losePlace(): void {
    if (!working) return
    working = false
    log.warn({ worker: me.worker_id }, 'another process runs the turns now; giving up what was running')
    for (const run of running.values()) run.controller.abort()
  }

  async function beat(): Promise<void> {
    if (!working) return
    const from = clock.monotonic()
    try {
      if (await store.beat(me.worker_id, clock.now() + leaseMs)) heldUntil = from + leaseMs
      else losePlace()
    } catch (error) {
      log.warn({ error: toHarnessError(error).message }, 'the lease could not be renewed')
      if (clock.monotonic() >= heldUntil) losePlace()
    }
  }

  async function claim(turnId: string | null): Promise<Turn | null> {
    if (turnId === null || running.has(turnId)) return null
    const row = await store.findTurn(turnId)
    if (row === null) return null
    const change = { type: 'turn.claimed' as const, turn_id: turnId, epoch: row.lease_epoch + 1, worker: me.worker_id, at: clock.now() }
    await store.commit({ actor: actor(), at: clock.now(), session_id: row.session_id, changes: [change] })
    await engine.refreshAuthority()
    return store.loadTurn(turnId)
  }

  function start(turn: Turn): void {
    const controller = new AbortController()
    const found = tampering(turn, engine)
    const checked: Turn = found === null ? turn : { ...turn, failure: { reason: 'tampered', detail: 'The record of this turn was altered from outside. Run "agent-harness audit verify".' } }
    const run = async (): Promise<void> => {
      try {
        if (found !== null) await store.commit({ actor: actor(), at: clock.now(), session_id: null, changes: [{ type: 'tampering.found', object: turn.turn_id, what: found }] })
        const end = await runTurn(checked, { actor: actor(), signal: controller.signal, mayGoOn }, engine)
        if (end === 'lost') log.warn({ turn_id: turn.turn_id }, 'the lease of the turn was lost')
      } catch (error) {
        log.error({ turn_id: turn.turn_id, error: toHarnessError(error).message, cause: error }, 'the run broke off')
        await letGo(turn, controller.signal)
      } finally {
        running.delete(turn.turn_id)
        scheduler.wake()
      }
    }
    running.set(turn.turn_id, { owner: turn.owner, controller, done: run() })
  }

  /** After a run that broke off: wait a little, longer each time, and let the turn be claimed again; it counts as a claim without a result. */
  async function letGo(turn: Turn, signal: AbortSignal): Promise<void> {
    await pause(Math.min(pauseMs * 2 ** turn.claims, longestPauseMs), signal)
    const { turn_id, session_id, lease_epoch } = turn
    try {
      await store.commit({ actor: actor(), at: clock.now(), session_id, changes: [{ type: 'turn.released', turn_id, epoch: lease_epoch }] })
    } catch (error) {
      log.error({ turn_id, cause: error }, 'the turn could not be given back')
      // the next one to take the place, this process perhaps, takes all turns of the one before
      if (!isHarnessError(error) || error.code !== 'lease_lost') losePlace()
    }
  }

  /** False when nothing was begun: somebody was quicker, or the row is damaged. Then never at once again, that would starve the process. */
  async function begin(turnId: string | null): Promise<boolean> {
    try {
      const turn = await claim(turnId)
      if (turn !== null) start(turn)
      return turn !== null
    } catch (error) {
      if (!isHarnessError(error) || error.code !== 'conflict') throw error
      return false
    }
  }

  /** A turn that runs is told; one that waits, for an earlier one or for room, does not wait to be stopped. */
  async function hearStops(): Promise<void> {
    for (const turnId of await store.findStopped()) {
      const run = running.get(turnId)
      if (run?.controller.signal.aborted === true) continue
      const stopped = run ?? (await store.findTurn(turnId))
      const inbox = await store.readInbox(turnId)
      if (stopped === null || !inbox.some((item) => item.kind === 'stop' && isGenuine(item, stopped, engine))) continue
      if (run === undefined) await begin(turnId)
      else run.controller.abort()
    }
  }

  async function look(): Promise<void> {
    if (!working) await takePlace()
    // after a long sleep of this process: first see whether the place is still its own
    else if (clock.monotonic() >= heldUntil) await beat()
    if (!mayGoOn()) return
    await hearStops()
    const room = maxRunning - running.size
    if (room <= 0) return
    // one that cannot be claimed keeps nobody else from it
    for (const turnId of await store.findClaimable(me, clock.now(), room)) {
      if (!mayGoOn()) return
      await begin(turnId)
    }
  }

  async function loop(): Promise<void> {
    while (!stopping) {
      try {
        await look()
      } catch (error) {
        log.error({ error: toHarnessError(error).message, cause: error }, 'looking for work failed')
      }
      // this process's own commits wake it too: one look for many of them
      await new Promise((resolve) => setTimeout(resolve, quietMs))
      await scheduler.wait(lookMs)
    }
  }

  const beating = setInterval(() => void beat(), beatMs)
  const looping = loop()

  return {
    state: () => ({ state: working ? 'working' : 'standing_by', holder: working ? me : holder }),
    async stop() {
      stopping = true
      scheduler.wake()
      for (const run of running.values()) run.controller.abort()
      await looping
      await Promise.all([...running.values()].map((run) => run.done))
      clearInterval(beating)
      scheduler.close()
      try {
        if (working) await store.releaseWorker(me.worker_id)
      } catch (error) {
        // nothing may stay open for that: it is free when the lease is over
        log.warn({ worker: me.worker_id, error: toHarnessError(error).message }, 'the place could not be given up')
      }
      working = false
    },
  }
}
