/* Killed between the statements of a commit, inside the database's own transaction: nothing of it may be there. */
import { endCrashes, type Kill } from '../support/crash-child'
import { full, killAll, runUnharmed } from '../support/crash-matrix'
import { approvedRefund } from '../support/crash-scripts'

afterAll(endCrashes)

/** Beyond any statement: they are counted, and nobody dies. */
const never: Kill = { at: 'statement', number: 1e9 }

it('[commit.atomic] killed between the statements of a commit, nothing of it is there, and the turn goes on as if it had never begun', async () => {
  const { end } = await runUnharmed(approvedRefund, never)
  const commits = (end.report?.commits ?? []).filter(({ label }) => label.startsWith('turn: '))
  // one that begins a turn, one that decides, one that sets a write free; all of them in the long form
  const telling = ['execution.accepted', 'approval.decided', 'call.started']
  const some = full ? commits : telling.map((change) => commits.find(({ label }) => label.includes(change))!)
  const places = some.flatMap(({ statements: [from, to] }) => Array.from({ length: to - from }, (_, index) => from + 1 + index).concat(to + 0.5))
  const kills = places.filter((_place, index) => full || index % 2 === 0).map((number): readonly Kill[] => [{ at: 'statement', number }])
  const result = await killAll(approvedRefund, kills)
  expect(result.findings).toEqual([])
  expect(result.kills).toBe(kills.length)
  expect(kills.length).toBeGreaterThan(10)
}, 600_000)
