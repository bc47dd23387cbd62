/*
 * A Harness that is somewhere else: every operation of the table as POST /v1/<operation>. Who calls is known by the token, so the caller
 * that a method is given counts for nothing. Throws HarnessErrors as the harness there does, `harness_unreachable` when none answered,
 * and passes an answer on only when it is one of the operation. Sends each request once: whether to repeat it is the caller's to know.
 */
import { errorCodes, HarnessError, isHarnessError, type ErrorCode } from '../errors'
import type { Caller } from '../identity/principal'
import { jsonProblem, parseStrictJson } from '../json'
import { inputLimits, operations, type Harness, type OperationName } from './operations'

/** Sends one request. Rejects when there was no HTTP answer; any answer, of any status and form, is an answer. */
export type Post = (path: string, body: unknown, signal?: AbortSignal) => Promise<{ readonly status: number; readonly body: unknown }>

export interface RemoteOptions {
  /** For messages: where the harness should be. */
  readonly address?: string
}

/** The harness behind `post`. */
export function remoteHarness(post: Post, { address }: RemoteOptions = {}): Harness {
  const at = address === undefined ? '' : ` at ${address}`
  const names = Object.keys(operations) as OperationName[]
  const methods = names.map((name) => [name, (input: unknown, _caller?: Caller, signal?: AbortSignal) => ask(name, { input, post, at, signal })])
  return Object.fromEntries(methods) as Harness
}

interface Asked {
  readonly input: unknown
  readonly post: Post
  readonly at: string
  readonly signal: AbortSignal | undefined
}

async function ask(name: OperationName, { input, post, at, signal }: Asked): Promise<unknown> {
  // JSON.stringify would leave out, or change, what the harness is to refuse
  const problem = jsonProblem(input ?? null, inputLimits)
  if (problem !== null) throw new HarnessError('invalid_input', `${name}: the input ${problem}.`)
  let answer: Awaited<ReturnType<Post>>
  try {
    answer = await post(`/v1/${name}`, input ?? null, signal)
  } catch (error) {
    if (isHarnessError(error)) throw error
    if (signal?.aborted === true) {
      throw new HarnessError('harness_unreachable', `${name}: who asked did not wait for the answer of the harness${at}. What was started there goes on.`, { cause: error })
    }
    const said = why(error)
    throw new HarnessError('harness_unreachable', `${name}: no harness answers${at}${said}. ${surelyUnsent.test(said) ? '' : 'It may have got the request all the same. '}Is "agent-harness serve" running there, and is the address right?`, { cause: error })
  }
  if (answer.status !== 200) throw errorOf(name, answer, at)
  const parsed = operations[name].output.safeParse(answer.body)
  if (parsed.success) return answer.body
  const [issue] = parsed.error.issues
  const where = issue === undefined || issue.path.length === 0 ? '' : ` (${issue.path.join('.').slice(0, 200)})`
  throw new HarnessError('invariant_broken', `${name}: the answer of the harness${at} is not of the form it should have${where}. It was asked once and may have done it. Are both of the same version?`)
}

const surelyUnsent = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH/

/** The code of what the network said, which names neither path nor secret. */
function why(error: unknown): string {
  const code: unknown = isRecord(error) ? (isRecord(error['cause']) ? error['cause']['code'] : error['code']) : undefined
  return typeof code === 'string' && /^[A-Z_]{2,40}$/.test(code) ? ` (${code})` : ''
}

function errorOf(name: OperationName, { status, body }: Awaited<ReturnType<Post>>, at: string): HarnessError {
  const error = isRecord(body) ? body['error'] : undefined
  if (!isRecord(error) || typeof error['code'] !== 'string' || typeof error['message'] !== 'string') {
    if (status === 401) return new HarnessError('unauthenticated', `${name}: the token was not taken${at}.`)
    return new HarnessError('harness_unreachable', `${name}: what answers${at} is no harness, or something between stood in the way (HTTP ${String(status)}).`)
  }
  const { code, message, data } = error
  if (Object.hasOwn(errorCodes, code)) return new HarnessError(code as ErrorCode, message, isRecord(data) ? { data: { ...data } } : {})
  return new HarnessError('invariant_broken', `${name}: the harness${at} answers with an error that this version does not know (${code.slice(0, 64)}): ${message}`)
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** More than any answer should be. */
const answerLimits = { bytes: 32 * 1024 * 1024, depth: 256 }

/** Posts over Node's own fetch. Follows no redirect, since the token is for this address alone. */
export function postTo(address: string, token: string): Post {
  const base = address.replace(/\/+$/, '')
  return async (path, body, signal) => {
    const answer = await fetch(`${base}${path}`, {
      method: 'POST',
      headers: { 'authorization': `Bearer ${token}`, 'content-type': 'application/json', 'accept': 'application/json' },
      body: JSON.stringify(body),
      redirect: 'manual',
      ...(signal === undefined ? {} : { signal }),
    })
    return { status: answer.status, body: jsonOf(await answer.text()) }
  }
}

/** What is no JSON is no answer of a harness. */
function jsonOf(text: string): unknown {
  try {
    return parseStrictJson(text, answerLimits)
  } catch {
    return undefined
  }
}
