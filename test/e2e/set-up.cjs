'use strict'
/* Once before all end-to-end tests: n8n is installed, and there is a folder for what is made once a run. */
const { mkdtempSync } = require('node:fs')
const { tmpdir } = require('node:os')
const path = require('node:path')
const { ensureN8n } = require('../../scripts/n8n.cjs')

module.exports = async function setUp() {
  await ensureN8n()
  process.env.AGENT_HARNESS_E2E_RUN = mkdtempSync(path.join(tmpdir(), 'harness-e2e-'))
}
