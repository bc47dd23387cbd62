/* What becomes of a held call while its process is dead: a person decides by another process, or somebody writes into the database. */
import Database from 'better-sqlite3'
import { generateKeyPairSync } from 'node:crypto'
import { crashLane, endCrashes, type CrashHome, type Lane } from '../support/crash-child'
import { checkAlways, checkEnd, cutCalls, readRows, verified } from '../support/crash-check'
import { prepared } from '../support/crash-matrix'
import { approvedRefund, rejectedRefund, triggeredRefund, type CrashScript, type PersonStep } from '../support/crash-scripts'
import type { Decision, SignedDecision } from '../../core/approvals/approval'
import { signDecision } from '../../core/approvals/decide'
import { openHome } from '../../core/home'
import { silentLog } from '../../core/log'
import { scriptedModel } from '../../core/model/scripted'
import { openHarness, type OpenHarness } from '../../core/open-harness'

afterAll(endCrashes)

/** What the client does that asked for the turn; nobody of it decides. */
const clientSteps = (script: CrashScript, after: PersonStep): PersonStep[] => [script.steps[0]!, after]

async function dieHeld(home: CrashHome, lane: Lane): Promise<void> {
  const steps = clientSteps(home.script, { do: 'until_held', of: 'first' })
  expect(await lane.run(home, { steps, kill: { at: 'commit', when: 'after', label: 'turn.parked' } })).toMatchObject({ signal: 'SIGKILL' })
  expect(readRows(home)).toMatchObject({ turns: [{ status: 'awaiting_functions', park: 'approval' }], calls: [{ status: 'held' }] })
}

/** This process, beside the home's worker: it writes and reads rows and runs nothing. */
async function beside(home: CrashHome, work: (harness: OpenHarness) => Promise<void>): Promise<void> {
  const harness = await openHarness({
    home: await openHome(home.folder), env: {}, log: silentLog, program: 'command', worker: false, model: scriptedModel([{}]),
  })
  try {
    await work(harness)
  } finally {
    await harness.close()
  }
}

const answer = (decision: Decision): Omit<SignedDecision, 'signature' | 'channel'> & { channel: 'command_line' } => ({
  decision, approver: 'alice', decided_at: Date.now(), reason: decision === 'reject' ? 'Not without a receipt.' : null, channel: 'command_line',
})

async function decideBeside(home: CrashHome, decision: Decision): Promise<void> {
  await beside(home, async (harness) => {
    const caller = harness.localCaller('crash-test')
    const [open] = (await harness.list_approvals({ status: 'pending' }, caller)).approvals
    const { approval_id, approval_digest } = await harness.get_approval({ approval_id: open!.approval_id }, caller)
    await harness.decide_approval({ approval_id, ...signDecision(home.key, approval_digest, answer(decision)) }, caller)
  })
}

it.each([
  ['approved', approvedRefund, 'approve', 1], ['rejected', rejectedRefund, 'reject', 0], ['approved without a model', triggeredRefund, 'approve', 1],
] as const)('[home.one-worker] a call %s by another process while its own is dead is obeyed by the next', async (_name, script, decision, sent) => {
  const home = await prepared(script)
  const lane = crashLane()
  await dieHeld(home, lane)
  await decideBeside(home, decision)
  expect(home.requests()).toEqual([])
  // and once more: the decision is there, the process that carries it out dies as it takes the turn up
  const steps = clientSteps(script, { do: 'until_over' })
  expect(await lane.run(home, { steps, kill: { at: 'commit', when: 'after', label: 'turn.claimed' } })).toMatchObject({ signal: 'SIGKILL' })
  const rows = readRows(home)
  const end = await lane.run(home, { steps })
  await lane.end()
  expect(await checkEnd(home, end, { killed: true, cut: new Set(cutCalls(rows)) })).toEqual([])
  expect(home.requests('shop::refund')).toHaveLength(sent)
}, 60_000)

const stranger = generateKeyPairSync('ed25519').privateKey

/** What somebody writes who may write the database and has no key. Every one also wakes the turn. */
const forgeries: readonly (readonly [string, (database: Database.Database, home: CrashHome) => void])[] = [
  ['approved in its row, signed with another key', (database) => {
    setApproved(database, signDecision(stranger, digestIn(database), answer('approve')))
  }],
  ['approved in its row, with the signature of a rejection', (database, home) => {
    setApproved(database, { ...signDecision(home.key, digestIn(database), answer('reject')), decision: 'approve', reason: null })
  }],
  ['set to allowed', (database) => { database.prepare(`UPDATE calls SET status = 'allowed'`).run() }],
  ['set to started under the lease that comes next', (database) => {
    database.prepare(`UPDATE calls SET status = 'started', started_epoch = (SELECT lease_epoch + 1 FROM turns), attempts = 1`).run()
  }],
  ['set to allowed and freed of its approval', (database) => { database.prepare(`UPDATE calls SET status = 'allowed', approval_id = NULL`).run() }],
]

function digestIn(database: Database.Database): string {
  return (database.prepare('SELECT approval_digest FROM approval_requests').get() as { approval_digest: string }).approval_digest
}

function setApproved(database: Database.Database, decided: SignedDecision): void {
  database.prepare(`UPDATE approval_requests SET status = 'approved', decided = ?, decided_by = 'alice'`).run(JSON.stringify(decided))
}

it.each(forgeries)('[crash.nothing-unallowed] a held call that is %s while its process is dead is not sent by the next one', async (_name, forge) => {
  const home = await prepared(approvedRefund)
  const lane = crashLane()
  await dieHeld(home, lane)
  const database = new Database(home.databasePath)
  forge(database, home)
  database.prepare('UPDATE turns SET wake_at = 1').run()
  database.close()
  // killed again in the middle of it: what was forged is not believed the second time either
  await lane.run(home, { steps: clientSteps(home.script, { do: 'wait', ms: 700 }), kill: { at: 'commit', when: 'after', label: 'turn.claimed' } })
  const end = await lane.run(home, { steps: clientSteps(home.script, { do: 'wait', ms: 700 }) })
  await lane.end()
  expect(home.requests()).toEqual([])
  expect(['denied', 'failed', 'held', 'interrupted']).toContain(end.report?.turns['first']?.calls[0]?.status)
  expect(await verified(home)).toMatchObject({ verdict: 'broken' })
  expect(checkAlways(home, readRows(home))).toEqual([])
}, 60_000)
