/*
 * The sentence about what to do next that stands in every answer: to a model over MCP, to a person on the command line. It names exact
 * calls and commands, and never asks a model to decide anything.
 */
import type { ApprovalView, TurnView } from '../core/index'
import type { Invocation } from './invocation'

export interface Surroundings {
  readonly command: Invocation
  /** Is there anybody who could decide? */
  readonly hasApprover: boolean
  /** Is it this process that runs turns? */
  readonly runsHere: boolean
}

const endings: Readonly<Record<string, string>> = {
  denied: 'Policy does not allow this call. Do not retry it; list_functions shows what may run.',
  rejected: 'A person said no. Do not ask for the same again; the reason is in approvals.',
  expired: 'Nobody decided in time. Ask the user before you try again.',
  interrupted: 'The outcome is unknown: the call was cut after it may have been sent. Do not repeat it; ask the user to check what happened.',
  function_failed: 'The function answered with an error, which is in result.',
  call_failed: 'The call came to nothing; result says why.',
  stopped: 'It was stopped.',
  max_turns: 'It reached its limit of model calls. Send a message to the same session_id to go on.',
  deadline: 'It reached its time limit.',
  model_unavailable: 'The model could not be used; detail says why. Tell the user; nothing is wrong with the request.',
  context_overflow: 'The conversation is too long for the model. Begin a new session with a summary.',
}

/** For a model: what to do about this turn. */
export function nextForModel(view: TurnView, at: Surroundings): string {
  switch (view.state) {
    case 'held':
      return heldForModel(view, at)
    case 'working':
      return `Still working. Do not send it again. ${lookAgain(view)}${pausing(view, at)}`
    case 'completed':
      return 'Done; nothing is left to do for this turn.'
    case 'failed':
    case 'cancelled':
      if (view.calls.at(-1)?.reason === 'invalid_arguments')
        return 'The arguments do not fit the function; result says how. Correct them and call it again.'
      return endings[view.reason ?? ''] ?? 'It ended without success; reason and detail say why.'
  }
}

function heldForModel(view: TurnView, at: Surroundings): string {
  const waiting = pending(view)
  const [first] = waiting
  if (first === undefined) return `Waits for a person. ${lookAgain(view)}`
  const which = waiting.map((approval) => `${approval.function_id} (${approval.approval_id})`).join(', ')
  return (
    `Waits for a person: ${which}. Do not retry and do not try to decide. ${decideForModel(first, at)} ` +
    `After that: ${lookAgain(view)}${pausing(view, at)}`
  )
}

/** For a model: where a person decides, since it cannot. */
export function decideForModel({ approval_id, expires_at }: Pick<ApprovalView, 'approval_id' | 'expires_at'>, at: Surroundings): string {
  const key = at.hasApprover ? '' : `Nobody can decide yet: first the user makes an approver's key with \`${at.command('init')}\`. `
  return (
    `${key}Tell the user to look and decide in a terminal with \`${at.command(`approvals approve ${approval_id}`)}\` or ` +
    `\`${at.command(`approvals reject ${approval_id} --reason "…"`)}\`, until ${instant(expires_at)}.`
  )
}

function lookAgain({ turn_id }: TurnView): string {
  return `Call get_turn with turn_id ${turn_id} and wait_seconds 45 for the outcome.`
}

function pausing(view: TurnView, at: Surroundings): string {
  return at.runsHere ? ' This server runs the turn itself: it pauses when the server exits and goes on at its next start.' : ` Worker: ${view.worker}`
}

/** The approvals of a turn that wait for an answer. */
export function pending(view: Pick<TurnView, 'approvals'>): readonly ApprovalView[] {
  return view.approvals.filter((approval) => approval.status === 'pending')
}

/** A moment, in UTC and to the second. */
export function instant(at: number): string {
  return new Date(at).toISOString().replace(/\.\d{3}Z$/, 'Z')
}

/** How long, in the two largest units that matter. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  const units = [
    ['d', 86_400],
    ['h', 3_600],
    ['min', 60],
    ['s', 1],
  ] as const
  const at = units.findIndex(([, size]) => seconds >= size)
  if (at < 0) return '0 s'
  const [unit, size] = units[at] ?? ['s', 1]
  const [smaller, smallerSize] = units[at + 1] ?? ['', 0]
  const rest = smallerSize === 0 ? 0 : Math.floor((seconds % size) / smallerSize)
  return `${String(Math.floor(seconds / size))} ${unit}${rest === 0 ? '' : ` ${String(rest)} ${smaller}`}`
}
