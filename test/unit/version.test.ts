/* The version that programs tell is that of the package. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../core/version'

it('the version in the code is that of package.json', () => {
  const text = readFileSync(join(__dirname, '../../package.json'), 'utf8')
  expect(version).toBe((JSON.parse(text) as { version: string }).version)
})
