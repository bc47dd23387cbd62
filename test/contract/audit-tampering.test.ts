/* Whatever one does to the record or the rows beside it who may write the database: it is found, and what was done to is named. */
import type { Problem } from '../../core/audit/report'
import { afterTampering, checkpointed, named, openScene, type Deed } from '../support/audit-scene'
import { commitsOf, type Recorded } from '../support/record'
import { tamper } from '../support/tamper'

describe('the record, changed and hashed anew down the chain', () => {
  it('[tamper.changed-row] a changed row is found, with its chain and what the checkpoints still vouch for', async () => {
    const { report, turn } = await afterTampering(({ changeRow }, { session }) => changeRow(session, 5, { actor: 'user:eve' }))
    expect(report.verdict).toBe('broken')
    const text = expect.stringMatching(/row from 1 to 8 .*checkpoint 2 fixed/)
    expect(report.problems).toEqual([{ kind: 'rows_replaced', chain: turn.session, seq: 1, object: turn.session_id, text }])
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
    const text = expect.stringMatching(/row from 5 to 8 .*up to row 4 it is as signed/)
    expect((await scene.verify()).problems).toEqual([expect.objectContaining({ kind: 'rows_replaced', chain, seq: 5, text })])
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
    const text = expect.stringContaining('checkpoint 2 fixed 8 rows')
    expect(named(report, 'chain_shortened')).toEqual([expect.objectContaining({ chain: turn.session, text })])
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
    expect(named(report, 'chain_removed').map(({ chain }) => chain)).toEqual([turn.execution, turn.session])
    expect(report.problems).toHaveLength(2)
  })

  it('every changed chain is named, when the whole record was made anew', async () => {
    const scene = await checkpointed()
    const chains = scene.turns.flatMap(({ session, execution }) => [session, execution])
    tamper(scene.file, ({ changeRow }) => {
      for (const chain of chains) changeRow(chain, 1, { at: 5 })
    })
    expect(new Set(named(await scene.verify(), 'rows_replaced').map(({ chain }) => chain))).toEqual(new Set(chains))
  })
})

describe('the record, changed without care', () => {
  const released = '[{"type":"turn.released","turn_id":"t_1","epoch":1}]'
  it.each<[string, Problem['kind'], Deed]>([
    ['an edited row', 'row_changed', ({ run }, { session }) => run(`UPDATE audit_events SET actor = 'eve' WHERE chain = ? AND seq = 2`, session)],
    ['a deleted row', 'row_missing', ({ run }, { session }) => run('DELETE FROM audit_events WHERE chain = ? AND seq = 2', session)],
    ['a row hashed anew alone', 'row_order', ({ run, changeRow }, { session }) => {
      run('CREATE TEMP TABLE kept AS SELECT * FROM audit_events WHERE chain = ? AND seq > 2', session)
      changeRow(session, 2, { actor: 'user:eve' })
      run('DELETE FROM audit_events WHERE chain = ? AND seq > 2', session)
      run('INSERT INTO audit_events SELECT * FROM kept')
    }],
    ['unreadable changes', 'row_changed', ({ changeRow }, { session }) => changeRow(session, 4, { changes: '[{"type"' })],
    ['changes of no known form', 'row_changed', ({ changeRow }, { session }) => changeRow(session, 4, { changes: '[{"type":"call.proposed"}]' })],
    ['changes of another session', 'row_changed', ({ changeRow }, { execution }) => changeRow(execution, 1, { changes: released })],
    ['an unknown change', 'change_impossible', ({ changeRow }, { session }) => changeRow(session, 4, { changes: '[{"type":"call.blessed"}]' })],
    ['an impossible change', 'change_impossible', ({ changeRow }, { session, call_id }) =>
      changeRow(session, 4, { changes: `[{"type":"call.started","call_id":"${call_id}","from":"denied"}]` })],
    ['a moved head', 'head_differs', ({ run }, { session }) => run('UPDATE chains SET seq = 9 WHERE chain = ?', session)],
    ['a deleted head', 'head_differs', ({ run }, { session }) => run('DELETE FROM chains WHERE chain = ?', session)],
    ['an invented head', 'head_differs', ({ run }) => run(`INSERT INTO chains VALUES ('session:s_none', 3, 'hash', 0)`)],
    ['a chain kept out of checkpoints', 'head_differs', ({ run }, { session }) =>
      run('UPDATE chains SET checkpointed_seq = 99 WHERE chain = ?', session)],
  ])('%s is found', async (_what, kind, work) => {
    const { report } = await afterTampering(work)
    expect(report.verdict).toBe('broken')
    expect(named(report, kind)).not.toEqual([])
  })
})

