'use strict'
/*
 * The whole of `npm run lint`: the rules on every source file, then the types of the tests, which the test run itself does not check.
 * Both always run, so that one look shows everything.
 */
const { spawnSync } = require('node:child_process')
const path = require('node:path')

const root = path.join(__dirname, '..')
const checks = [
  ['eslint/bin/eslint.js', '.', '--max-warnings', '0', ...process.argv.slice(2)],
  ['typescript/bin/tsc', '-p', 'test'],
]

let failures = 0
for (const [program, ...args] of checks) {
  const done = spawnSync(process.execPath, [path.join(root, 'node_modules', program), ...args], { cwd: root, stdio: 'inherit' })
  if (done.status !== 0) failures += 1
}
process.exit(failures === 0 ? 0 : 1)
