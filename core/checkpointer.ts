/*
 * Makes the checkpoints of the record while a program runs: signed, in the database and then in the file beside it. Nothing is made
 * while no chain moved. Several processes may do so at once; a number is taken by one of them only.
 */
import { createPublicKey } from 'node:crypto'
import { checkpointSignatureHolds, makeCheckpoint, type Checkpoint } from './audit/checkpoint'
import { isCheckpoint } from './audit/verify-checkpoints'
import type { Clock } from './clock'
import { isHarnessError } from './errors'
import type { Log } from './log'
import type { Store } from './store/store'

export interface CheckpointerOptions {
  readonly store: Pick<Store, 'lastCheckpoint' | 'headsSinceCheckpoint' | 'addCheckpoint' | 'unsealedRows'>
  readonly home: {
    /** Ed25519, PEM. */
    readonly checkpointPrivateKey: string
    /** Contract: on disk when it resolves. */
    appendCheckpointLine(line: string): Promise<void>
    readCheckpointLines(): AsyncIterable<string>
  }
  readonly clock: Clock
  readonly log: Log
  /** A checkpoint is due when the last one is so old and rows came since (default 60 s), … */
  readonly everyMs?: number
  /** … or when so many rows came since (default 1,000). */
  readonly everyRows?: number
  /** How often the two bounds are looked at (default 1 s). */
  readonly lookEveryMs?: number
}

export interface Checkpointer {
  /** Fixes everything recorded so far. Null when nothing is new. Throws what store and file throw. */
  checkpointNow(): Promise<Checkpoint | null>
  /** A last checkpoint, then none any more. Never throws: what could not be fixed now is fixed at the next start. */
  stop(): Promise<void>
}

/** Of more chains than these a checkpoint takes the first ones, and the next one follows at once. */
const mostHeads = 5_000
/** How often a number that another process took is read again. */
const raceRetries = 20

export function startCheckpointer(options: CheckpointerOptions): Checkpointer {
  const { store, home, clock, log, everyMs = 60_000, everyRows = 1_000, lookEveryMs = 1_000 } = options
  /** The last number in the file; null until it was read. */
  let inFile: number | null = null
  /** One at a time. */
  let running: Promise<unknown> = Promise.resolve()
  let stopped = false

  const append = async (checkpoint: Checkpoint): Promise<void> => {
    await home.appendCheckpointLine(JSON.stringify(checkpoint))
    inFile = Math.max(inFile ?? 0, checkpoint.number)
  }

  /** A crash between database and file leaves the file one behind. Anything else is not ours to mend: verify must find it. */
  const mendFile = async (last: Checkpoint | null): Promise<void> => {
    const inDatabase = last?.number ?? 0
    if (inDatabase === inFile) return
    // another process may have moved both on since the file was read
    if (inFile === null || inDatabase !== inFile + 1) inFile = await lastNumberIn(home.readCheckpointLines())
    if (last !== null && inDatabase === inFile + 1 && checkpointSignatureHolds(last, createPublicKey(home.checkpointPrivateKey))) {
      await append(last)
      return
    }
    if (inFile < inDatabase || inFile > inDatabase + 1) {
      const fields = { in_database: inDatabase, in_file: inFile }
      log.error(fields, 'Checkpoints in the database and in the file do not agree; run "agent-harness audit verify"')
    }
    inFile = Math.max(inDatabase, inFile)
  }

  const makeOne = async (): Promise<Checkpoint | null> => {
    for (let tries = 1; ; tries += 1) {
      // last first: who comes between it and the heads takes the number
      const last = await store.lastCheckpoint()
      await mendFile(last)
      const heads = (await store.headsSinceCheckpoint()).slice(0, mostHeads)
      if (heads.length === 0) return null
      const checkpoint = makeCheckpoint(last, heads, clock.now(), home.checkpointPrivateKey)
      try {
        await store.addCheckpoint(checkpoint)
      } catch (error) {
        if (!isHarnessError(error) || error.code !== 'conflict' || tries >= raceRetries) throw error
        continue
      }
      await append(checkpoint)
      return checkpoint
    }
  }

  const makeAll = async (): Promise<Checkpoint | null> => {
    let made: Checkpoint | null = null
    for (;;) {
      const next = await makeOne()
      if (next === null) return made
      made = next
      if (next.heads.length < mostHeads) return made
    }
  }

  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = running.then(work, work)
    running = done.catch(() => undefined)
    return done
  }

  const isDue = async (): Promise<boolean> => {
    const rows = await store.unsealedRows()
    if (rows === 0) return false
    const [last, now] = [(await store.lastCheckpoint())?.at ?? null, clock.now()]
    // a wall clock that was set back must not put it off
    return rows >= everyRows || last === null || now - last >= everyMs || now < last
  }

  let looking = false
  const look = async (): Promise<void> => {
    if (looking || stopped) return
    looking = true
    try {
      await inTurn(async () => {
        if (stopped) return
        if (inFile === null) await mendFile(await store.lastCheckpoint())
        if (await isDue()) await makeAll()
      })
    } catch (error) {
      log.error({ err: error }, 'No checkpoint could be made; it is tried again')
    } finally {
      looking = false
    }
  }

  const timer = setInterval(() => void look(), lookEveryMs)
  timer.unref()
  void look()

  return {
    checkpointNow: () => inTurn(makeAll),
    async stop() {
      if (stopped) return
      stopped = true
      clearInterval(timer)
      try {
        await inTurn(makeAll)
      } catch (error) {
        log.error({ err: error }, 'No last checkpoint could be made; the next start makes it')
      }
    },
  }
}

async function lastNumberIn(lines: AsyncIterable<string>): Promise<number> {
  let last = 0
  for await (const line of lines) {
    try {
      const value: unknown = JSON.parse(line)
      if (isCheckpoint(value)) last = Math.max(last, value.number)
    } catch {
      // a line torn by a crash
    }
  }
  return last
}
