/*
 * serve: the worker of a home, until somebody stops it. Says on one screen where things are and what to do next, and one line for every
 * call that waits for a person. Ends in order within five seconds; turns go on at the next start.
 */
import type { ApprovalView, Caller, OpenHarness } from '../../core/index'
import { approvalRoutes } from '../approval-routes'
import type { CommandContext } from '../context'
import { exitCodes, type ExitCode } from '../exit-codes'
import { instant } from '../guidance'
import { healthRoutes } from '../health'
import { startHttp } from '../http'
import { packageVersion, tilde } from '../invocation'
import { modelText } from '../models'
import { columns, print, visible } from '../screen'
import { forgetAddress, pageAddress, rememberAddress } from '../serve-address'
import { v1Routes } from '../v1-routes'
import { workerIsKnown } from '../waiting'
import { turnsText } from './status'

export interface ServeOptions {
  readonly sample?: boolean
  readonly port?: number
  readonly demo?: boolean
  readonly decide?: 'approve' | 'reject'
  readonly functionUrl?: string
}

const closeWithinMs = 5_000
const lookEveryMs = 1_000

export async function serveCommand(context: CommandContext, options: ServeOptions): Promise<ExitCode> {
  if (options.demo === true) {
    const { runDemo } = await import('../demo.js')
    return runDemo({ decide: options.decide ?? 'approve', functionUrl: options.functionUrl, database: context.globals.database })
  }
  const stopped = stopSignal()
  const harness = await context.open({
    program: 'serve',
    worker: true,
    sample: options.sample === true ? 'on' : 'off',
    onSample: (line) => print(`shop: ${visible(line)}`),
  })
  try {
    await workerIsKnown(harness)
    const http = await startHttp(
      options.port ?? null,
      healthRoutes(async () => ({ worker: harness.workerState(), turns: (await harness.overview()).turns })),
      approvalRoutes({ harness, caller: () => harness.localCaller('approval_page'), log: context.log }),
      v1Routes({ harness, log: context.log }),
    )
    rememberAddress(harness.home.folder, http.base)
    const caller = harness.localCaller('serve')
    print(...(await screen(harness, caller, context, { base: http.base, sample: options.sample === true })))
    const stopAnnouncing = announce(harness, caller, context, http.base)
    const signal = await stopped
    stopAnnouncing()
    print('Stopping. Turns that are not over go on at the next start.')
    const limit = setTimeout(() => process.exit(codeOf(signal)), closeWithinMs)
    forgetAddress(harness.home.folder, http.base)
    await http.close()
    await harness.close()
    clearTimeout(limit)
    return codeOf(signal)
  } catch (error) {
    await harness.close()
    throw error
  }
}

function codeOf(signal: NodeJS.Signals): ExitCode {
  return signal === 'SIGINT' ? exitCodes.interrupted : exitCodes.done
}

/** Resolves at the first signal that asks us to end; the second one ends us at once. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let asked = false
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(signal === 'SIGINT' ? exitCodes.interrupted : exitCodes.failed)
        asked = true
        resolve(signal)
      })
    }
  })
}

interface Facts {
  readonly base: string
  readonly sample: boolean
}

async function screen(harness: OpenHarness, caller: Caller, context: CommandContext, { base, sample }: Facts): Promise<string[]> {
  const { command } = context
  const [probe, { functions }, overview] = await Promise.all([harness.model.probe(), harness.list_functions({}, caller), harness.overview()])
  const model = modelText(probe, harness.authority())
  const canDecide = harness.authority().approvers.some((approver) => approver.active)
  const byName = harness.authority().channels.some((channel) => channel.active)
  const { state, text } = harness.workerState()
  const shown = functions.slice(0, 6).map(({ id, usually }) => `${id} ${usually === 'runs' ? '(runs)' : '(usually waits for a person)'}`)
  if (functions.length > shown.length) shown.push(`and ${String(functions.length - shown.length)} more: ${command('functions')}`)
  return [
    `agent-harness ${packageVersion()} is up. Ctrl-C stops it; turns that are not over go on at the next start.`,
    '',
    ...columns([
      ['Home', `${tilde(harness.home.folder)} (database, keys, and harness.yaml for functions, policy and agents)`],
      ['Worker', state === 'working' ? text : `standing by. ${text}`],
      ['Turns', turnsText(overview)],
      ['Model', model.text],
      ['Functions', shown.length === 0 ? 'none yet; declare them in harness.yaml, or start with --sample' : shown.join('\n')],
      [
        'Decide',
        canDecide
          ? `${command('approvals list')}, then approve or reject with an approver's passphrase; or on the page of each, which is named here when it is held`
          : byName
            ? 'on the page of each approval, which is named here when it is held'
            : `nobody can yet: risky calls wait until ${command('init')} has made an approver's key`,
      ],
      ['HTTP', `${base}/v1 (${harness.authority().tokens.length === 0 ? `nobody has a token yet; make one with ${command('tokens add n8n')}` : tokensText(harness)})`],
      ['Health', `${base}/healthz`],
    ]),
    '',
    'Next, in another terminal',
    ...columns(nextSteps({ canDecide, model: model.found, sample, any: functions.length > 0 }).map(([name, words]) => [`  ${name}`, command(words)])),
    '',
  ]
}

function tokensText(harness: OpenHarness): string {
  const names = harness.authority().tokens.map((token) => token.name)
  return `tokens: ${names.slice(0, 6).join(', ')}${names.length > 6 ? ` and ${String(names.length - 6)} more` : ''}`
}

function nextSteps(have: { canDecide: boolean; model: boolean; sample: boolean; any: boolean }): [name: string, words: string][] {
  const steps: [string, string][] = []
  if (!have.canDecide) steps.push(["Make an approver's key", 'init'])
  if (have.sample) {
    steps.push(['A call that just runs', `run shop::look_up_order '{"order":"A-1001"}'`])
    steps.push(['A call that is held', `run shop::refund '{"order":"A-1001","amount":20,"reason":"damaged"}'`])
    if (have.model) steps.push(['The same by an agent', `send 'Refund 20 EUR for order A-1001, it came damaged.'`])
  } else if (have.model) steps.push(['Ask an agent', `send 'What can you do here?'`])
  steps.push(['See what waits', 'approvals list'])
  if (have.any) steps.push(['See how it is', 'status'])
  return steps
}

/** Prints a line for each approval that comes up, whoever asked. Answers the way to stop. */
function announce(harness: OpenHarness, caller: Caller, { command, log }: CommandContext, base: string): () => void {
  const told = new Set<string>()
  let looking = false
  const look = async (): Promise<void> => {
    if (looking) return
    looking = true
    try {
      const { approvals } = await harness.list_approvals({ status: 'pending', limit: 200 }, caller)
      for (const approval of approvals.toReversed()) {
        const { approval_id } = approval
        if (!told.has(approval_id)) print(heldLine(approval, command(`approvals approve ${approval_id}`), pageAddress(base, approval_id, await harness.linkKey(approval_id))))
        told.add(approval_id)
      }
    } catch (error) {
      log.warn({ err: error }, 'approvals could not be read')
    } finally {
      looking = false
    }
  }
  const timer = setInterval(() => void look(), lookEveryMs)
  void look()
  return () => {
    clearInterval(timer)
  }
}

function heldLine({ function_id, requested_by, expires_at }: ApprovalView, approve: string, page: string): string {
  return `held: ${visible(function_id)}, asked by ${visible(requested_by)}, until ${instant(expires_at)}. Look and decide with: ${approve}\n      or on its page: ${page}`
}
