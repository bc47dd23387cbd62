/*
 * What the children of the crash matrix do: what the model says, what a person does, and how every call and turn must end. Each script
 * asks for a deed once, so that a second request for it is a second doing of it.
 */

export type PersonStep =
  | { readonly do: 'send'; readonly key: string; readonly message: string; readonly session_of?: string }
  | { readonly do: 'trigger'; readonly key: string; readonly function_id: string; readonly arguments: object }
  | { readonly do: 'decide'; readonly of: string; readonly decision: 'approve' | 'reject' }
  /** By name, on the approval page. */
  | { readonly do: 'answer'; readonly of: string; readonly decision: 'approve' | 'reject' }
  | { readonly do: 'stop'; readonly of: string }
  | { readonly do: 'until_sent'; readonly of: string; readonly function_id: string }
  | { readonly do: 'until_held'; readonly of: string }
  | { readonly do: 'until_over' }
  /** As a workflow does that waits for the turn: once, and again only where it got no answer. */
  | { readonly do: 'await'; readonly of: string }
  /** Until the await is over, by its row. */
  | { readonly do: 'until_told' }
  | { readonly do: 'wait'; readonly ms: number }

export interface ScriptedCall {
  readonly function_id: string
  readonly arguments: object
  readonly ends: string
  /** Other ends that a crash at the right moment may bring; `absent`: it was never asked for. */
  readonly orElse?: readonly string[]
}

export interface ScriptedTurn {
  /** The step that begins it. */
  readonly key: string
  /** The reason, or for what it is parked. */
  readonly ends: readonly [status: string, reason: string]
  readonly orElse?: readonly (readonly [status: string, reason: string])[]
}

export interface CrashScript {
  readonly name: string
  /** As `parseScript` reads it. */
  readonly model: unknown
  readonly steps: readonly PersonStep[]
  readonly calls: readonly ScriptedCall[]
  readonly turns: readonly ScriptedTurn[]
  /** A function whose answer never comes. */
  readonly held?: string
  /** Somebody waits for the turn: when all is over they were told of its end. */
  readonly isAwaited?: boolean
}

/** Of the one await of a script. */
export const scriptedAwaitId = 'await_of_a_crash_script'

const call = (name: string, given: object, ends: string): ScriptedCall => ({ function_id: `shop::${name}`, arguments: given, ends })
const asks = (...calls: readonly ScriptedCall[]): object => ({
  calls: calls.map(({ function_id, arguments: given }) => ({ function_id, arguments: given })),
})
const say = (message: string): PersonStep => ({ do: 'send', key: 'first', message })
const over: PersonStep = { do: 'until_over' }
const done: readonly ScriptedTurn[] = [{ key: 'first', ends: ['completed', 'done'] }]

const lookUp = call('look_up', { order: 'A-1' }, 'succeeded')
const note = call('note', { text: 'called' }, 'succeeded')
const refund = call('refund', { order: 'A-1', amount: 20 }, 'succeeded')
const rejected = { ...refund, ends: 'rejected' }
const set = call('set', { value: 7 }, 'succeeded')
const transfer = call('transfer', { amount: 1000 }, 'expired')
const secret = call('secret', {}, 'denied')
const unknown = call('no_such_thing', { a: 1 }, 'denied')
const together = [lookUp, note, call('look_up', { order: 'B-2' }, 'succeeded'), call('note', { text: 'called again' }, 'succeeded')]
const slow: ScriptedCall = { ...call('slow', { text: 'for long' }, 'interrupted'), orElse: ['denied', 'absent'] }

export const readThenWrite: CrashScript = {
  name: 'a read, a write that a rule lets pass, an answer',
  model: [{ text: 'I look.', ...asks(lookUp) }, asks(note), { text: 'Noted.' }],
  steps: [say('Look and note.'), over], calls: [lookUp, note], turns: done,
}

