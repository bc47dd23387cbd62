/*
 * n8n loads our node files at each start. Where the harness inside it has been used before, it is opened then, so that turns in flight go
 * on though no node runs. Only where n8n starts as a server: its other commands load the same files beside a running n8n and must open
 * nothing. Costs the start nothing: the core is loaded later, in the background, and what goes wrong is told in n8n's log.
 */
import { defaultSettings, hasHarness, n8nLog, openEmbedded, runsTurns, whyNotHere, type Environment } from './embedded'

/** Long enough for n8n to be done with what it does itself at start. */
const afterStartMs = 3_000

const startedSymbol = Symbol.for('n8n-nodes-agent-harness.at-start')

/** Whether the program that loads us is an n8n server in which a harness lives. */
export function opensAtStart(argv: readonly string[], env: Environment, nodeVersion: string): boolean {
  if ((argv[2] ?? 'start') !== 'start' || whyNotHere(env, nodeVersion) !== null) return false
  return hasHarness(defaultSettings(env).folder)
}

/** For the top of one node file; n8n loads them all. Once in a process, though an update may leave two copies of this package in it. */
export function openAtStart(): void {
  const once = globalThis as unknown as Record<symbol, boolean | undefined>
  if (once[startedSymbol] === true) return
  once[startedSymbol] = true
  if (!opensAtStart(process.argv, process.env, process.versions.node)) return
  setTimeout(() => void openInBackground(), afterStartMs).unref()
}

async function openInBackground(): Promise<void> {
  const settings = defaultSettings(process.env)
  try {
    const harness = await openEmbedded(settings)
    if (await runsTurns(harness)) n8nLog.info({ folder: settings.folder }, 'opened; turns in flight go on')
    else n8nLog.warn({ folder: settings.folder }, `another process runs the turns of this folder. ${harness.workerState().text} End it, or give this n8n a folder of its own.`)
  } catch (error) {
    n8nLog.error({ folder: settings.folder }, `could not be opened: ${error instanceof Error ? error.message : 'unknown error'} The next Agent Harness node tries again.`)
  }
}
