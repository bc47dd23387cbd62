/* A long record is verified in little memory and time: sorted streams are read side by side, one chain at a time. */
import { runInNewContext } from 'node:vm'
import { setFlagsFromString } from 'node:v8'
import type { AuditReads } from '../../core/audit/verify'
import { verifyAudit } from '../../core/audit/verify'
import { startCheckpointer } from '../../core/checkpointer'
import { systemClock } from '../../core/clock'
import { silentLog } from '../../core/log'
import { fillStore } from '../support/fill'
import { openTestStore, testHome } from '../support/store'
import { tamper } from '../support/tamper'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const heapUsed = (): number => {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

/** Reads that note, every few thousand rows, how much memory is in use. */
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

it('100,000 rows are verified in less than 80 MB, and one changed row among them is found', async () => {
  const { store, file, folder } = await openTestStore()
  fillStore(file, { sessions: 9_200, longSession: 2_000 })
  const home = testHome(folder)
  const checkpointer = startCheckpointer({ store, home, clock: systemClock, log: silentLog, lookEveryMs: 3_600_000 })
  await checkpointer.stop()

  let most = 0
  const before = heapUsed()
  const verify = async (note: () => void): ReturnType<typeof verifyAudit> => {
    const reads = await store.auditSnapshot()
    try {
      return await verifyAudit({
        reads: watched(reads, note), checkpointLines: home.readCheckpointLines(), publicKey: home.checkpointPublicKey,
        laterCheckpoint: (number) => store.checkpointNumbered(number),
      })
    } finally {
      await reads.close()
    }
  }
  const started = performance.now()
  expect(await verify(() => undefined)).toMatchObject({ verdict: 'good', rows: 100_800, chains: 20_401, unsealed_rows: 0 })
  expect(performance.now() - started).toBeLessThan(30_000)
  await verify(() => { most = Math.max(most, heapUsed() - before) })
  process.stderr.write(JSON.stringify({ms: performance.now()-started, most: most/2**20})+'\n')
  expect(most / 2 ** 20).toBeLessThan(80)

  const chain = (await store.headsSinceCheckpoint())[0]?.chain ?? (await firstSession(store))
  tamper(file, ({ changeRow }) => changeRow(chain, 4, { at: 2 }))
  expect((await verify(() => undefined)).problems).toEqual([expect.objectContaining({ kind: 'rows_replaced', chain })])
}, 120_000)

async function firstSession(store: Awaited<ReturnType<typeof openTestStore>>['store']): Promise<string> {
  for await (const { chain, seq } of store.chainHeads()) if (chain.startsWith('session:') && seq === 8) return chain
  throw new Error('no session')
}
