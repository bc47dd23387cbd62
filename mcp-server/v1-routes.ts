/*
 * The operations over HTTP: POST /v1/<operation>, JSON in and out, for programs that hold a token. Nobody without one learns anything,
 * not even which operations there are. A browser gets nothing at all. A request that ends early ends the waiting only. What is not one
 * of our own errors is told in the log alone.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context, Hono, MiddlewareHandler } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { errorCodes, HarnessError, inputLimits, isHarnessError, operations, parseStrictJson, toHarnessError, type Caller, type Log, type OpenHarness, type OperationName } from '../core/index'
import { loopbackOnly, type Mount } from './http'

/** Most bytes of a request. */
export const bodyBytes = 2 * 1024 * 1024

/** So many wrong tokens a second are answered with a delay, the rest at once and short. A good token is never kept waiting by bad ones. */
const failuresPerSecond = 10
const failureDelayMs = 100

export interface V1Parts {
  readonly harness: Pick<OpenHarness, OperationName | 'tokenCaller'>
  readonly log: Log
}

type Answer = Response | Promise<Response>

/** The routes under /v1. */
export function v1Routes({ harness, log }: V1Parts): Mount {
  const failures = failureCount()

  const authenticated = (answer: (context: Context, caller: Caller) => Answer) => async (context: Context): Promise<Response> => {
    try {
      // programs send none; browsers do with every request that could do something
      if (context.req.header('origin') !== undefined) throw new HarnessError('forbidden', 'This interface is for programs, not for pages in a browser.')
      const caller = await callerOf(context)
      return await answer(context, caller)
    } catch (error) {
      return refuse(context, error)
    }
  }

  async function callerOf(context: Context): Promise<Caller> {
    const [, token] = /^Bearer +([\x21-\x7e]{1,200})$/i.exec(context.req.header('authorization') ?? '') ?? []
    const caller = token === undefined ? null : await harness.tokenCaller(token)
    if (caller !== null) return caller
    if (!failures.add()) throw new HarnessError('limit_reached', 'Too many requests without a token that counts. Wait a little.')
    await sleep(failureDelayMs)
    throw new HarnessError('unauthenticated', 'This needs a token that counts, as "Authorization: Bearer …". A person makes one with "agent-harness tokens add".')
  }

  function refuse(context: Context, thrown: unknown): Response {
    const error = toHarnessError(thrown)
    const { http, fault } = errorCodes[error.code]
    if (fault === 'us' || !isHarnessError(thrown)) log.error({ path: context.req.path.slice(0, 100), err: thrown }, 'request failed unexpectedly')
    else log.debug({ path: context.req.path.slice(0, 100), code: error.code }, 'request refused')
    if (http === 401) context.header('WWW-Authenticate', 'Bearer realm="agent-harness"')
    if (error.code === 'limit_reached') context.header('Retry-After', '1')
    const status = (thrown instanceof Unsupported ? thrown.status : http) as ContentfulStatusCode
    return context.json({ error: { code: error.code, message: error.message, retry: error.retry, data: error.data } }, status)
  }

  async function operate(context: Context, caller: Caller): Promise<Response> {
    const name = context.req.param('operation') ?? ''
    if (!isOperation(name)) throw new HarnessError('not_found', 'There is no such operation. GET /v1 names those there are.')
    if (context.req.method !== 'POST') throw new Unsupported(405, `${name} is asked for with POST.`)
    // as deep as the core takes it, so that its own word on depth is heard
    const input = parseStrictJson(await bodyOf(context), { bytes: bodyBytes, depth: inputLimits.depth })
    // the types of input and answer belong to the same name
    const operation = harness[name] as (input: unknown, caller: Caller, signal: AbortSignal) => Promise<object | null>
    return context.json(await operation(input, caller, context.req.raw.signal))
  }

  return (app: Hono) => {
    app.use('/v1/*', neverKept, loopbackOnly)
    app.get('/v1', authenticated((context, { principal }) => {
      return context.json({ operations: Object.entries(operations).map(([name, { description, scope }]) => ({ name, description, scope, allowed: principal.scopes.includes(scope) })) })
    }))
    app.all('/v1/:operation', authenticated(operate))
    app.all('/v1/*', authenticated(() => {
      throw new HarnessError('not_found', 'There is nothing here. GET /v1 names the operations there are.')
    }))
  }
}

const neverKept: MiddlewareHandler = async (context, next) => {
  context.header('Cache-Control', 'no-store')
  context.header('X-Content-Type-Options', 'nosniff')
  return next()
}

function isOperation(name: string): name is OperationName {
  return Object.hasOwn(operations, name)
}

/** What HTTP has a status of its own for; to a program it is input like other input. */
class Unsupported extends HarnessError {
  constructor(readonly status: 405 | 415, message: string) {
    super('invalid_input', message)
  }
}

/** The body as text, read no further than is allowed. None at all is the empty input: n8n sends no body where a node gives it `{}`. */
async function bodyOf(context: Context): Promise<string> {
  const type = context.req.header('content-type') ?? ''
  if (type === '' && Number(context.req.header('content-length') ?? 0) === 0 && context.req.header('transfer-encoding') === undefined) return '{}'
  if (!/^application\/json *(; *charset *= *"?utf-8"? *)?$/i.test(type)) throw new Unsupported(415, 'The body must be JSON: Content-Type: application/json, in UTF-8.')
  if (!/^(identity)?$/i.test(context.req.header('content-encoding') ?? '')) throw new Unsupported(415, 'The body must not be compressed.')
  const tooLarge = (): HarnessError => new HarnessError('too_large', `A request has at most ${String(bodyBytes)} bytes.`)
  if (Number(context.req.header('content-length') ?? 0) > bodyBytes) throw tooLarge()
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of (context.req.raw.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    if (bytes > bodyBytes) throw tooLarge()
    chunks.push(chunk)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  } catch (error) {
    throw new HarnessError('invalid_input', 'The body is not UTF-8.', { cause: error })
  }
}

/** Counts what happens in one second; false when it is too much. */
function failureCount(): { add(): boolean } {
  let second = 0
  let count = 0
  return {
    add() {
      const now = Math.floor(performance.now() / 1_000)
      if (now !== second) count = 0
      second = now
      count += 1
      return count <= failuresPerSecond
    },
  }
}
