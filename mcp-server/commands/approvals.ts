/*
 * approvals: what waits for a person, exactly, and the person's answer, signed with a key that a passphrase unlocks. What is signed is
 * computed anew from what was shown, so that an altered database cannot show one thing and have another signed.
 */
import {
  HarnessError,
  isHarnessError,
  signDecision,
  type ApprovalDetail,
  type ApprovalView,
  type Caller,
  type Decision,
  type OpenHarness,
} from '../../core/index'
import type { CommandContext } from '../context'
import { exitCodes, type ExitCode } from '../exit-codes'
import { instant, span } from '../guidance'
import { askPassphrase } from '../passphrase'
import { pageAddress, rememberedAddress } from '../serve-address'
import { ago, argumentLines, columns, left, print, tell, visible } from '../screen'

const shortestPrefix = 6

async function withApprovals(context: CommandContext, work: (harness: OpenHarness, caller: Caller) => Promise<ExitCode>): Promise<ExitCode> {
  const harness = await context.open({ program: 'command', worker: false })
  try {
    return await work(harness, harness.localCaller('command_line'))
  } finally {
    await harness.close()
  }
}

export async function listCommand(context: CommandContext, { all }: { readonly all?: boolean }): Promise<ExitCode> {
  return withApprovals(context, async (harness, caller) => {
    const { approvals } = await harness.list_approvals({ limit: 200, ...(all === true ? {} : { status: 'pending' }) }, caller)
    if (approvals.length === 0) {
      print(all === true ? 'There are no approvals yet.' : 'Nothing waits for a person.')
      return exitCodes.done
    }
    for (const approval of approvals) {
      const { approval_id, function_id, requested_by, created_at, expires_at, status } = approval
      const state = status === 'pending' ? `${left(expires_at)} left` : status
      print(`${approval_id}  ${visible(function_id)}  asked by ${visible(requested_by)} ${ago(created_at)}  ${state}`)
      const page = status === 'pending' ? await pageOf(harness, approval_id) : null
      if (page !== null) print(`  page: ${page}`)
    }
    tell('', `Look at one with: ${context.command('approvals show ID')}`)
    if (harness.authority().approvers.length === 0) tell(`Nobody can decide yet. Make an approver's key with: ${context.command('init')}`)
    return exitCodes.done
  })
}

export async function showCommand(context: CommandContext, id: string): Promise<ExitCode> {
  return withApprovals(context, async (harness, caller) => {
    const detail = await harness.get_approval({ approval_id: await wholeId(harness, caller, id) }, caller)
    print(...detailLines(detail))
    const problem = digestProblem(detail)
    if (problem !== null) tell('', problem)
    if (detail.status === 'pending')
      tell(
        '',
        `Decide with: ${context.command(`approvals approve ${detail.approval_id}`)}`,
        `or:          ${context.command(`approvals reject ${detail.approval_id} --reason '…'`)}`,
        ...[await pageOf(harness, detail.approval_id)].flatMap((page) => (page === null ? [] : [`or on its page, while serve runs: ${page}`])),
      )
    return problem === null ? exitCodes.done : exitCodes.failed
  })
}

/** Null while it is not known where serve is. */
async function pageOf(harness: OpenHarness, approvalId: string): Promise<string | null> {
  const base = rememberedAddress(harness.home.folder)
  return base === null ? null : pageAddress(base, approvalId, await harness.linkKey(approvalId))
}

export interface DecideOptions {
  readonly approver?: string
  readonly reason?: string
}

export async function decideCommand(context: CommandContext, decision: Decision, id: string, { approver, reason }: DecideOptions): Promise<ExitCode> {
  if (decision === 'reject' && (reason ?? '').trim() === '')
    throw new HarnessError('invalid_input', 'A rejection needs a reason: add --reason "…". It is told to who asked, and kept on record.')
  return withApprovals(context, async (harness, caller) => {
    const detail = await harness.get_approval({ approval_id: await wholeId(harness, caller, id) }, caller)
    const name = approverFor(harness, approver, context)
    tell(...detailLines(detail), '')
    if (detail.status !== 'pending')
      throw new HarnessError('approval_closed', `Approval ${detail.approval_id} is ${detail.status}; it cannot be decided any more.`)
    const problem = digestProblem(detail)
    if (problem !== null) throw new HarnessError('conflict', problem)

    tell(`To ${decision} it as ${name}, unlock the key.`)
    const key = await unlock(harness, name)
    const signed = signDecision(key, detail.approval_digest, {
      decision,
      approver: name,
      decided_at: Date.now(),
      reason: reason ?? null,
      channel: 'command_line',
    })
    const { status } = await harness.decide_approval({ approval_id: detail.approval_id, ...signed }, caller)
    print(`${detail.approval_id} is ${status} by ${name}.`)
    const { worker } = await harness.overview()
    tell(worker, `Look at the turn with: ${context.command(`status ${detail.turn_id} --wait 60`)}`)
    return exitCodes.done
  })
}

