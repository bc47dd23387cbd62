/* A turn that kills whoever works on it: after three deaths in which nothing got done it is given up, and the others go on. */
import { crashLane, endCrashes, type CrashHome, type Kill, type RunEnd } from '../support/crash-child'
import { readRows, verified } from '../support/crash-check'
import { prepared } from '../support/crash-matrix'
import { readThenWrite, triggeredRefund } from '../support/crash-scripts'

afterAll(endCrashes)

async function dieAndGoOn(home: CrashHome, kill: Kill, times: number): Promise<RunEnd> {
  const lane = crashLane()
  for (let death = 1; death <= times; death += 1) {
    expect(await lane.run(home, { kill })).toMatchObject({ signal: 'SIGKILL' })
    expect(readRows(home).turns).toMatchObject([{ status: 'running' }])
  }
  const end = await lane.run(home)
  await lane.end()
  return end
}

it('[crash-loop.fails] three deaths inside the same model call, with nothing done between them, fail the turn with crash_loop', async () => {
  const home = await prepared(readThenWrite)
  // the first death is none of the three: its claim had delivered the message
  const end = await dieAndGoOn(home, { at: 'model' }, 4)
  expect(end.report?.turns['first']).toMatchObject({ state: 'failed', reason: 'crash_loop' })
  expect(home.trace().filter((line) => 'asked' in line)).toHaveLength(4)
  expect(await verified(home)).toMatchObject({ verdict: 'good', problems: [] })
}, 60_000)

it('[crash-loop.fails] [result.after-failure] three deaths before the first commit fail the turn; its call is answered, never sent', async () => {
  const home = await prepared(triggeredRefund)
  const end = await dieAndGoOn(home, { at: 'commit', when: 'before', label: 'call.judged' }, 3)
  const calls = [{ status: 'denied', result: { error: 'denied' } }]
  expect(end.report?.turns['first']).toMatchObject({ state: 'failed', reason: 'crash_loop', calls })
  expect(home.requests()).toEqual([])
  expect(await verified(home)).toMatchObject({ verdict: 'good', problems: [] })
}, 60_000)

it('[crash-loop.fails] two deaths do not: the turn goes on to its end', async () => {
  const home = await prepared(triggeredRefund)
  const end = await dieAndGoOn(home, { at: 'commit', when: 'before', label: 'call.judged' }, 2)
  expect(end.report?.turns['first']).toMatchObject({ state: 'completed', calls: [{ status: 'succeeded' }] })
  expect(home.requests('shop::refund')).toHaveLength(1)
}, 60_000)

it('[crash-loop.fails] a message that kills whoever takes it up is given up with its turn, and is handed to no other turn', async () => {
  const home = await prepared(readThenWrite)
  const end = await dieAndGoOn(home, { at: 'commit', when: 'before', label: 'message.appended' }, 3)
  expect(end.report?.turns['first']).toMatchObject({ state: 'failed', reason: 'crash_loop' })
  expect(readRows(home)).toMatchObject({ turns: [{ status: 'failed' }], unread: 0 })
  expect(readRows(home).turns).toHaveLength(1)
  expect(home.trace().filter((line) => 'asked' in line)).toEqual([])
  expect(await verified(home)).toMatchObject({ verdict: 'good', problems: [] })
}, 60_000)
