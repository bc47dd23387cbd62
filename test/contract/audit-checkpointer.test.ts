/* Checkpoints are made in time, in the database and in the file, by however many processes. */
import { createPublicKey } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { checkpointSignatureHolds, type Checkpoint } from '../../core/audit/checkpoint'
import { startCheckpointer, type Checkpointer, type CheckpointerOptions } from '../../core/checkpointer'
import type { Clock } from '../../core/clock'
import { silentLog } from '../../core/log'
import { sql } from '../../core/store/sql'
import type { Store } from '../../core/store/store'
import { recordTurn } from '../support/record'
import { openTestStore, testHome, type TestHome, type TestStore } from '../support/store'
import { tamper } from '../support/tamper'
import { until } from '../support/until'

interface Scene extends TestStore {
  readonly home: TestHome
  readonly clock: Clock & { time: number }
  readonly errors: string[]
  start(more?: Partial<CheckpointerOptions>): Checkpointer
  /** Started, its first look over: on an empty database that makes nothing. */
  idle(more?: Partial<CheckpointerOptions>): Promise<Checkpointer>
}

async function openScene(): Promise<Scene> {
  const opened = await openTestStore()
  const home = testHome(opened.folder)
  const clock = { time: 1_000_000, now: () => clock.time, monotonic: () => clock.time }
  const errors: string[] = []
  const log = { ...silentLog, error: (_fields: unknown, message: string) => { errors.push(message) } }
  const start: Scene['start'] = (more = {}) => startCheckpointer({ store: opened.store, home, clock, log, lookEveryMs: 3_600_000, ...more })
  return {
    ...opened, home, clock, errors, start,
    async idle(more) {
      const checkpointer = start(more)
      await checkpointer.checkpointNow()
      return checkpointer
    },
  }
}

const numbers = (lines: readonly string[]): number[] => lines.map((line) => (JSON.parse(line) as Checkpoint).number)

async function all(store: Store): Promise<Checkpoint[]> {
  const found: Checkpoint[] = []
  for await (const checkpoint of store.checkpoints()) found.push(checkpoint)
  return found
}

it('[audit.checkpoint-signed] a checkpoint holds head and count of each chain that moved, signed', async () => {
  const { store, home, idle } = await openScene()
  const checkpointer = await idle()
  const turn = await recordTurn(store)
  const first = await checkpointer.checkpointNow()
  expect(first?.heads.map(({ chain, seq }) => [chain, seq])).toEqual([[turn.execution, 1], [turn.session, 8]])
  expect(checkpointSignatureHolds(first!, home.checkpointPublicKey)).toBe(true)
  expect(checkpointSignatureHolds({ ...first!, at: 1 }, home.checkpointPublicKey)).toBe(false)

  const second = await recordTurn(store, 2_000, turn.session_id)
  expect((await checkpointer.checkpointNow())?.heads.map(({ chain, seq }) => [chain, seq])).toEqual([[second.execution, 1], [turn.session, 16]])
  await checkpointer.stop()
})

it('[audit.checkpoint-in-file] what is in the database is in the file', async () => {
  const { store, home, idle } = await openScene()
  const checkpointer = await idle()
  for (let time = 0; time < 3; time += 1) {
    await recordTurn(store)
    await checkpointer.checkpointNow()
  }
  await checkpointer.stop()
  expect(home.lines().map((line) => JSON.parse(line) as Checkpoint)).toEqual(await all(store))
  expect(numbers(home.lines())).toEqual([1, 2, 3])
})

it('nothing is written while no chain moved', async () => {
  const { store, home, idle } = await openScene()
  const checkpointer = await idle()
  expect(await checkpointer.checkpointNow()).toBeNull()
  await recordTurn(store)
  await checkpointer.checkpointNow()
  expect(await checkpointer.checkpointNow()).toBeNull()
  await checkpointer.stop()
  expect(home.lines()).toHaveLength(1)
})

it('a checkpoint comes when the time has passed, and not before', async () => {
  const { store, clock, start } = await openScene()
  await recordTurn(store)
  const checkpointer = start({ lookEveryMs: 2 })
  await until(async () => (await store.lastCheckpoint()) !== null)
  await recordTurn(store)
  clock.time += 59_999
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(await all(store)).toHaveLength(1)
  clock.time += 1
  await until(async () => (await all(store)).length === 2)
  await checkpointer.stop()
})

it('a clock set back does not put a checkpoint off', async () => {
  const { store, clock, start } = await openScene()
  const checkpointer = start({ lookEveryMs: 2 })
  await recordTurn(store)
  await until(async () => (await store.lastCheckpoint()) !== null)
  clock.time -= 3_600_000
  await recordTurn(store)
  await until(async () => (await store.unsealedRows()) === 0)
  await checkpointer.stop()
})