export const approvedRefund: CrashScript = {
  name: 'a refund that waits and is approved',
  model: [{ text: 'I refund.', ...asks(refund) }, { text: 'Refunded.' }],
  steps: [say('Refund A-1.'), { do: 'decide', of: 'first', decision: 'approve' }, over], calls: [refund], turns: done,
}

export const rejectedRefund: CrashScript = {
  name: 'a refund that waits and is rejected',
  model: [asks(refund), { text: 'It was rejected.' }],
  steps: [say('Refund A-1.'), { do: 'decide', of: 'first', decision: 'reject' }, over], calls: [rejected], turns: done,
}

export const idempotentWrite: CrashScript = {
  name: 'an idempotent write',
  model: [asks(set), { text: 'Set.' }],
  steps: [say('Set it.'), over], calls: [set], turns: done,
}

export const severalAtOnce: CrashScript = {
  name: 'two reads and two writes in one round',
  model: [asks(...together), { text: 'All done.' }],
  steps: [say('Do it all.'), over], calls: together, turns: done,
}

export const deniedCall: CrashScript = {
  name: 'calls that policy denies',
  model: [asks(secret, unknown), { text: 'I may not.' }],
  steps: [say('Tell the secret.'), over], calls: [secret, unknown], turns: done,
}

export const triggeredRefund: CrashScript = {
  name: 'one function without a model, approved',
  model: [{ text: 'Nobody asks me.' }],
  steps: [
    { do: 'trigger', key: 'first', function_id: refund.function_id, arguments: refund.arguments }, { do: 'decide', of: 'first', decision: 'approve' },
    over,
  ],
  calls: [refund], turns: done,
}

export const messageAndStop: CrashScript = {
  name: 'a message to a running turn, and a stop inside a write of another',
  model: {
    cases: [
      { when: 'delivery', replies: [asks(lookUp), { text: 'Looked up.' }] },
      { when: 'thank', replies: [asks(note), { text: 'Thanked.' }] },
      { when: 'long', replies: [asks(slow), { text: 'It takes long.' }] },
    ],
  },
  steps: [
    say('Where is the delivery?'), { do: 'until_sent', of: 'first', function_id: 'shop::look_up' },
    { do: 'send', key: 'second', message: 'And thank the customer.', session_of: 'first' },
    { do: 'send', key: 'other', message: 'Do what takes long.' }, { do: 'until_sent', of: 'other', function_id: 'shop::slow' },
    { do: 'stop', of: 'other' }, over,
  ],
  calls: [lookUp, note, slow],
  turns: [...done, { key: 'second', ends: ['completed', 'done'] }, { key: 'other', ends: ['cancelled', 'stopped'], orElse: [['completed', 'done']] }],
  held: 'shop::slow',
}

export const expiringApproval: CrashScript = {
  name: 'an approval that nobody decides in time',
  model: [asks(transfer), { text: 'Nobody answered.' }],
  steps: [say('Transfer it.'), over], calls: [transfer], turns: done,
}

export const undecidedRefund: CrashScript = {
  name: 'a refund that nobody has decided yet',
  model: [asks(refund), { text: 'Nobody hears this.' }],
  steps: [say('Refund A-1.'), { do: 'until_held', of: 'first' }], calls: [{ ...refund, ends: 'held' }],
  turns: [{ key: 'first', ends: ['awaiting_functions', 'approval'] }],
}

export const awaitedRefund: CrashScript = {
  name: 'a refund that somebody waits for to be called back',
  model: [asks(refund), { text: 'Refunded.' }],
  steps: [say('Refund A-1.'), { do: 'await', of: 'first' }, { do: 'decide', of: 'first', decision: 'approve' }, over, { do: 'until_told' }],
  calls: [refund], turns: done, isAwaited: true,
}

export const crashScripts: readonly CrashScript[] = [
  readThenWrite, approvedRefund, triggeredRefund, rejectedRefund, undecidedRefund, expiringApproval, idempotentWrite, severalAtOnce, deniedCall,
  messageAndStop, awaitedRefund,
]
