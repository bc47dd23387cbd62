/* Runs one script again and again, killed each time at another place, and gathers what was broken. */
import { checkAlways, checkEnd, cutCalls, noCrash, readRows, type Finding } from './crash-check'
import { crashLane, crashServer, inLanes, makeCrashHome, type CrashHome, type Kill, type RunEnd } from './crash-child'
import type { CrashScript } from './crash-scripts'

/** Two processors, and a child that waits half of its time. */
const lanes = 3

/** Everything, and not only what fits into `npm test`. */
export const full = process.env['CRASH_FULL'] === '1'

export interface MatrixResult {
  readonly findings: readonly (Finding & { readonly at: string })[]
  /** How many real kills. */
  readonly kills: number
  /** Where it died, as the children wrote it down. */
  readonly places: readonly string[]
  /** Requests that the functions got, of all runs. */
  readonly requests: number
}

/** One run in which nobody is killed, and what was broken in it. */
export async function runUnharmed(script: CrashScript): Promise<{ readonly end: RunEnd; readonly findings: readonly Finding[] }> {
  const home = await prepared(script)
  const lane = crashLane()
  const end = await lane.run(home)
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

/** `kills` of one run: the first start dies at the first one, the next start at the second; then it is left in peace. */
export async function killAll(script: CrashScript, runs: readonly (readonly Kill[])[]): Promise<MatrixResult> {
  const findings: MatrixResult['findings'][number][] = []
  const places: string[] = []
  let requests = 0
  await inLanes(runs, lanes, async (kills, lane) => {
    const home = await prepared(script)
    const cut = new Set<string>()
    const here: Finding[] = []
    let leaseUntil: number | null = null
    for (const [index, kill] of kills.entries()) {
      const died = await lane.run(home, { kill })
      // the second place may lie beyond what is left to do
      if (died.signal !== 'SIGKILL' && index === 0) here.push({ promise: 'crash.around-commits', text: `it was not killed: ${died.errors}` })
      const rows = readRows(home)
      for (const callId of cutCalls(rows)) cut.add(callId)
      leaseUntil = rows.worker?.lease_until ?? null
      here.push(...checkAlways(home, rows))
    }
    const end = await lane.run(home)
    here.push(...(await checkEnd(home, end, { killed: true, cut, leaseUntil })))
    const killed = home.trace().flatMap((line) => ('killed' in line ? [line.killed] : []))
    places.push(...killed)
    requests += home.requests().length
    findings.push(...here.map((finding) => ({ ...finding, at: killed.join(', then ') })))
    home.remove()
  })
  return { findings, kills: places.length, places, requests }
}
