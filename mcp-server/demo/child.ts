/*
 * The harness of the demo as a process of its own, made to be killed. It tells its parent what happens on the wire and keeps a good answer
 * to itself: between the first byte of that answer and the outcome on record there is then all the time a SIGKILL needs.
 * Whatever else it does is what `serve` does. It ends when its parent is gone.
 */
import { subscribe } from 'node:diagnostics_channel'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { openHarness, openHome, scriptedModel, toHarnessError, type FunctionSource } from '../../core/index'
import { stderrLog } from '../logging'
import type { Report } from './harness-process'
import { script } from './refund'

process.on('disconnect', () => process.exit(1))
run(process.argv[2] ?? '').catch((error: unknown) => {
  report({ event: 'broken', message: toHarnessError(error).message })
  process.exitCode = 1
})

async function run(databasePath: string): Promise<void> {
  let isGood = false
  subscribe('http.client.request.start', (message) => {
    const { method, path } = (message as { request: ClientRequest }).request
    report({ event: 'request', what: `${method} ${path}` })
  })
  // comes with the head of the answer, before anybody reads its body
  subscribe('http.client.response.finish', (message) => {
    const status = (message as { response: IncomingMessage }).response.statusCode ?? 0
    isGood = status >= 200 && status < 300
    report({ event: 'answer', status })
  })
  const withholding = (source: FunctionSource): FunctionSource => ({
    async call(call, signal) {
      const outcome = await source.call(call, signal)
      if (isGood) return new Promise(() => undefined)
      if (outcome.kind !== 'answered') report({ event: 'no_answer', message: outcome.message })
      return outcome
    },
  })
  const harness = await openHarness({
    home: await openHome('', { databasePath }), env: {}, log: stderrLog({ verbose: false, level: 'error' }), program: 'serve', worker: true,
    model: scriptedModel(script), wrapSource: withholding,
  })
  process.once('message', () => {
    void harness.close().then(() => process.exit(0))
  })
  while (harness.workerState().state !== 'working') await sleep(20)
  report({ event: 'ready' })
}

function report(what: Report): void {
  process.send?.(what)
}
