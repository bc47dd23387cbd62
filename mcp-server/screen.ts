/* Lines for a terminal: answers on stdout, everything about them on stderr. Text from outside goes through `visible` first. */
import type { TurnView } from '../core/index'
import { exitCodes, type ExitCode } from './exit-codes'
import { instant, pending, span } from './guidance'
import type { Invocation } from './invocation'
import { escapedArguments, rawArguments, visible } from './visible'

export function print(...lines: readonly string[]): void {
  process.stdout.write(`${lines.join('\n')}\n`)
}

export function tell(...lines: readonly string[]): void {
  process.stderr.write(`${lines.join('\n')}\n`)
}

/** Names in one column, texts in the next; a text of several lines stays in its column. */
export function columns(rows: readonly (readonly [name: string, text: string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length)) + 2
  return rows.flatMap(([name, text]) => text.split('\n').map((line, index) => `${(index === 0 ? name : '').padEnd(width)}${line}`.trimEnd()))
}

const outcomes: Readonly<Record<string, string>> = {
  denied: 'Policy does not allow it.',
  rejected: 'A person said no.',
  expired: 'Nobody decided in time.',
  interrupted: 'The outcome is unknown: the call was cut after it may have been sent. Look at the other side before you do it again.',
  function_failed: 'The function answered with an error.',
  call_failed: 'The call came to nothing; the result says why.',
  stopped: 'It was stopped.',
}

/** How a turn is, for a person: the answer alone when there is one. */
export function turnLines(view: TurnView, command: Invocation): string[] {
  const head = `${view.turn_id}: ${view.state}${view.reason === null || view.reason === 'done' ? '' : ` (${view.reason})`}`
  if (view.state === 'held') return [head, ...heldLines(view, command)]
  if (view.state === 'working')
    return [head, `Worker: ${view.worker}`, ...callLines(view), `Look again with: ${command(`status ${view.turn_id} --wait 60`)}`]
  const told = view.reason === 'interrupted' ? null : view.detail
  const lines = [head, ...callLines(view)]
  const why = told === null ? outcomes[view.reason ?? ''] : visible(told)
  if (why !== undefined && view.state !== 'completed') lines.push(why)
  const said = view.approvals.filter((approval) => approval.reason !== null && approval.decided_by !== null)
  lines.push(...said.map((approval) => `${approval.decided_by ?? ''} ${approval.status} it: ${visible(approval.reason ?? '')}`))
  return lines
}

/** What a turn came to, as text or JSON; null while it has nothing. */
export function resultText(view: TurnView): string | null {
  if (view.result === undefined) return null
  if (typeof view.result === 'string') return view.result.split('\n').map(visible).join('\n')
  return rawArguments(view.result)
}

function callLines(view: TurnView): string[] {
  return view.calls.map(
    (call) => `  ${call.function_call_id}  ${visible(call.function_id)}  ${call.status}${call.reason === null ? '' : ` (${call.reason})`}`,
  )
}

function heldLines(view: TurnView, command: Invocation): string[] {
  const waiting = pending(view)
  const [first] = waiting
  if (first === undefined) return [`Look again with: ${command(`status ${view.turn_id} --wait 60`)}`]
  return [
    ...waiting.map(
      (approval) =>
        `${visible(approval.function_id)} waits for a person (${approval.approver_roles.join(' or ')}) until ${instant(approval.expires_at)}: ` +
        approval.approval_id,
    ),
    ...columns([
      ['Decide with', command(`approvals approve ${first.approval_id}`)],
      ['or', command(`approvals reject ${first.approval_id} --reason '…'`)],
      ['Look again with', command(`status ${view.turn_id} --wait 60`)],
    ]),
  ]
}

/** What a command that followed a turn ends with. */
export function exitCodeOf(view: Pick<TurnView, 'state'>): ExitCode {
  switch (view.state) {
    case 'completed':
      return exitCodes.done
    case 'held':
      return exitCodes.held
    case 'working':
      return exitCodes.working
    default:
      return exitCodes.notDone
  }
}

/** The exact arguments, raw, and in ASCII where that shows more. */
export function argumentLines(value: Parameters<typeof rawArguments>[0]): string[] {
  const escaped = escapedArguments(value)
  return [
    ...rawArguments(value)
      .split('\n')
      .map((line) => `  ${line}`),
    ...(escaped === null ? [] : ['The same with every letter beyond ASCII by its number:', `  ${escaped}`]),
  ]
}

/** How long ago, or how long until, from now. */
export function ago(at: number): string {
  return `${span(Date.now() - at)} ago`
}

export function left(until: number): string {
  return until <= Date.now() ? 'no time' : span(until - Date.now())
}

export { visible }
