/*
 * The life of the stdio server: stdout belongs to JSON-RPC from the first moment, and whatever ends the client ends this process within
 * two seconds. Turns stay on disk; ending only pauses them.
 */
import { PassThrough } from 'node:stream'
import type { Log, OpenHarness } from '../core/index'
import { isHarnessError } from '../core/index'
import type { Invocation } from './invocation'
import { refuseClient } from './refuse-client'
import { serveTools } from './server'
import { stdioTransport } from './stdio-transport'

export interface StdioOptions {
  readonly open: () => Promise<OpenHarness>
  readonly command: Invocation
  readonly log: Log
  /** Default of the tools' `wait_seconds`. */
  readonly wait?: number | undefined
}

/** From the end of stdin to ours, in ms. */
const endWithin = 1_800
const answersWithin = 400
const parentEvery = 500

/** Everything else that writes to stdout goes to stderr from now on. Answers the one way to the client. */
function guardStdout(): typeof process.stdout.write {
  const write = process.stdout.write.bind(process.stdout)
  process.stdout.write = process.stderr.write.bind(process.stderr)
  return write
}

/** Serves until the client goes; then ends the process. */
export async function serveStdio({ open, command, log, wait }: StdioOptions): Promise<void> {
  const write = guardStdout()
  const gone = new AbortController()
  let harness: OpenHarness | null = null
  let idle = async (_withinMs: number): Promise<void> => undefined
  let ending = false

  // read at once, so that the end of the input is seen even while the harness is being opened
  const input = process.stdin.pipe(new PassThrough({ highWaterMark: 1 << 20 }))
  process.stdin.once('end', hurry).once('close', hurry)
  process.stdin.once('error', () => input.end())
  process.stdout.on('error', () => void end('stdout is closed'))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(signal))
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) void end('the parent is gone')
  }, parentEvery).unref()

  try {
    harness = await open()
  } catch (error) {
    log.error({ err: error }, 'cannot start')
    refuseClient(isHarnessError(error) ? error.message : 'agent-harness cannot start; its log has the details.', write, input)
    return
  }
  const caller = harness.localCaller('stdio', ['turns:write', 'turns:read', 'identity:read'])
  const transport = stdioTransport({ input, write: (text) => void write(text), log, onGone: () => void end('stdin ended') })
  const connection = await serveTools({ harness, caller, command, log, wait, gone: gone.signal }, transport)
  idle = (withinMs) => connection.idle(withinMs)

  function hurry(): void {
    setTimeout(() => process.exit(0), endWithin)
  }

  async function end(why: string): Promise<void> {
    if (ending) return
    ending = true
    hurry()
    log.info({ why }, 'ending')
    gone.abort()
    await idle(answersWithin)
    // what does not close in time is closed by the end of the process; it is all on disk
    await harness?.close().catch((error: unknown) => log.warn({ err: error }, 'not closed in order'))
    process.exit(0)
  }
}
