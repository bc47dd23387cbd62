/* The demo's side of the process that runs the harness: starts it, hears what it reports, kills it without a warning. */
import { fork } from 'node:child_process'
import { join } from 'node:path'

/** What the process tells: it works; a request left; the head of an answer came; none came; it cannot go on. */
export type Report =
  | { readonly event: 'ready' }
  | { readonly event: 'request'; readonly what: string }
  | { readonly event: 'answer'; readonly status: number }
  | { readonly event: 'no_answer' | 'broken'; readonly message: string }

/** The end of the demo before its time, in words for people. */
export class DemoFailure extends Error {}

/** Longest wait for any one thing. */
export const limitSeconds = 30

export interface HarnessProcess {
  readonly pid: number
  /** It runs the turns. */
  readonly ready: Promise<unknown>
  /** HTTP status of the first answer to a call. */
  readonly answered: Promise<number>
  /** What was asked of others over HTTP, like `POST /refund`. */
  readonly requests: readonly string[]
  /** As `work` settles; rejects with a {@link DemoFailure} when the time is over or the process is. */
  unlessItFails<T>(what: string, work: Promise<T>): Promise<T>
  /** SIGKILL. Resolves when it is gone. */
  kill(): Promise<void>
  /** The signal that ended it, null when it runs or ended by itself. */
  endedBy(): NodeJS.Signals | null
  /** Orderly end. */
  close(): Promise<void>
}

export function startHarnessProcess(databasePath: string): HarnessProcess {
  const child = fork(join(__dirname, 'child.js'), [databasePath], { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const ready = promised<null>()
  const answered = promised<number>()
  const failed = promised<never>()
  // one that could not be started has no end
  const gone = child.pid === undefined ? Promise.resolve() : new Promise<void>((resolve) => { child.once('exit', () => { resolve() }) })
  const requests: string[] = []
  const end = (): void => { child.kill('SIGKILL') }
  // before what removes its files
  process.prependOnceListener('exit', end)
  const name = `Harness process ${String(child.pid)}`

  child.on('message', (message) => {
    const report = message as Report
    if (report.event === 'ready') ready.resolve(null)
    else if (report.event === 'request') requests.push(report.what)
    else if (report.event === 'answer') answered.resolve(report.status)
    else failed.reject(new DemoFailure(`${report.event === 'broken' ? `${name} could not start.` : 'The shop gave no answer.'} ${report.message}`))
  })
  child.once('error', (error) => { failed.reject(new DemoFailure(`${name} could not be started: ${error.message}`)) })
  child.once('exit', (code, signal) => {
    process.off('exit', end)
    failed.reject(new DemoFailure(`${name} ended by itself (${signal ?? `exit code ${String(code)}`}).`))
  })

  return {
    pid: child.pid ?? 0,
    ready: ready.promise,
    answered: answered.promise,
    requests,
    unlessItFails: (what, work) => {
      const late = promised<never>()
      const timer = setTimeout(() => { late.reject(new DemoFailure(`${what}: not within ${String(limitSeconds)} s.`)) }, limitSeconds * 1000)
      return Promise.race([work, failed.promise, late.promise]).finally(() => { clearTimeout(timer) })
    },
    async kill() {
      end()
      await gone
    },
    endedBy: () => child.signalCode,
    async close() {
      child.send('close')
      const timer = setTimeout(end, limitSeconds * 1000)
      await gone
      clearTimeout(timer)
    },
  }
}

interface Promised<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(error: Error): void
}

/** A promise to keep later. One that nobody waits for may fail. */
function promised<T>(): Promised<T> {
  let [resolve, reject]: [Promised<T>['resolve'], Promised<T>['reject']] = [() => undefined, () => undefined]
  const promise = new Promise<T>((settle, fail) => { [resolve, reject] = [settle, fail] })
  promise.catch(() => undefined)
  return { promise, resolve, reject }
}
