/* A first start that never got through: killed before every statement of the first migrations, and before they are committed. */
import { checkEnd, readObjects } from '../support/crash-check'
import { crashLane, endCrashes, makeCrashHome, type Kill } from '../support/crash-child'
import { readThenWrite } from '../support/crash-scripts'
import { readMigrations } from '../../core/store/migrate'

afterAll(endCrashes)

/** Of each migration: its own, and the two that put it on record. */
const [first = 0, second = 0] = readMigrations('sqlite').map((migration) => migration.statements.length + 2)

/** The places of one home, each reached by the next start. After half the statements of the other half come those of the second migration. */
const chain = (parity: number): { readonly kill: Kill; readonly applied: number }[] => {
  const at = (number: number, applied: number): { kill: Kill; applied: number } => ({ kill: { at: 'statement', number }, applied })
  const every = (count: number): number[] => [...Array.from({ length: count }, (_, index) => index + 1).filter((number) => number % 2 === parity), count + 0.5]
  // the first statement of the second migration is also the end of the first
  return [...every(first).map((number) => at(number, 0)), at(first + 1, 1), ...every(second).map((number) => at(number, 1))]
}

it.each([[0], [1]])('[crash.first-migration] killed between the statements of the first migration, the next start finds all of it undone and does it again (half %i)', async (parity) => {
  const home = await makeCrashHome(readThenWrite)
  const lane = crashLane()
  for (const [index, { kill, applied }] of chain(parity).entries()) {
    const died = await lane.run(home, { kill })
    expect(died).toMatchObject({ signal: 'SIGKILL', report: null })
    expect(home.trace()).toHaveLength(index + 1)
    const objects = readObjects(home)
    if (applied === 0) expect(objects).toEqual([])
    else expect(objects).toEqual(expect.arrayContaining(['turns', 'audit_events', 'checkpoints']))
    expect(objects).not.toContain('executions_are_immutable')
  }
  const end = await lane.run(home)
  await lane.end()
  expect(await checkEnd(home, end, { killed: true, cut: new Set(), leaseUntil: null })).toEqual([])
  expect(readObjects(home)).toContain('executions_are_immutable')
}, 120_000)