it('a checkpoint comes when so many rows came', async () => {
  const { store, start } = await openScene()
  const checkpointer = start({ lookEveryMs: 2, everyRows: 20 })
  await recordTurn(store)
  await until(async () => (await store.lastCheckpoint()) !== null)
  await checkpointer.checkpointNow()
  const before = (await all(store)).length
  await recordTurn(store)
  await recordTurn(store)
  await new Promise((resolve) => setTimeout(resolve, 30))
  expect(await all(store)).toHaveLength(before)
  await recordTurn(store)
  await until(async () => (await all(store)).length > before)
  await checkpointer.stop()
})

it('stopping makes a last checkpoint, and none after it', async () => {
  const { store, start, clock } = await openScene()
  const checkpointer = start({ lookEveryMs: 1 })
  await checkpointer.checkpointNow()
  await recordTurn(store)
  await checkpointer.stop()
  await checkpointer.stop()
  const made = (await all(store)).length
  expect(made).toBeGreaterThan(0)
  expect(await store.unsealedRows()).toBe(0)
  await recordTurn(store)
  clock.time += 1e9
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(await all(store)).toHaveLength(made)
})

it('a checkpoint that a crash kept out of the file is added at the next start', async () => {
  const { store, home, start, idle, errors } = await openScene()
  let cut = false
  const appendCheckpointLine = (line: string): Promise<void> => (cut ? Promise.reject(new Error('no space')) : home.appendCheckpointLine(line))
  const crashing = await idle({ home: { ...home, appendCheckpointLine } })
  await recordTurn(store)
  await crashing.checkpointNow()
  cut = true
  await recordTurn(store)
  await expect(crashing.checkpointNow()).rejects.toThrow('no space')
  await crashing.stop()
  expect([(await all(store)).length, home.lines().length]).toEqual([2, 1])

  const next = start()
  await until(() => home.lines().length === 2)
  await recordTurn(store)
  await next.checkpointNow()
  await next.stop()
  expect(home.lines().map((line) => JSON.parse(line) as Checkpoint)).toEqual(await all(store))
  expect(errors.filter((text) => text.includes('do not agree'))).toEqual([])
})

it('a line torn by a crash is written again whole', async () => {
  const { store, home, start, idle } = await openScene()
  const first = await idle()
  await recordTurn(store)
  await first.checkpointNow()
  await first.stop()
  writeFileSync(home.file, `${home.lines()[0]!.slice(0, 50)}\n`)
  const next = start()
  await until(() => home.lines().length === 2)
  await next.stop()
  expect(JSON.parse(home.lines()[1]!)).toEqual((await all(store))[0])
})

it('a file that lacks more than the last checkpoint, or a forged one, is not mended: verify must see it', async () => {
  const { store, home, file, start, idle, errors } = await openScene()
  const first = await idle()
  for (let time = 0; time < 3; time += 1) {
    await recordTurn(store)
    await first.checkpointNow()
  }
  await first.stop()
  writeFileSync(home.file, `${home.lines()[0]!}\n`)
  const second = start()
  await second.checkpointNow()
  expect(errors).toEqual([expect.stringContaining('do not agree')])
  expect(numbers(home.lines())).toEqual([1])
  await recordTurn(store)
  await second.checkpointNow()
  await second.stop()
  expect(numbers(home.lines())).toEqual([1, 4])

  tamper(file, ({ run }) => run(`INSERT INTO checkpoints (number, at, heads, root, signature) VALUES (5, 1, '[]', 'ff', 'AAAA')`))
  const third = start()
  await third.checkpointNow()
  await third.stop()
  expect(numbers(home.lines())).toEqual([1, 4])
})

it('of several processes one takes a number, and file and database agree', async () => {
  const { store, another, home, start, errors } = await openScene()
  const stores = [store, another().store, another().store]
  const checkpointers = stores.map((one) => start({ store: one }))
  for (let time = 0; time < 8; time += 1) {
    await Promise.all(stores.map((one) => recordTurn(one, 1_000 + time)))
    await Promise.all(checkpointers.map((one) => one.checkpointNow()))
  }
  await Promise.all(checkpointers.map((one) => one.stop()))
  const made = await all(store)
  expect(made.map(({ number }) => number)).toEqual(made.map((_, index) => index + 1))
  expect(new Set(numbers(home.lines()))).toEqual(new Set(made.map(({ number }) => number)))
  for (const line of home.lines()) expect(made).toContainEqual(JSON.parse(line))
  expect(await store.unsealedRows()).toBe(0)
  expect(errors).toEqual([])
})

it('more chains than one checkpoint takes are in several', async () => {
  const { store, connection, home, start } = await openScene()
  const checkpointer = start()
  await checkpointer.checkpointNow()
  await connection.atomically(
    Array.from({ length: 5_001 }, (_, index) => sql(`INSERT INTO chains (chain, seq, hash) VALUES (?, 1, 'ff')`, [`session:s_${index}`])),
  )
  await checkpointer.checkpointNow()
  await checkpointer.stop()
  expect((await all(store)).map(({ heads }) => heads.length)).toEqual([5_000, 1])
  expect((await all(store)).every((checkpoint) => checkpointSignatureHolds(checkpoint, createPublicKey(home.checkpointPublicKey)))).toBe(true)
})
