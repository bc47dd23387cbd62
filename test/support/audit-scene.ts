/* A database with its home and checkpoints, to be verified as it is or after tampering. */
import { verifyAudit } from '../../core/audit/verify'
import type { AuditReport, Problem } from '../../core/audit/report'
import { startCheckpointer, type Checkpointer } from '../../core/checkpointer'
import { systemClock } from '../../core/clock'
import { silentLog } from '../../core/log'
import { recordTurn, type Recorded } from './record'
import { openTestStore, testHome, type TestHome, type TestStore } from './store'
import { tamper, type Tampering } from './tamper'

export interface AuditScene extends TestStore {
  readonly home: TestHome
  readonly checkpointer: Checkpointer
  /** With the file and key of the home, unless others are given. */
  verify(given?: { readonly lines?: AsyncIterable<string> | null; readonly publicKey?: string | null }): Promise<AuditReport>
}

/** An empty database. Checkpoints come when a test asks for them. */
export async function openScene(): Promise<AuditScene> {
  const opened = await openTestStore()
  const home = testHome(opened.folder)
  const checkpointer = startCheckpointer({ store: opened.store, home, clock: systemClock, log: silentLog, lookEveryMs: 3_600_000 })
  // its first look is over
  await checkpointer.checkpointNow()
  return {
    ...opened, home, checkpointer,
    async verify({ lines = home.readCheckpointLines(), publicKey = home.checkpointPublicKey } = {}) {
      const reads = await opened.store.auditSnapshot()
      try {
        return await verifyAudit({ reads, checkpointLines: lines, publicKey, laterCheckpoint: (number) => opened.store.checkpointNumbered(number) })
      } finally {
        await reads.close()
      }
    },
  }
}

/** Three turns in sessions of their own: one before the first checkpoint, two between it and the second. */
export async function checkpointed(): Promise<AuditScene & { readonly turns: readonly [Recorded, Recorded, Recorded] }> {
  const scene = await openScene()
  const first = await recordTurn(scene.store)
  await scene.checkpointer.checkpointNow()
  const second = await recordTurn(scene.store)
  const third = await recordTurn(scene.store)
  await scene.checkpointer.checkpointNow()
  return { ...scene, turns: [first, second, third] }
}

export type Deed = (tampering: Tampering, turn: Recorded) => void

/** What verifying says after `work` was done to the second turn of such a database. */
export async function afterTampering(work: Deed): Promise<{ readonly report: AuditReport; readonly turn: Recorded }> {
  const scene = await checkpointed()
  const turn = scene.turns[1]
  tamper(scene.file, (tampering) => work(tampering, turn))
  return { report: await scene.verify(), turn }
}

export function named(report: AuditReport, kind: Problem['kind']): Problem[] {
  return report.problems.filter((problem) => problem.kind === kind)
}
