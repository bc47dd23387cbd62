/* Verifying a real database: an honest one is good, also while it is written; whatever one does to it who may write it is found and named. */
import { renameSync, writeFileSync } from 'node:fs'
import { makeCheckpoint } from '../../core/audit/checkpoint'
import type { AuditReport, Problem } from '../../core/audit/report'
import { verifyAudit } from '../../core/audit/verify'
import { startCheckpointer, type Checkpointer } from '../../core/checkpointer'
import { systemClock } from '../../core/clock'
import { silentLog } from '../../core/log'
import { commitsOf, recordTurn, type Recorded } from '../support/record'
import { openTestStore, testHome, type TestHome, type TestStore } from '../support/store'
import { tamper, type Tampering } from '../support/tamper'

interface Scene extends TestStore {
  readonly home: TestHome
  readonly checkpointer: Checkpointer
  verify(home?: Partial<{ lines: AsyncIterable<string> | null; publicKey: string | null }>): Promise<AuditReport>
}

async function openScene(): Promise<Scene> {
  const opened = await openTestStore()
  const home = testHome(opened.folder)
  const checkpointer = startCheckpointer({ store: opened.store, home, clock: systemClock, log: silentLog, lookEveryMs: 3_600_000 })
  // its first look is over: checkpoints come when a test says so
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

/** Three turns in sessions of their own, in two checkpoints; the second turn came after the first checkpoint. */
async function checkpointed(): Promise<Scene & { readonly turns: readonly [Recorded, Recorded, Recorded] }> {
  const scene = await openScene()
  const first = await recordTurn(scene.store)
  await scene.checkpointer.checkpointNow()
  const second = await recordTurn(scene.store)
  const third = await recordTurn(scene.store)
  await scene.checkpointer.checkpointNow()
  return { ...scene, turns: [first, second, third] }
}

async function afterTampering(work: (tampering: Tampering, turn: Recorded) => void): Promise<{ readonly report: AuditReport; readonly turn: Recorded }> {
  const scene = await checkpointed()
  const turn = scene.turns[1]
  tamper(scene.file, (tampering) => work(tampering, turn))
  return { report: await scene.verify(), turn }
}

const named = (report: AuditReport, kind: Problem['kind']): Problem[] => report.problems.filter((problem) => problem.kind === kind)

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
    await scene.store.commit({ actor: 'system', at: 1, session_id: null, changes: [{ type: 'deployment.opened', worker: 'w_1', fingerprint: 'f', version: '1' }] })
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
      for (let turn = 1; turn <= 15; turn += 1) {
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
    const report = await verifyAudit({ reads, checkpointLines: scene.home.readCheckpointLines(), publicKey: scene.home.checkpointPublicKey, laterCheckpoint: async () => null })
    await reads.close()
    expect(report).toMatchObject({ verdict: 'good', rows: 27 })
  })
})

