/* Compares the promises of test/requirements.ts with the ids that stand in the titles of tests, so that none is forgotten or invented. */
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { requirements } from '../requirements'

const folder = join(__dirname, '..')

/** Titles of it() and test(), also of a table (`it.each(...)('title')`); skipped and planned ones hold nothing. */
const title = /(?:\b(?:it|test)(?:\.(?:only|concurrent|failing))*|\))\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1\s*,/g

const cited = new Map<string, string>()
for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))) {
  for (const [, , text = ''] of readFileSync(join(folder, file), 'utf8').matchAll(title)) {
    for (const [, id = ''] of text.matchAll(/\[([a-z0-9-]+\.[a-z0-9.-]+)\]/g)) cited.set(id, file)
  }
}

it('[house.coverage] every promise is cited by a test or says why it cannot be held yet', () => {
  const open = requirements.filter(({ id, deferred }) => deferred === undefined && !cited.has(id))
  expect(open.map(({ id, sentence }) => `${id}: ${sentence}`)).toEqual([])
})

it('no test cites a promise that does not exist', () => {
  const known = new Set(requirements.map(({ id }) => id))
  expect([...cited].filter(([id]) => !known.has(id)).map(([id, file]) => `${file}: [${id}]`)).toEqual([])
})

it('no promise is deferred that a test already holds', () => {
  expect(requirements.filter(({ id, deferred }) => deferred !== undefined && cited.has(id)).map(({ id }) => id)).toEqual([])
})

it('promises have readable ids, each its own', () => {
  const ids = requirements.map(({ id }) => id)
  expect(ids.filter((id, index) => !/^[a-z0-9-]+\.[a-z0-9-]+$/.test(id) || ids.indexOf(id) !== index)).toEqual([])
})
