/*
 * Real processes, killed for real around every commit of every script. A run is: start, die there, start again on what is left,
 * come to the end; every sixth one dies once more on its way. With CRASH_FULL=1 all of them are killed at every commit, once and twice,
 * and at moments that have nothing to do with commits.
 */
import { endCrashes, type Kill } from '../support/crash-child'
import { full, killAll, killAtMoments, runUnharmed, type MatrixResult } from '../support/crash-matrix'
import { approvedRefund, awaitedRefund, crashScripts, messageAndStop, readThenWrite, triggeredRefund, type CrashScript } from '../support/crash-scripts'

const totals = { runs: 0, kills: 0, requests: 0, doubled: 0, lost: 0 }

afterAll(async () => {
  await endCrashes()
  const { runs, kills, requests, doubled, lost } = totals
  process.stderr.write(`crash matrix: ${runs} runs, ${kills} kills, ${requests} requests, ${doubled} writes sent twice, ${lost} turns lost\n`)
})

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1)

/**
 * Before and after every commit. The short form of a script that is no longer new leaves out most of the deaths after one: the death before
 * the next commit finds the same on disk, and more of it done.
 */
function placesOf(labels: readonly string[], form: { readonly of: 'turn' | 'any'; readonly isShort: boolean }): Kill[] {
  const { of, isShort } = form
  const count = of === 'any' ? labels.length : labels.filter((label) => label.startsWith('turn: ')).length
  return upTo(count).flatMap((number) => {
    const moments = isShort && number < count ? (['before'] as const) : (['before', 'after'] as const)
    return moments.map((when) => ({ at: 'commit' as const, when, of, number }))
  })
}

/** The first, and the one that is called back, are killed at every commit there is, the others at those that say something of a turn: the rest is the same for all. */
const formOf = (script: CrashScript): { readonly of: 'turn' | 'any'; readonly isShort: boolean } => ({
  of: full || script === readThenWrite || script === awaitedRefund ? 'any' : 'turn',
  isShort: !full && ![readThenWrite, approvedRefund, triggeredRefund, messageAndStop, awaitedRefund].includes(script),
})

/** A second death, at a commit of the process that goes on. */
const again = (index: number): Kill => ({ at: 'commit', when: index % 2 === 0 ? 'after' : 'before', of: 'any', number: 3 + (index % 7) })

describe.each(crashScripts)('$name', (script) => {
  let unharmed: Awaited<ReturnType<typeof runUnharmed>>
  let result: MatrixResult
  let places: readonly Kill[]

  beforeAll(async () => {
    unharmed = await runUnharmed(script)
    const labels = (unharmed.end.report?.commits ?? []).map((commit) => commit.label)
    places = placesOf(labels, formOf(script))
    const runs = places.flatMap((kill, index) => (full ? [[kill], [kill, again(index)]] : index % 6 === 0 ? [[kill, again(index)]] : [[kill]]))
    const byCommit = await killAll(script, runs)
    const byMoment = full ? await killAtMoments(script, 40) : { findings: [], kills: 0, runs: 0, requests: 0 }
    result = {
      findings: [...byCommit.findings, ...byMoment.findings], kills: byCommit.kills + byMoment.kills, runs: byCommit.runs + byMoment.runs,
      requests: byCommit.requests + byMoment.requests,
    }
    totals.runs += result.runs
    totals.kills += result.kills
    totals.requests += result.requests
    totals.doubled += broken('crash.no-double-write').length
    totals.lost += broken('speed.zero-lost').length
  }, 600_000)

  const broken = (...promises: readonly string[]): MatrixResult['findings'] => result.findings.filter((finding) => promises.includes(finding.promise))

  it('[crash.without-kill] without a kill it comes to its end, and every call to its own', () => {
    expect(unharmed.findings).toEqual([])
  })

  it('[crash.around-commits] killed around every commit, it goes on from what is on disk', () => {
    expect(broken('crash.around-commits')).toEqual([])
    expect(places.length).toBeGreaterThanOrEqual(5)
    expect(result.kills).toBeGreaterThanOrEqual(places.length)
  })

  it('[crash.no-double-write] [write.at-most-once] [speed.zero-doubled] no write that is not idempotent is sent twice', () => {
    expect(broken('crash.no-double-write')).toEqual([])
  })

  it('[crash.nothing-unallowed] no denied, undecided or forged call is sent', () => {
    expect(broken('crash.nothing-unallowed')).toEqual([])
  })

  it('[write.started-first] at no death was a write sent that was not on record as started', () => {
    expect(broken('write.started-first')).toEqual([])
  })

  it('[crash.one-result] every call has one result, and the model sees it right behind its call', () => {
    expect(broken('crash.one-result')).toEqual([])
  })

  it('[crash.all-but-the-cut] [write.cut-not-resent] all calls end as without a kill, but the cut write, which is interrupted', () => {
    expect(broken('crash.all-but-the-cut')).toEqual([])
  })

  it('[write.cut-is-told] whoever asked for a cut write is told that its outcome is unknown', () => {
    expect(broken('write.cut-is-told')).toEqual([])
  })

  it('[call.idempotent-resent] what is sent again is sent under the same id, and the record says so', () => {
    expect(broken('call.idempotent-resent')).toEqual([])
  })

  it('[crash.terminal-or-parked] [speed.zero-lost] every turn comes to its end with a reason, or is parked for one, and no message is lost', () => {
    expect(broken('crash.terminal-or-parked', 'speed.zero-lost')).toEqual([])
  })

  it('[await.crash] whoever waits for the turn is told of its end', () => {
    expect(broken('await.crash')).toEqual([])
  })

  it('[crash.chains-verify] [crash.chains-fold] the record verifies and folds to what the rows say', () => {
    expect(broken('crash.chains-verify', 'crash.chains-fold')).toEqual([])
  })

  it('[lease.dead-owner-replaced] the next process takes over at once, although the lease of the dead one is not over', () => {
    expect(broken('lease.dead-owner-replaced')).toEqual([])
  })
})
