/* A second process on the same database waits while the first one works, and goes on with its turns the moment it is killed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { checkEnd, cutCalls, readRows } from '../support/crash-check'
import { crashLane, crashServer, endCrashes, soon } from '../support/crash-child'
import { prepared } from '../support/crash-matrix'
import { readThenWrite } from '../support/crash-scripts'
import { isProvablyDead, thisProcess } from '../../core/host-process'

afterAll(endCrashes)

it('[lease.dead-owner-replaced] a process that stands by runs the turns as soon as the one that held the database is killed', async () => {
  const home = await prepared(readThenWrite)
  const server = await crashServer()
  server.hold(home.pathOf('shop::note'))
  const [first, second] = [crashLane(), crashLane()]
  const dying = first.run(home)
  await Promise.race([dying, soon(() => home.requests('shop::note').length > 0)])
  const standingBy = second.run(home)
  await Promise.race([standingBy, soon(() => home.trace().some((line) => 'stands_by' in line))])
  expect(home.requests('shop::note')).toHaveLength(1)
  server.plan(home.pathOf('shop::note'), { kind: 'answer' })

  await first.kill()
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

const onLinux = process.platform === 'linux' ? it : it.skip

onLinux('[lease.dead-owner-replaced] a worker that is dead counts as dead although its parent has not collected it yet', async () => {
  // the shell becomes another program, which never asks after the child
  const parent = spawn('sh', ['-c', 'sleep 0.5 & echo $!; exec sleep 20'], { stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    const [said] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(said.toString())
    const stat = (): string[] => readFileSync(`/proc/${String(pid)}/stat`, 'utf8').split(') ')[1]!.split(' ')
    const [boot = '', space = ''] = (thisProcess().pidStart ?? '').split(' ')
    const worker = { pid, host: thisProcess().host, pid_start: `${boot} ${space} ${stat()[19] ?? ''}` }
    expect(isProvablyDead(worker)).toBe(false)
    await soon(() => stat()[0] === 'Z')
    expect(stat()[0]).toBe('Z')
    expect(isProvablyDead(worker)).toBe(true)
  } finally {
    parent.kill('SIGKILL')
    await once(parent, 'close')
  }
})
