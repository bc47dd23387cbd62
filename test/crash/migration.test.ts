/* First starts that never got through: killed before every statement of the first migrations, and right before each is committed. */
import { checkEnd, noCrash, readObjects } from '../support/crash-check'
import { endCrashes, inLanes, makeCrashHome, type Kill } from '../support/crash-child'
import { readThenWrite } from '../support/crash-scripts'
import { openHome } from '../../core/home'
import { readMigrations } from '../../core/store/migrate'

afterAll(endCrashes)

/** Of each migration: its own, and the two that put it on record. */
const [first = 0, second = 0] = readMigrations('sqlite').map((migration) => migration.statements.length + 2)

interface Death {
  readonly kill: Kill
  /** How many migrations are there when it died. */
  readonly applied: number
}

/** Every other statement, one death a start: first those of the first migration, which is undone each time, then those of the second. */
function deaths(parity: number): Death[] {
  const at = (number: number, applied: number): Death => ({ kill: { at: 'statement', number }, applied })
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1)
  const every = (count: number): number[] => [...upTo(count).filter((number) => number % 2 === parity), count + 0.5]
  return [...every(first).map((number) => at(number, 0)), at(first + 1, 1), ...every(second).map((number) => at(number, 1))]
}

it('[crash.first-migration] killed between any two statements of it, a start leaves nothing of a migration, and the next one is usable', async () => {
  await inLanes([0, 1], 2, async (parity, lane) => {
    const home = await makeCrashHome(readThenWrite)
    await openHome(home.folder)
    for (const { kill, applied } of deaths(parity)) {
      expect(await lane.run(home, { kill, migrateOnly: true })).toMatchObject({ signal: 'SIGKILL', errors: '' })
      const objects = readObjects(home)
      if (applied === 0) expect(objects).toEqual([])
      else expect(objects).toContain('audit_events')
      expect(objects).not.toContain('executions_are_immutable')
    }
    expect(home.trace()).toHaveLength(deaths(parity).length)
    const end = await lane.run(home)
    expect(await checkEnd(home, end, { ...noCrash, killed: true })).toEqual([])
    expect(readObjects(home)).toContain('executions_are_immutable')
  })
}, 120_000)

it('[crash.first-migration] a whole first start, killed in the middle of its migration, leaves nothing that the next one stumbles over', async () => {
  await inLanes([2, Math.round(first / 2), first + 0.5, first + 2], 2, async (number, lane) => {
    const home = await makeCrashHome(readThenWrite)
    expect(await lane.run(home, { kill: { at: 'statement', number } })).toMatchObject({ signal: 'SIGKILL', errors: '' })
    const end = await lane.run(home)
    expect(await checkEnd(home, end, { ...noCrash, killed: true })).toEqual([])
  })
}, 60_000)
