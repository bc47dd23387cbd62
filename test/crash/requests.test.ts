/* Killed between a request and its answer: from outside, once the function has the request, or has begun to answer. */
import { setTimeout as wait } from 'node:timers/promises'
import { checkAlways, checkEnd, cutCalls, readRows, verified } from '../support/crash-check'
import { crashServer, endCrashes, inLanes, soon, type CrashHome, type Kill, type Lane, type RunEnd } from '../support/crash-child'
import { killAll, prepared } from '../support/crash-matrix'
import { approvedRefund, awaitedRefund, idempotentWrite, readThenWrite, severalAtOnce, triggeredRefund, type CrashScript } from '../support/crash-scripts'

afterAll(endCrashes)

type Moment = 'arrived' | 'first byte'

/** Runs until the function has got its n-th request, and kills it there. */
async function killInside(home: CrashHome, lane: Lane, functionId: string, moment: Moment): Promise<RunEnd> {
  const server = await crashServer()
  const before = home.requests(functionId).length
  server.plan(home.pathOf(functionId), { kind: moment === 'arrived' ? 'hold' : 'first_byte' })
  const running = lane.run(home)
  await Promise.race([running, soon(() => home.requests(functionId).length > before)])
  // for the byte to arrive
  if (moment === 'first byte') await wait(20)
  await lane.kill()
  const died = await running
  server.plan(home.pathOf(functionId), { kind: 'answer' })
  return died
}

const cases: readonly (readonly [CrashScript, string, 'write' | 'again'])[] = [
  [readThenWrite, 'shop::look_up', 'again'], [readThenWrite, 'shop::note', 'write'], [severalAtOnce, 'shop::look_up', 'again'],
  [severalAtOnce, 'shop::note', 'write'], [approvedRefund, 'shop::refund', 'write'], [triggeredRefund, 'shop::refund', 'write'],
  [idempotentWrite, 'shop::set', 'again'],
]

it.each(['arrived', 'first byte'] as const)(
  '[crash.request-to-answer] [write.cut-not-resent] killed when its request has %s: a cut write is not sent again, reads and idempotent calls are',
  async (moment) => {
    const findings: unknown[] = []
    await inLanes(cases, 3, async ([script, functionId, kind], lane) => {
      const home = await prepared(script)
      const died = await killInside(home, lane, functionId, moment)
      const rows = readRows(home)
      const cut = new Set(cutCalls(rows))
      const here: unknown[] = checkAlways(home, rows)
      const end = await lane.run(home)
      here.push(...(await checkEnd(home, end, { killed: true, cut })))
      const requests = home.requests(functionId)
      const ofOne = requests.filter((request) => request.call_id === requests[0]?.call_id).length
      if (died.signal !== 'SIGKILL' || cut.size !== (kind === 'write' ? 1 : 0) || ofOne !== (kind === 'write' ? 1 : 2)) {
        here.push(`${script.name}, ${functionId}: ${ofOne} requests, ${cut.size} cut, ended by ${String(died.signal)}`)
      }
      findings.push(...here)
      home.remove()
    })
    expect(findings).toEqual([])
  },
  60_000,
)

it('[crash.request-to-answer] killed right before the request, or before its answer is on record: the outcome is unknown', async () => {
  for (const [script, functionId] of [[readThenWrite, 'shop::note'], [approvedRefund, 'shop::refund']] as const) {
    const kills = (['before', 'after'] as const).map((when): Kill => ({ at: 'function', when, function_id: functionId }))
    expect(await killAll(script, kills.map((kill) => [kill]))).toMatchObject({ findings: [], kills: 2 })
  }
}, 60_000)

it('[call.idempotent-resent] an idempotent call that is cut again and again is sent three times under one id, then given up as unknown', async () => {
  const home = await prepared(idempotentWrite)
  await inLanes([home], 1, async (_home, lane) => {
    for (let kill = 1; kill <= 3; kill += 1) expect(await killInside(home, lane, 'shop::set', 'arrived')).toMatchObject({ signal: 'SIGKILL' })
    const end = await lane.run(home)
    expect(end.report?.turns['first']).toMatchObject({ state: 'completed', calls: [{ status: 'interrupted', result: { error: 'unknown_outcome' } }] })
  })
  expect(await verified(home)).toMatchObject({ verdict: 'good', problems: [] })
  expect(new Set(home.requests().map((request) => request.call_id)).size).toBe(1)
  expect(home.requests()).toHaveLength(3)
}, 60_000)

it('[await.crash] [crash.request-to-answer] killed right before a callback, or before its answer is on record: it is made again', async () => {
  const kills = (['before', 'after'] as const).map((when): Kill => ({ at: 'callback', when }))
  const { findings, kills: killed } = await killAll(awaitedRefund, [...kills.map((kill) => [kill]), ...kills.map((kill) => [kill, kill])])
  expect(findings).toEqual([])
  expect(killed).toBe(6)
}, 60_000)
