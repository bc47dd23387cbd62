/* A second process on the same database waits while the first one works, and goes on with its turns the moment it is killed. */
import { setTimeout as wait } from 'node:timers/promises'
import { checkEnd, cutCalls, readRows } from '../support/crash-check'
import { crashLane, crashServer, endCrashes } from '../support/crash-child'
import { prepared } from '../support/crash-matrix'
import { readThenWrite } from '../support/crash-scripts'

afterAll(endCrashes)

it('[lease.dead-owner-replaced] [home.one-worker] [crash.request-to-answer] a process that stands by runs the turns as soon as the one that held the database is killed', async () => {
  const home = await prepared(readThenWrite)
  const server = await crashServer()
  server.hold(home.pathOf('shop::note'))
  const [first, second] = [crashLane(), crashLane()]
  const dying = first.run(home)
  for (const end = performance.now() + 20_000; home.requests('shop::note').length === 0 && performance.now() < end; ) await wait(5)
  const standingBy = second.run(home)
  await wait(1_000)
  expect(home.requests('shop::note')).toHaveLength(1)
  server.plan(home.pathOf('shop::note'), { kind: 'answer' })

  first.kill()
  expect(await dying).toMatchObject({ signal: 'SIGKILL' })
  const killedAt = Date.now()
  const rows = readRows(home)
  const end = await standingBy
  await second.end()
  const leaseUntil = rows.worker?.lease_until ?? 0
  expect(leaseUntil).toBeGreaterThan(killedAt)
  expect(end.report?.working_at).toBeGreaterThanOrEqual(killedAt - 50)
  // it found the first one at work, and did not wait for the end of its lease
  expect(end.report?.stood_by).toBe(true)
  expect(end.report?.working_at).toBeLessThan(leaseUntil)
  const findings = await checkEnd(home, end, { killed: true, cut: new Set(cutCalls(rows)) })
  expect(findings.filter((finding) => finding.promise !== 'lease.dead-owner-replaced')).toEqual([])
}, 60_000)
