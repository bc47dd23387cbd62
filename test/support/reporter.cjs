'use strict'
/*
 * Closes every run with one line, `N passed, N failed`, alone and last on stdout, for people and for .ci/run. Stricter than jest:
 * a suite that does not load is a failure, a run without a single test is one, and so is a run that leaves something open behind it.
 */
const { writeSync } = require('node:fs')

const leftOpenAfter = 30_000

class ClosingLine {
  #counts = null

  constructor() {
    process.on('exit', () => this.#print())
  }

  onRunComplete(_contexts, results) {
    const { numPassedTests: passed, numFailedTests, numRuntimeErrorTestSuites, numPendingTests, numTodoTests, wasInterrupted } = results
    const failed = numFailedTests + numRuntimeErrorTestSuites
    this.#counts = { passed, failed, skipped: numPendingTests + numTodoTests }
    if (passed + failed === 0) this.#fail('No test was run.')
    if (wasInterrupted) this.#fail('The run was interrupted.')
    // jest ends by itself when nothing is open; an open handle would keep it here for ever
    setTimeout(() => {
      this.#fail('A test left a timer, a connection or a process open.')
      process.exit(1)
    }, leftOpenAfter).unref()
  }

  /** Asked by jest after the run; an error makes the run fail. */
  getLastError() {
    return this.#counts?.failed > 0 ? new Error('There were failures.') : undefined
  }

  #fail(why) {
    process.stderr.write(`${why}\n`)
    this.#counts.failed += 1
  }

  #print() {
    const { passed, failed, skipped } = this.#counts ?? { passed: 0, failed: 1, skipped: 0 }
    const line = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`
    for (;;) {
      try {
        return writeSync(1, line)
      } catch (error) {
        // a pipe that is full for the moment
        if (error.code !== 'EAGAIN') return undefined
      }
    }
  }
}

module.exports = ClosingLine