/** Asks for the passphrase and says when a key is locked, in this place's time. */
async function unlock(harness: OpenHarness, name: string): ReturnType<OpenHarness['unlock']> {
  try {
    return await harness.unlock(name, await askPassphrase('Passphrase: '))
  } catch (error) {
    const until = isHarnessError(error) ? error.data['locked_until'] : null
    if (!isHarnessError(error) || typeof until !== 'number') throw error
    throw new HarnessError(error.code, `${error.message} That is ${new Date(until).toLocaleTimeString()} here, in ${span(until - Date.now())}.`)
  }
}

/** The one approval whose id begins so. */
async function wholeId(harness: OpenHarness, caller: Caller, given: string): Promise<string> {
  // those that wait first: however many were decided since, an old question is found
  const [waiting, all] = await Promise.all([harness.list_approvals({ limit: 200, status: 'pending' }, caller), harness.list_approvals({ limit: 200 }, caller)])
  const approvals = [...new Map([...waiting.approvals, ...all.approvals].map((approval) => [approval.approval_id, approval])).values()]
  const found = approvals.filter(({ approval_id }) => approval_id === given || (given.length >= shortestPrefix && approval_id.startsWith(given)))
  const [first, second] = found
  // an id that is not in the list is left to the harness to refuse
  if (first === undefined) return given
  if (second !== undefined && first.approval_id !== given)
    throw new HarnessError('invalid_input', `${given} is the beginning of ${String(found.length)} approvals. Write more of it.`)
  return first.approval_id
}

function approverFor(harness: OpenHarness, given: string | undefined, context: CommandContext): string {
  const active = harness.authority().approvers.filter((approver) => approver.active)
  if (active.length === 0) throw new HarnessError('not_found', `Nobody can decide yet. Make an approver's key with: ${context.command('init')}`)
  const names = active.map((approver) => approver.name)
  if (given !== undefined && !names.includes(given))
    throw new HarnessError('not_found', `${given} is not an approver in harness.yaml. There are: ${names.join(', ')}.`)
  const name = given ?? (names.length === 1 ? names[0] : undefined)
  if (name === undefined)
    throw new HarnessError('invalid_input', `There is more than one approver. Say who you are with --approver NAME: ${names.join(', ')}.`)
  return name
}

/** Everything a person decides on. The arguments stand whole, however long they are. */
export function detailLines(detail: ApprovalDetail): string[] {
  return [
    ...columns([
      ['Approval', `${detail.approval_id}  ${stateText(detail)}`],
      [
        'Function',
        `${visible(detail.function_id)}  (${detail.risk} risk, ${detail.side_effects === 'none' ? 'no side effects' : `${detail.side_effects}s`})`,
      ],
      ['', visible(detail.description)],
      ['Asked by', `${visible(detail.requested_by)} ${ago(detail.created_at)}, in turn ${detail.turn_id}`],
      ['Held because', detail.why.length === 0 ? 'the record does not say' : detail.why.map(visible).join('\n')],
      ['May decide', visible(detail.approver_roles.join(' or '))],
      ['Digest', detail.approval_digest],
    ]),
    'Arguments, exactly as they would be sent:',
    ...argumentLines(detail.arguments),
  ]
}

function stateText(approval: ApprovalView): string {
  if (approval.status === 'pending') return `pending, ${left(approval.expires_at)} left (until ${instant(approval.expires_at)})`
  const by =
    approval.decided_by === null ? '' : ` by ${visible(approval.decided_by)}${approval.decided_at === null ? '' : ` at ${instant(approval.decided_at)}`}`
  return `${approval.status}${by}${approval.reason === null ? '' : `: ${visible(approval.reason)}`}`
}

/** Why it cannot be decided as it is shown; null when it can. */
function digestProblem(detail: ApprovalDetail): string | null {
  if (detail.is_current) return null
  return 'The function was changed, or taken out of the configuration, since this was asked: it cannot be decided any more. Stop the turn and ask again, or let it run out.'
}
