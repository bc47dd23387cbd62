'use strict'
/* Once after all end-to-end tests: removes what was made once for the run. */
const { rmSync } = require('node:fs')

module.exports = function tearDown() {
  rmSync(process.env.AGENT_HARNESS_E2E_RUN, { recursive: true, force: true, maxRetries: 5 })
}
