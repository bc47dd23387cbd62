/* Runs one script again and again, killed each time at another place, and gathers what was broken. */
import { setTimeout as wait } from 'node:timers/promises'
import { checkAlways, checkEnd, cutCalls, noCrash, readRows, type Finding } from './crash-check'
import { crashLane, crashServer, inLanes, makeCrashHome, type CrashHome, type Kill, type Lane, type RunEnd } from './crash-child'
import type { CrashScript } from './crash-scripts'

/** For two processors: a child waits for the disk, too. */
const lanes = 3

/** Everything, and not only what fits into `npm test`. */
export const full = process.env['CRASH_FULL'] === '1'

export interface MatrixResult {
  /** With the places of the kills that brought them about. */
  readonly findings: readonly (Finding & { readonly at: string })[]
  /** How many real kills. */
  readonly kills: number
  readonly runs: number
  /** How many requests the functions got. */
  readonly requests: number
}

/** One run in which nobody is killed, and what was broken in it. */
export async function runUnharmed(script: CrashScript, kill?: Kill): Promise<{ readonly end: RunEnd; readonly findings: readonly Finding[] }> {
  const home = await prepared(script)
  const lane = crashLane()
  const end = await lane.run(home, kill === undefined ? {} : { kill })
  await lane.end()
  const findings = await checkEnd(home, end, noCrash)
  home.remove()
  return { end, findings }
}

export async function prepared(script: CrashScript): Promise<CrashHome> {
  const home = await makeCrashHome(script)
  const server = await crashServer()
  // time for a message to arrive while the turn is running
  server.plan(home.pathOf('shop::look_up'), { kind: 'answer', delay_ms: 30 })
  if (script.held !== undefined) server.hold(home.pathOf(script.held))
  return home
}

/** For each of `runs`: the first start dies at the first kill, the next start at the second; then it is left in peace. */
export function killAll(script: CrashScript, runs: readonly (readonly Kill[])[]): Promise<MatrixResult> {
  return gather(script, runs, (kills) => kills.map((kill) => (home, lane) => lane.run(home, { kill })))
}

/** Kills from outside, so many times, at moments spread over the time that the script takes. */
export function killAtMoments(script: CrashScript, times: number): Promise<MatrixResult> {
  const moments = Array.from({ length: times }, (_, index) => 5 + Math.round((index / times) * 400))
  return gather(script, moments, (moment) => [
    async (home, lane) => {
      // the process is there and has its modules loaded, so that the time is spent in the script
      await lane.run(home, { steps: [] })
      const running = lane.run(home)
      await wait(moment)
      await lane.kill()
      return running
    },
  ])
}

type Death = (home: CrashHome, lane: Lane) => Promise<RunEnd>

async function gather<T>(script: CrashScript, runs: readonly T[], deathsOf: (run: T) => readonly Death[]): Promise<MatrixResult> {
  const findings: MatrixResult['findings'][number][] = []
  const counts = { kills: 0, requests: 0 }
  await inLanes(runs, lanes, async (run, lane) => {
    const home = await prepared(script)
    const here: Finding[] = []
    const cut = new Set<string>()
    for (const [index, die] of deathsOf(run).entries()) {
      const died = await die(home, lane)
      if (died.signal === 'SIGKILL') counts.kills += 1
      else if (died.report === null) here.push({ promise: 'crash.around-commits', text: `it ended with ${String(died.code)}: ${died.errors}` })
      // a second place, or a moment, may lie beyond what is left to do
      else if (index === 0 && typeof run !== 'number') here.push({ promise: 'crash.around-commits', text: 'it was not killed' })
      const rows = readRows(home)
      for (const callId of cutCalls(rows)) cut.add(callId)
      here.push(...checkAlways(home, rows))
    }
    const end = await lane.run(home)
    here.push(...(await checkEnd(home, end, { killed: true, cut })))
    const killed = home.trace().flatMap((line) => ('killed' in line ? [line.killed] : []))
    const at = killed.length === 0 ? `after ${String(run)} ms` : killed.join(', then ')
    findings.push(...here.map((finding) => ({ ...finding, at })))
    counts.requests += home.requests().length
    home.remove()
  })
  return { findings, runs: runs.length, ...counts }
}