describe('[verify.could-not-tell] what is needed for telling is not there', () => {
  it.each([
    ['the public key', { publicKey: null }, 'public key'],
    ['a readable public key', { publicKey: 'no key' }, 'public key'],
    ['the file of checkpoints', { lines: null }, 'file of checkpoints'],
  ])('without %s it says so', async (_what, without, words) => {
    const report = await (await checkpointed()).verify(without)
    expect(report).toMatchObject({ verdict: 'unknown', problems: [], could_not_tell: [expect.stringContaining(words)] })
  })

  it('without any checkpoint it says so', async () => {
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

describe('the record, changed and hashed anew down the chain', () => {
  it('[tamper.changed-row] a changed row is found, with its chain and what the checkpoints still vouch for', async () => {
    const { report, turn } = await afterTampering(({ changeRow }, { session }) => changeRow(session, 5, { actor: 'user:eve' }))
    expect(report.verdict).toBe('broken')
    expect(report.problems).toEqual([
      { kind: 'rows_replaced', chain: turn.session, seq: 1, object: turn.session_id, text: expect.stringMatching(/row from 1 to 8 .*checkpoint 2 fixed/) },
    ])
  })

  it('[tamper.changed-row] a row between two checkpoints is named as such', async () => {
    const scene = await openScene()
    const commits = [...commitsOf()]
    for (const commit of commits.slice(0, 4)) await scene.store.commit(commit)
    await scene.checkpointer.checkpointNow()
    for (const commit of commits.slice(4)) await scene.store.commit(commit)
    await scene.checkpointer.checkpointNow()
    const chain = `session:${commits[0]!.session_id!}`
    tamper(scene.file, ({ changeRow }) => changeRow(chain, 6, { at: 7 }))
    const report = await scene.verify()
    expect(report.problems).toEqual([expect.objectContaining({ kind: 'rows_replaced', chain, seq: 5, text: expect.stringMatching(/row from 5 to 8 .*up to row 4 it is as signed/) })])
  })

  it('[tamper.removed-row] a removed row is found', async () => {
    const { report, turn } = await afterTampering(({ removeRow }, { session }) => removeRow(session, 3))
    expect(named(report, 'chain_shortened')).toEqual([expect.objectContaining({ chain: turn.session })])
  })

  it('[tamper.removed-row] a removed row is found also when another was put at the end', async () => {
    const { report, turn } = await afterTampering(({ removeRow, run, changeRow }, { session }) => {
      removeRow(session, 3)
      run(`INSERT INTO audit_events SELECT chain, 8, at, actor, '[]', '', '' FROM audit_events WHERE chain = ? AND seq = 1`, session)
      changeRow(session, 8, {})
    })
    expect(named(report, 'rows_replaced')).toEqual([expect.objectContaining({ chain: turn.session })])
  })

  it('[tamper.swapped-pair] a swapped pair is found', async () => {
    const { report, turn } = await afterTampering(({ swapRows }, { session }) => swapRows(session, 2))
    expect(named(report, 'rows_replaced')).toEqual([expect.objectContaining({ chain: turn.session })])
  })

  it('[tamper.truncated-tail] a truncated tail is found up to the last checkpoint', async () => {
    const { report, turn } = await afterTampering(({ truncate }, { session }) => truncate(session, 6))
    expect(named(report, 'chain_shortened')).toEqual([expect.objectContaining({ chain: turn.session, text: expect.stringContaining('checkpoint 2 fixed 8 rows') })])
  })

  it('[tamper.removed-execution] an execution removed with all its rows is found', async () => {
    const { report, turn } = await afterTampering(({ removeExecution }, { execution_id }) => removeExecution(execution_id))
    expect(named(report, 'chain_removed')).toEqual([expect.objectContaining({ chain: turn.execution, object: turn.execution_id })])
  })

  it('[tamper.removed-execution] a session removed with all it led to is found', async () => {
    const { report, turn } = await afterTampering(({ removeExecution, truncate, run }, { execution_id, session, session_id }) => {
      removeExecution(execution_id)
      truncate(session, 0)
      run('DELETE FROM sessions WHERE session_id = ?', session_id)
    })
    expect(report.problems.map(({ kind, chain }) => [kind, chain]).sort()).toEqual([['chain_removed', turn.execution], ['chain_removed', turn.session]])
  })

  it('every changed chain is named, when the whole record was made anew', async () => {
    const scene = await checkpointed()
    tamper(scene.file, ({ changeRow }) => scene.turns.forEach(({ session, execution }) => [session, execution].forEach((chain) => changeRow(chain, 1, { at: 5 }))))
    const report = await scene.verify()
    expect(new Set(named(report, 'rows_replaced').map(({ chain }) => chain))).toEqual(new Set(scene.turns.flatMap(({ session, execution }) => [session, execution])))
  })
})

describe('the record, changed without care', () => {
  it.each<[string, Problem['kind'], (tampering: Tampering, turn: Recorded) => void]>([
    ['an edited row', 'row_changed', ({ run }, { session }) => run(`UPDATE audit_events SET actor = 'user:eve' WHERE chain = ? AND seq = 2`, session)],
    ['a deleted row', 'row_missing', ({ run }, { session }) => run('DELETE FROM audit_events WHERE chain = ? AND seq = 2', session)],
    ['a row hashed anew alone', 'row_order', ({ run, changeRow }, { session }) => {
      run('CREATE TEMP TABLE kept AS SELECT * FROM audit_events WHERE chain = ? AND seq > 2', session)
      changeRow(session, 2, { actor: 'user:eve' })
      run('DELETE FROM audit_events WHERE chain = ? AND seq > 2', session)
      run('INSERT INTO audit_events SELECT * FROM kept')
    }],
    ['unreadable changes', 'row_changed', ({ changeRow }, { session }) => changeRow(session, 4, { changes: '[{"type"' })],
    ['changes of no known form', 'row_changed', ({ changeRow }, { session }) => changeRow(session, 4, { changes: '[{"type":"call.proposed"}]' })],
    ['changes of another session', 'row_changed', ({ changeRow }, { execution }) => changeRow(execution, 1, { changes: '[{"type":"turn.released","turn_id":"t_1"}]' })],
    ['an unknown change', 'change_impossible', ({ changeRow }, { session }) => changeRow(session, 4, { changes: '[{"type":"call.blessed"}]' })],
    ['an impossible change', 'change_impossible', ({ changeRow }, { session, call_id }) =>
      changeRow(session, 4, { changes: `[{"type":"call.started","call_id":"${call_id}","from":"denied"}]` })],
    ['a moved head', 'head_differs', ({ run }, { session }) => run('UPDATE chains SET seq = 9 WHERE chain = ?', session)],
    ['a deleted head', 'head_differs', ({ run }, { session }) => run('DELETE FROM chains WHERE chain = ?', session)],
    ['an invented head', 'head_differs', ({ run }) => run(`INSERT INTO chains VALUES ('session:s_none', 3, 'hash', 0)`)],
    ['a chain kept out of checkpoints', 'head_differs', ({ run }, { session }) => run('UPDATE chains SET checkpointed_seq = 99 WHERE chain = ?', session)],
  ])('%s is found', async (_what, kind, work) => {
    const { report } = await afterTampering(work)
    expect(report.verdict).toBe('broken')
    expect(named(report, kind)).not.toEqual([])
  })
})

describe('the rows beside the record', () => {
  it.each<[string, Problem['kind'], keyof Recorded, (tampering: Tampering, turn: Recorded) => void]>([
    ['an edited text', 'text_differs', 'arguments', ({ run }, turn) => run(`UPDATE contents SET text = '{"sku":"gold"}' WHERE content_id = ?`, turn.arguments)],
    ['an edited digest', 'text_differs', 'result', ({ run }, turn) => run(`UPDATE contents SET digest = 'ff' WHERE content_id = ?`, turn.result)],
    ['a removed text', 'text_missing', 'result', ({ run }, turn) => run('DELETE FROM contents WHERE content_id = ?', turn.result)],
    ['another text in its place', 'state_differs', 'call_id', ({ run }, turn) => run('UPDATE calls SET result = ? WHERE call_id = ?', turn.question, turn.call_id)],
    ['an edited status of a call', 'state_differs', 'call_id', ({ run }, turn) => run(`UPDATE calls SET status = 'failed' WHERE call_id = ?`, turn.call_id)],
    ['an edited status of a turn', 'state_differs', 'turn_id', ({ run }, turn) => run(`UPDATE turns SET status = 'failed' WHERE turn_id = ?`, turn.turn_id)],
    ['an edited status of an approval', 'state_differs', 'approval_id', ({ run }, turn) => run(`UPDATE approval_requests SET status = 'rejected' WHERE approval_id = ?`, turn.approval_id)],
    ['an edited decision', 'state_differs', 'approval_id', ({ run }, turn) => run(`UPDATE approval_requests SET decided_by = 'eve' WHERE approval_id = ?`, turn.approval_id)],
    ['an edited owner', 'state_differs', 'session_id', ({ run }, turn) => run(`UPDATE sessions SET owner = 'user:eve' WHERE session_id = ?`, turn.session_id)],
    ['a removed call', 'state_removed', 'call_id', ({ run }, turn) => run('DELETE FROM calls WHERE call_id = ?', turn.call_id)],
    ['an edited execution', 'execution_differs', 'execution_id', ({ run }, turn) => run(`UPDATE executions SET intent = 'run_function' WHERE execution_id = ?`, turn.execution_id)],
    ['a removed row of an execution', 'execution_removed', 'execution_id', ({ run }, turn) => run('DELETE FROM executions WHERE execution_id = ?', turn.execution_id)],
  ])('%s is found and named', async (_what, kind, object, work) => {
    const { report, turn } = await afterTampering(work)
    expect(report.verdict).toBe('broken')
    expect(named(report, kind).map((problem) => problem.object)).toEqual(kind === 'execution_differs' ? [turn[object], turn[object]] : [turn[object]])
  })

  it.each<[string, Problem['kind'], string, (tampering: Tampering, turn: Recorded) => void]>([
    ['execution', 'execution_unrecorded', 'x_hand', ({ run }, turn) =>
      run(`INSERT INTO executions SELECT 'x_hand', source_type, source_id, actor_type, actor_id, intent, payload, allow_cloud, require_audit, risk_level, event_hash,
           corrects_execution_id, session_id, turn_id, owner, created_at FROM executions WHERE execution_id = ?`, turn.execution_id)],
    ['session', 'state_unrecorded', 's_hand', ({ run }) => run(`INSERT INTO sessions VALUES ('s_hand', 'user:ann', NULL, 1)`)],
    ['message', 'state_unrecorded', 'm_hand', ({ run }, turn) =>
      run(`INSERT INTO messages SELECT 'm_hand', session_id, turn_id, 99, step, role, content, seal, reply, created_at FROM messages WHERE turn_id = ? LIMIT 1`, turn.turn_id)],
    ['call in a recorded turn', 'state_unrecorded', 'c_hand', ({ run }, turn) =>
      run(`INSERT INTO calls (call_id, turn_id, step, ordinal, function_id, arguments, seal, status, reasons, proposed_at) VALUES ('c_hand', ?, 9, 9, 'f', ?, '', 'allowed', '[]', 1)`,
        turn.turn_id, turn.arguments)],
    ['call in no turn', 'state_unrecorded', 'c_hand', ({ run }, turn) =>
      run(`INSERT INTO calls (call_id, turn_id, step, ordinal, function_id, arguments, seal, status, reasons, proposed_at) VALUES ('c_hand', 't_none', 9, 9, 'f', ?, '', 'allowed', '[]', 1)`,
        turn.arguments)],
    ['turn in no session', 'state_unrecorded', 't_hand', ({ run }, turn) =>
      run(`INSERT INTO turns (turn_id, session_id, ordinal, execution_id, owner, kind, agent, spec, seal, status, created_at, deadline_at)
           VALUES ('t_hand', 's_none', 1, ?, 'user:ann', 'agent', 'a', '{}', '', 'queued', 1, 1)`, turn.execution_id)],
  ])('a hand-made %s is found and named', async (_what, kind, id, work) => {
    const { report } = await afterTampering(work)
    expect(report.problems).toEqual([expect.objectContaining({ kind, object: id })])
  })
})

describe('the checkpoints', () => {
  it.each<[string, Problem['kind'], (tampering: Tampering) => void]>([
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
    tamper(file, ({ run }) => run('UPDATE checkpoints SET at = ?, root = ?, signature = ? WHERE number = 2', forged.at, forged.root, forged.signature))
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
