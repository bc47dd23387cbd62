/* An honest database is good, also while it is written; what is needed for telling must be there; and checkpoints are what they were. */
import { renameSync, writeFileSync } from 'node:fs'
import { makeCheckpoint } from '../../core/audit/checkpoint'
import type { AuditReport, Problem } from '../../core/audit/report'
import { verifyAudit } from '../../core/audit/verify'
import { startCheckpointer } from '../../core/checkpointer'
import { systemClock } from '../../core/clock'
import { silentLog } from '../../core/log'
import { afterTampering, checkpointed, named, openScene, type Deed } from '../support/audit-scene'
import { commitsOf, recordTurn } from '../support/record'
import { testHome, type TestStore } from '../support/store'
import { tamper } from '../support/tamper'

describe('an honest database', () => {
  it('[verify.good] is good, with its counts', async () => {
    const scene = await checkpointed()
    expect(await scene.verify()).toEqual({
      verdict: 'good', rows: 27, chains: 6, checkpoints: 2, erased_texts: 0, unsealed_rows: 0, problems: [], more_problems: 0, could_not_tell: [],
    })
  })

  it('is good when nothing was recorded yet', async () => {
    const scene = await openScene()
    expect(await scene.verify({ lines: null })).toMatchObject({ verdict: 'good', rows: 0, checkpoints: 0 })
  })

  it('is good after each single commit, and rows after the last checkpoint are counted', async () => {
    const scene = await openScene()
    const opened = { type: 'deployment.opened' as const, worker: 'w_1', fingerprint: 'f', version: '1' }
    await scene.store.commit({ actor: 'system', at: 1, session_id: null, changes: [opened] })
    await scene.checkpointer.checkpointNow()
    let unsealed = 0
    for (const commit of commitsOf()) {
      await scene.store.commit(commit)
      unsealed += commit.changes.some(({ type }) => type === 'execution.accepted') ? 2 : 1
      expect(await scene.verify()).toMatchObject({ verdict: 'good', problems: [], unsealed_rows: unsealed })
    }
  })

  it('[audit.erasure-keeps-chain] is good after texts were erased, and says how many', async () => {
    const scene = await checkpointed()
    await scene.connection.atomically([
      { text: 'UPDATE contents SET text = NULL WHERE content_id IN (?, ?)', values: [scene.turns[0].question, scene.turns[1].result] },
    ])
    expect(await scene.verify()).toMatchObject({ verdict: 'good', erased_texts: 2 })
  })

  it('is good while others write and make checkpoints', async () => {
    const scene = await openScene()
    await recordTurn(scene.store)
    await scene.checkpointer.checkpointNow()
    const other = scene.another()
    const second = startCheckpointer({ store: other.store, home: scene.home, clock: systemClock, log: silentLog, everyRows: 10, lookEveryMs: 5 })
    const write = async (store: TestStore['store']): Promise<void> => {
      const { session_id } = await recordTurn(store)
      for (let turn = 1; turn <= 5; turn += 1) {
        await recordTurn(store, 2_000 + 10 * turn, turn % 3 === 0 ? session_id : undefined)
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
    }
    let writing = true
    const writers = Promise.all([write(scene.store), write(other.store)]).finally(() => { writing = false })
    const reports: AuditReport[] = []
    while (writing) {
      reports.push(await scene.verify())
      await scene.checkpointer.checkpointNow()
    }
    await writers
    await second.stop()
    expect(reports.flatMap(({ problems, could_not_tell }) => [...problems, ...could_not_tell])).toEqual([])
    expect(reports.at(-1)!.rows).toBeGreaterThan(reports[0]!.rows)
    expect(await scene.verify()).toMatchObject({ verdict: 'good', problems: [], unsealed_rows: 0 })
  })

  it('does not keep writers waiting while it is read', async () => {
    const scene = await checkpointed()
    const reads = await scene.store.auditSnapshot()
    await recordTurn(scene.store)
    const { home } = scene
    const input = { reads, checkpointLines: home.readCheckpointLines(), publicKey: home.checkpointPublicKey }
    const report = await verifyAudit({ ...input, laterCheckpoint: () => Promise.resolve(null) })
    await reads.close()
    expect(report).toMatchObject({ verdict: 'good', rows: 27 })
  })
})

describe('what is needed for telling is not there', () => {
  it.each([
    ['the public key', { publicKey: null }, 'public key'],
    ['a readable public key', { publicKey: 'no key' }, 'public key'],
    ['the file of checkpoints', { lines: null }, 'file of checkpoints'],
  ])('[verify.could-not-tell] without %s it says so', async (_what, without, words) => {
    const report = await (await checkpointed()).verify(without)
    expect(report).toMatchObject({ verdict: 'unknown', problems: [], could_not_tell: [expect.stringContaining(words)] })
  })

  it('[verify.could-not-tell] without any checkpoint it says so', async () => {
    const scene = await openScene()
    await recordTurn(scene.store)
    expect(await scene.verify()).toMatchObject({ verdict: 'unknown', could_not_tell: [expect.stringContaining('no checkpoint yet')] })
  })

  it('[verify.broken] but what is broken is broken', async () => {
    const scene = await checkpointed()
    tamper(scene.file, ({ run }) => run('UPDATE calls SET status = ? WHERE call_id = ?', 'failed', scene.turns[0].call_id))
    expect(await scene.verify({ lines: null, publicKey: null })).toMatchObject({ verdict: 'broken' })
  })
})

describe('the checkpoints', () => {
  it.each<[string, Problem['kind'], Deed]>([
    ['edited heads', 'checkpoint_changed', ({ run }) => run(`UPDATE checkpoints SET heads = replace(heads, '"seq":8', '"seq":7') WHERE number = 1`)],
    ['unreadable heads', 'checkpoint_changed', ({ run }) => run(`UPDATE checkpoints SET heads = '[{' WHERE number = 1`)],
    ['an edited root', 'checkpoint_forged', ({ run }) => run(`UPDATE checkpoints SET root = 'ff' WHERE number = 1`)],
    ['an edited time', 'checkpoint_forged', ({ run }) => run('UPDATE checkpoints SET at = 1 WHERE number = 1')],
    ['an edited signature', 'checkpoint_forged', ({ run }) => run(`UPDATE checkpoints SET signature = 'AAAA' WHERE number = 2`)],
    ['a dropped one', 'checkpoint_removed', ({ run }) => run('DELETE FROM checkpoints WHERE number = 1')],
    ['a dropped last one', 'checkpoint_removed', ({ dropCheckpoints }) => dropCheckpoints(2)],
    ['all of them dropped', 'checkpoint_removed', ({ dropCheckpoints }) => dropCheckpoints(1)],
  ])('%s in the database: found', async (_what, kind, work) => {
    const { report } = await afterTampering(work)
    expect(report.verdict).toBe('broken')
    expect(named(report, kind)).not.toEqual([])
    // a forged checkpoint accuses no chain
    expect(named(report, 'rows_replaced')).toEqual([])
  })

  it('dropped from the database, the file still names the chain that was changed', async () => {
    const { report, turn } = await afterTampering(({ dropCheckpoints, changeRow }, { session }) => {
      dropCheckpoints(1)
      changeRow(session, 2, { actor: 'user:eve' })
    })
    expect(named(report, 'rows_replaced')).toEqual([expect.objectContaining({ chain: turn.session })])
  })

  it('made anew with another key: found', async () => {
    const { store, file, folder, verify } = await checkpointed()
    const last = await store.lastCheckpoint()
    const forged = makeCheckpoint(await store.checkpointNumbered(1), last!.heads, 5, testHome(folder).checkpointPrivateKey)
    const { at, root, signature } = forged
    tamper(file, ({ run }) => run('UPDATE checkpoints SET at = ?, root = ?, signature = ? WHERE number = 2', at, root, signature))
    expect((await verify()).problems.map(({ kind }) => kind)).toEqual(['checkpoint_forged', 'checkpoint_changed'])
  })

  it('fewer in the file than in the database: found, but for the last one, which a crash may have cut off', async () => {
    const scene = await checkpointed()
    await recordTurn(scene.store)
    await scene.checkpointer.checkpointNow()
    const lines = scene.home.lines()
    const write = (...kept: string[]): void => writeFileSync(scene.home.file, kept.map((line) => `${line}\n`).join(''))
    write(...lines.slice(0, 2))
    expect(await scene.verify()).toMatchObject({ verdict: 'good' })
    write(...lines.slice(0, 2), lines[2]!.slice(0, 40))
    expect(await scene.verify()).toMatchObject({ verdict: 'good' })
    write(lines[0]!)
    expect((await scene.verify()).problems).toEqual([expect.objectContaining({ kind: 'checkpoint_not_in_file', object: '2' })])
    write(lines[0]!, lines[2]!)
    expect((await scene.verify()).problems).toEqual([expect.objectContaining({ kind: 'checkpoint_not_in_file', object: '2' })])
    write(lines[0]!, lines[1]!.replace('"seq":8', '"seq":7'), lines[2]!)
    expect((await scene.verify()).problems).toEqual([expect.objectContaining({ kind: 'checkpoint_changed', object: '2' })])
    write(lines[0]!, lines[2]!, lines[1]!, lines[2]!)
    expect(await scene.verify()).toMatchObject({ verdict: 'good' })
  })

  it('of another home: found', async () => {
    const [scene, other] = [await checkpointed(), await checkpointed()]
    renameSync(other.home.file, scene.home.file)
    expect(await scene.verify()).toMatchObject({ verdict: 'broken' })
    expect(await scene.verify({ publicKey: other.home.checkpointPublicKey })).toMatchObject({ verdict: 'broken' })
  })
})
