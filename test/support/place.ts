/*
 * A whole harness in the test's process on a database in a folder of its own: real store, real policy, real signatures; only the model is
 * scripted and functions answer from a table unless a test gives an address.
 */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Clock } from '../../core/clock'
import type { Json } from '../../core/digest'
import type { FunctionCall, FunctionOutcome, FunctionSource } from '../../core/functions/function'
import { openHome, type Home } from '../../core/home'
import type { Caller, Scope } from '../../core/identity/principal'
import { silentLog } from '../../core/log'
import { scriptedModel, type Script, type ScriptedModel } from '../../core/model/scripted'
import { openHarness, type OpenHarness, type OpenOptions } from '../../core/open-harness'
import { signDecision } from '../../core/approvals/decide'
import type { OutputOf } from '../../core/protocol/operations'

/** Look up: a read. Refund: a write, high risk. Note: a write that a rule lets pass. Set: an idempotent write that a rule lets pass. */
export const shopConfig = (publicKey: string, extra = ''): string => `
deployment: d_00000000000000000000000000000000
principals:
  local: { roles: [owner], scopes: ["turns:write", "turns:read", "identity:read", "approvals:decide", awaits, "functions:register", admin] }
  second: { roles: [owner] }
  watcher: { roles: [operator] }
approvers:
  - { name: alice, public_key: "${publicKey}", roles: [approver] }
policy:
  functions: { allow: ["shop::*"], deny: ["shop::secret*"] }
  rules:
    - { id: notes_pass, functions: "shop::note", effect: allow, reason: Notes are harmless. }
    - { id: set_passes, functions: "shop::set", effect: allow, reason: Setting is repeatable. }
functions:
  shop::look_up: { description: Look up an order., side_effects: read, risk: low, schema: { type: object, properties: { order: { type: string } }, required: [order] }, http: { url: "http://127.0.0.1:1/look_up" } }
  shop::refund: { description: Refund an order., risk: high, schema: { type: object, properties: { order: { type: string }, amount: { type: number } }, required: [order, amount], additionalProperties: false }, http: { url: "http://127.0.0.1:1/refund" } }
  shop::note: { description: Write a note., risk: low, schema: { type: object, properties: { text: { type: string } }, required: [text] }, http: { url: "http://127.0.0.1:1/note" } }
  shop::set: { description: Set a value., risk: low, idempotent: true, schema: { type: object, properties: { value: { type: number } }, required: [value] }, http: { url: "http://127.0.0.1:1/set" } }
  shop::secret_drop: { description: Never., risk: low, side_effects: read, schema: { type: object }, http: { url: "http://127.0.0.1:1/secret" } }
${extra}`

export interface FakeFunctions extends FunctionSource {
  readonly sent: readonly FunctionCall[]
  /** How often a function was sent. */
  count(functionId: string): number
  answer(functionId: string, answer: (call: FunctionCall, signal: AbortSignal) => FunctionOutcome | Promise<FunctionOutcome>): void
}

export function fakeFunctions(): FakeFunctions {
  const sent: FunctionCall[] = []
  const answers = new Map<string, (call: FunctionCall, signal: AbortSignal) => FunctionOutcome | Promise<FunctionOutcome>>()
  return {
    sent,
    count: (functionId) => sent.filter((call) => call.entry.id === functionId).length,
    answer: (functionId, answer) => { answers.set(functionId, answer) },
    call: async (call, signal) => {
      sent.push(call)
      return (await answers.get(call.entry.id)?.(call, signal)) ?? { kind: 'answered', value: { ok: true }, is_error: false }
    },
  }
}

export interface Place {
  readonly folder: string
  readonly home: Home
  readonly harness: OpenHarness
  readonly model: ScriptedModel
  readonly functions: FakeFunctions
  readonly key: KeyObject
  readonly caller: Caller
  callerOf(principal: string, scopes?: readonly Scope[]): Caller
  /** Signs as alice and decides. */
  decide(approvalId: string, decision: 'approve' | 'reject', reason?: string | null): Promise<OutputOf<'decide_approval'>>
  run(functionId: string, args: Json, waitSeconds?: number): Promise<OutputOf<'trigger'>>
  /** Sends and waits until held or over. */
  say(message: string, more?: { session_id?: string }): Promise<NonNullable<OutputOf<'status'>>>
  turn(turnId: string, waitSeconds?: number): Promise<NonNullable<OutputOf<'status'>>>
  /** Closes this harness and opens another one on the same folder. */
  reopen(options?: Partial<OpenOptions>): Promise<Place>
  close(): Promise<void>
}

export interface PlaceOptions extends Partial<OpenOptions> {
  readonly script?: Script
  readonly folder?: string
  readonly config?: (publicKey: string) => string
  readonly clock?: Clock
  readonly key?: KeyObject
  readonly functions?: FakeFunctions
}

const open = new Set<Place>()
const folders = new Set<string>()

export async function openPlace(options: PlaceOptions = {}): Promise<Place> {
  const folder = options.folder ?? mkdtempSync(path.join(tmpdir(), 'harness-place-'))
  folders.add(folder)
  const pair = generateKeyPairSync('ed25519')
  const key = options.key ?? pair.privateKey
  const publicKey = pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
  if (options.folder === undefined) writeFileSync(path.join(folder, 'harness.yaml'), (options.config ?? shopConfig)(publicKey), { mode: 0o600 })
  const home = await openHome(folder)
  const model = scriptedModel(options.script ?? [{ text: 'Hello.' }])
  const functions = options.functions ?? fakeFunctions()
  const harness = await openHarness({ home, env: {}, log: silentLog, program: 'serve', worker: true, model, wrapSource: () => functions, ...options })
  const caller = harness.localCaller('test')
  const place: Place = {
    folder, home, harness, model, functions, key, caller,
    callerOf: (principal, scopes) => {
      const grant = harness.authority().grants.get(principal)
      if (grant === undefined) throw new Error(`no principal ${principal}`)
      return { ...caller, principal: scopes === undefined ? grant.principal : { ...grant.principal, scopes } }
    },
    async decide(approvalId, decision, reason = decision === 'reject' ? 'no' : null) {
      const approval = await harness.get_approval({ approval_id: approvalId }, caller)
      const decided_at = (options.clock ?? Date).now()
      const signed = signDecision(key, approval.approval_digest, { decision, approver: 'alice', decided_at, reason, channel: 'command_line' })
      return harness.decide_approval({ approval_id: approvalId, ...signed }, caller)
    },
    run: (functionId, args, waitSeconds = 10) => harness.trigger({ call: { function_id: functionId, arguments: args }, wait_seconds: waitSeconds }, caller),
    async say(message, more = {}) {
      const sent = await harness.send({ message, ...more }, caller)
      return place.turn(sent.turn_id)
    },
    async turn(turnId, waitSeconds = 10) {
      const turn = await harness.status({ turn_id: turnId, wait_seconds: waitSeconds }, caller)
      if (turn === null) throw new Error(`no turn ${turnId}`)
      return turn
    },
    async reopen(more = {}) {
      await place.close()
      return openPlace({ ...options, folder, key, functions, ...more })
    },
    async close() {
      open.delete(place)
      await harness.close()
    },
  }
  open.add(place)
  return place
}

/** For afterEach: closes what a test left open and removes the folders. */
export async function closePlaces(): Promise<void> {
  for (const place of [...open]) await place.close()
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  folders.clear()
}
