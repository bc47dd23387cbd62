/* A long record is verified in little memory and time: sorted streams are read side by side, one chain at a time. */
import { runInNewContext } from 'node:vm'
import { setFlagsFromString } from 'node:v8'
import { verifyAudit, type AuditReads } from '../../core/audit/verify'
import { startCheckpointer } from '../../core/checkpointer'
import { systemClock } from '../../core/clock'
import { silentLog } from '../../core/log'
import { fillStore } from '../support/fill'
import { openTestStore, testHome } from '../support/store'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const heapUsed = (): number => {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

/** Of this process, in ms: what else the machine does hardly counts. */
const cpuTime = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

/** Reads that note, every now and then, how much memory is in use. */
function watched(reads: AuditReads, note: () => void): AuditReads {
  return {
    ...reads,
    async *auditRows() {
      let rows = 0
      for await (const row of reads.auditRows()) {
        rows += 1
        if (rows % 5_000 === 0) note()
        yield row
      }
    },
    async *checkpoints() {
      for await (const checkpoint of reads.checkpoints()) {
        note()
        yield checkpoint
      }
    },
  }
}

it('100,000 rows are verified in less than 80 MB, and in time of the order of writing them', async () => {
  const { store, file, folder } = await openTestStore()
  const written = cpuTime()
  fillStore(file, { sessions: 4_500, longSession: 500, deployment: 55_000 })
  const writing = cpuTime() - written
  const home = testHome(folder)
  await startCheckpointer({ store, home, clock: systemClock, log: silentLog, lookEveryMs: 3_600_000 }).stop()

  let most = 0
  const before = heapUsed()
  const started = cpuTime()
  const reads = await store.auditSnapshot()
  const report = await verifyAudit({
    reads: watched(reads, () => { most = Math.max(most, heapUsed() - before) }),
    checkpointLines: home.readCheckpointLines(),
    publicKey: home.checkpointPublicKey,
    laterCheckpoint: (number) => store.checkpointNumbered(number),
  })
  await reads.close()
  expect(report).toMatchObject({ verdict: 'good', rows: 100_000, chains: 9_502, unsealed_rows: 0 })
  expect(most / 2 ** 20).toBeLessThan(80)
  expect((cpuTime() - started) / writing).toBeLessThan(4)
}, 300_000)