describe('the rows beside the record', () => {
  // what was done, what is found, to which object, and the statement that does it to that object
  it.each<[string, Problem['kind'], keyof Recorded, string]>([
    ['an edited text', 'text_differs', 'arguments', `UPDATE contents SET text = '{"sku":"gold"}' WHERE content_id = ?`],
    ['an edited digest', 'text_differs', 'result', `UPDATE contents SET digest = 'ff' WHERE content_id = ?`],
    ['a removed text', 'text_missing', 'result', 'DELETE FROM contents WHERE content_id = ?'],
    ['another text in its place', 'state_differs', 'call_id', 'UPDATE calls SET result = arguments WHERE call_id = ?'],
    ['an edited status of a call', 'state_differs', 'call_id', `UPDATE calls SET status = 'failed' WHERE call_id = ?`],
    ['an edited start of a call', 'state_differs', 'call_id', 'UPDATE calls SET started_epoch = 1 WHERE call_id = ?'],
    ['a removed call', 'state_removed', 'call_id', 'DELETE FROM calls WHERE call_id = ?'],
    ['an edited status of a turn', 'state_differs', 'turn_id', `UPDATE turns SET status = 'failed' WHERE turn_id = ?`],
    ['an edited request of a turn', 'state_differs', 'turn_id', 'UPDATE turns SET spec = result WHERE turn_id = ?'],
    ['a lease set back', 'state_differs', 'turn_id', 'UPDATE turns SET lease_epoch = 1 WHERE turn_id = ?'],
    ['an edited status of an approval', 'state_differs', 'approval_id', `UPDATE approval_requests SET status = 'rejected' WHERE approval_id = ?`],
    ['an edited decider', 'state_differs', 'approval_id', `UPDATE approval_requests SET decided_by = 'eve' WHERE approval_id = ?`],
    ['an edited decision', 'state_differs', 'approval_id', `UPDATE approval_requests SET decided = '{}' WHERE approval_id = ?`],
    ['an edited owner', 'state_differs', 'session_id', `UPDATE sessions SET owner = 'user:eve' WHERE session_id = ?`],
    ['an edited execution', 'execution_differs', 'execution_id', `UPDATE executions SET owner = 'user:eve' WHERE execution_id = ?`],
    ['a removed execution', 'execution_removed', 'execution_id', 'DELETE FROM executions WHERE execution_id = ?'],
  ])('%s is found and named', async (_what, kind, object, statement) => {
    const { report, turn } = await afterTampering(({ run }, target) => run(statement, target[object]))
    expect(report).toMatchObject({ verdict: 'broken', problems: [{ kind, object: turn[object] }] })
  })

  it('an edited event of an execution contradicts the record and its own hash', async () => {
    const { report, turn } = await afterTampering(({ run }, { execution_id: id }) => run(`UPDATE executions SET intent = 'x' WHERE execution_id = ?`, id))
    expect(named(report, 'execution_differs').map(({ object }) => object)).toEqual([turn.execution_id, turn.execution_id])
  })

  const call = 'INSERT INTO calls (call_id, turn_id, step, ordinal, function_id, arguments, seal, status, reasons, proposed_at)'
  it.each<[string, Problem['kind'], string, Deed]>([
    ['execution', 'execution_unrecorded', 'x_hand', ({ run }, { execution_id }) => {
      run('CREATE TEMP TABLE hand AS SELECT * FROM executions WHERE execution_id = ?', execution_id)
      run(`UPDATE hand SET execution_id = 'x_hand'`)
      run('INSERT INTO executions SELECT * FROM hand')
    }],
    ['session', 'state_unrecorded', 's_hand', ({ run }) => run(`INSERT INTO sessions VALUES ('s_hand', 'user:ann', NULL, 1)`)],
    ['message', 'state_unrecorded', 'm_hand', ({ run }, { turn_id }) => {
      const columns = `'m_hand', session_id, turn_id, 99, step, role, content, seal, reply, created_at`
      run(`INSERT INTO messages SELECT ${columns} FROM messages WHERE turn_id = ? LIMIT 1`, turn_id)
    }],
    ['call in a recorded turn', 'state_unrecorded', 'c_hand', ({ run }, turn) =>
      run(`${call} VALUES ('c_hand', ?, 9, 9, 'f', ?, '', 'allowed', '[]', 1)`, turn.turn_id, turn.arguments)],
    ['call in no turn', 'state_unrecorded', 'c_hand', ({ run }, turn) =>
      run(`${call} VALUES ('c_hand', 't_none', 9, 9, 'f', ?, '', 'allowed', '[]', 1)`, turn.arguments)],
    ['turn in no session', 'state_unrecorded', 't_hand', ({ run }, turn) => {
      const columns = 'turn_id, session_id, ordinal, execution_id, owner, kind, agent, spec, seal, status, created_at, deadline_at'
      run(`INSERT INTO turns (${columns}) VALUES ('t_hand', 's_none', 1, ?, 'user:ann', 'agent', 'a', '{}', '', 'queued', 1, 1)`, turn.execution_id)
    }],
  ])('a hand-made %s is found and named', async (_what, kind, id, work) => {
    const { report } = await afterTampering(work)
    expect(report.problems).toEqual([expect.objectContaining({ kind, object: id })])
  })
})

it('of very many problems a hundred are told, and the others counted', async () => {
  const { report } = await afterTampering(({ run }) => {
    for (let number = 0; number < 130; number += 1) run(`INSERT INTO sessions VALUES (?, 'user:ann', NULL, 1)`, `s_hand_${number}`)
  })
  expect([report.problems.length, report.more_problems]).toEqual([100, 30])
})
