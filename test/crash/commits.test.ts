/*
 * Real processes, killed for real before and after every commit of every script. A run is: start, die there, start again on what is left,
 * come to the end. `npm run test:crash:full` kills at more places and twice.
 */
import { endCrashes, type Kill } from '../support/crash-child'
import { full, killAll, runUnharmed, type MatrixResult } from '../support/crash-matrix'
import { crashScripts } from '../support/crash-scripts'

afterAll(endCrashes)

const beforeAndAfter = (kill: Omit<Extract<Kill, { of: string }>, 'at' | 'when'>): Kill[] => (['before', 'after'] as const).map((when) => ({ at: 'commit', when, ...kill }))
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1)

describe.each(crashScripts)('$name', (script) => {
  let unharmed: Awaited<ReturnType<typeof runUnharmed>>
  let result: MatrixResult
  let commits: number
  let turnCommits: number

  beforeAll(async () => {
    unharmed = await runUnharmed(script)
    const labels = unharmed.end.report?.commits ?? []
    commits = labels.length
    turnCommits = labels.filter((label) => label.startsWith('turn: ')).length
    const isFirst = script === crashScripts[0]
    const places = full || isFirst ? upTo(commits).flatMap((number) => beforeAndAfter({ of: 'any', number })) : upTo(turnCommits).flatMap((number) => beforeAndAfter({ of: 'turn', number }))
    const runs = places.map((kill, index): Kill[] => (full || index % 3 === 0 ? [kill, { at: 'commit', when: index % 2 === 0 ? 'after' : 'before', of: 'any', number: 3 + (index % 7) }] : [kill]))
    result = await killAll(script, full ? [...runs, ...places.map((kill) => [kill])] : runs)
    if (process.env['CRASH_DEBUG']) console.info(script.name, labels, result.kills, result.places.slice().sort())
  }, 300_000)

  const broken = (promise: string): unknown => result.findings.filter((finding) => finding.promise === promise)

  it('[crash.without-kill] without a kill it comes to its end, and every call to its own', () => {
    expect(unharmed.findings).toEqual([])
  })

  it('[crash.around-commits] killed before and after every commit, it goes on from what is on disk', () => {
    expect(broken('crash.around-commits')).toEqual([])
    expect(result.kills).toBeGreaterThanOrEqual(2 * turnCommits)
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

  it('[crash.all-but-the-cut] all calls but the cut write end as without a kill', () => {
    expect(broken('crash.all-but-the-cut')).toEqual([])
  })

  it('[write.cut-not-resent] [write.cut-is-told] a cut write is interrupted, and whoever asked is told that its outcome is unknown', () => {
    expect(broken('write.cut-is-told')).toEqual([])
  })

  it('[call.idempotent-resent] what is sent again is sent under the same id, and the record says so', () => {
    expect(broken('call.idempotent-resent')).toEqual([])
  })

  it('[crash.terminal-or-parked] [speed.zero-lost] every turn comes to its end with a reason, no message is lost', () => {
    expect([...(broken('crash.terminal-or-parked') as []), ...(broken('speed.zero-lost') as [])]).toEqual([])
  })

  it('[crash.chains-verify] [crash.chains-fold] the record verifies and folds to what the rows say', () => {
    expect([...(broken('crash.chains-verify') as []), ...(broken('crash.chains-fold') as [])]).toEqual([])
  })

  it('[lease.dead-owner-replaced] the next process takes over at once, although the lease of the dead one is not over', () => {
    expect(broken('lease.dead-owner-replaced')).toEqual([])
  })
})
