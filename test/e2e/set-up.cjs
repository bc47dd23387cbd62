'use strict'
/* Once before all end-to-end tests: n8n is installed, and there is a folder for what is made once a run. */
const { mkdtempSync, writeSync } = require('node:fs')
const { tmpdir } = require('node:os')
const path = require('node:path')
const { ensureN8n } = require('../../scripts/n8n.cjs')

module.exports = async function setUp() {
  try {
    await ensureN8n()
  } catch (error) {
    // jest ends here, before there is a reporter; the closing line comes all the same
    writeSync(1, '0 passed, 1 failed\n')
    throw error
  }
  process.env.AGENT_HARNESS_E2E_RUN = mkdtempSync(path.join(tmpdir(), 'harness-e2e-'))
}
