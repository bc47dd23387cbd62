import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeApproverKey } from '../../core/approvals/key-file'
import { migrate, readMigrations } from '../../core/store/migrate'
import { sqlStore } from '../../core/store/sql-store'
import { openSqlite } from '../../core/store/sqlite'
import type { Store } from '../../core/store/store'
import { lockMs, unlockApprover, type UnlockDependencies } from '../../core/unlock'

const folder = mkdtempSync(join(tmpdir(), 'unlock-test-'))
const passphrase = 'correct horse battery'
let file = ''
let store: Store
let time = 1_000_000
let databases = 0

const clock = { now: () => time, monotonic: () => time }
const readKeyFile = (name: string): Promise<string | null> => Promise.resolve(name === 'anna' || name === 'bert' ? file : null)
const dependencies = (): UnlockDependencies => ({ readKeyFile, store, clock, actor: 'local' })
const attempt = (given: string, name = 'anna'): Promise<string> =>
  unlockApprover(dependencies(), name, given).then((key) => key.type, (error: unknown) => (error as { code: string }).code)
const fail = async (times: number): Promise<void> => {
  for (let count = 0; count < times; count++) expect(await attempt('wrong passphrase')).toBe('wrong_passphrase')
}
async function recorded(): Promise<{ type: string; failures?: number; locked_until?: number | null }[]> {
  const changes: { type: string }[] = []
  for await (const row of store.auditRows('deployment')) changes.push(...(JSON.parse(row.changes) as { type: string }[]))
  return changes
}

beforeAll(async () => {
  file = (await makeApproverKey(passphrase)).file
})
beforeEach(async () => {
  const connection = openSqlite({ file: join(folder, `${String(databases++)}.db`) })
  await migrate(connection, readMigrations('sqlite'), time)
  store = sqlStore(connection)
})
afterEach(async () => {
  await store.close()
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

it('the right passphrase gives the key and forgets earlier failures', async () => {
  await fail(2)
  expect(await attempt(passphrase)).toBe('private')
  expect(await store.approverTries('anna')).toEqual({ failures: 0, locked_until: null })
  expect((await recorded()).map(({ type }) => type)).toEqual(['approver.failed', 'approver.failed', 'approver.failed', 'approver.unlocked'])
})

it('[bad.wrong-passphrase] a wrong passphrase says how many tries are left, and nothing of itself', async () => {
  const error: unknown = await unlockApprover(dependencies(), 'anna', 'wrong passphrase').catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'wrong_passphrase', data: { approver: 'anna', tries_left: 4 } })
  expect((error as Error).message).toContain('4 tries are left')
  expect((error as Error).message).not.toContain('wrong passphrase')
})

it('[approvals.lockout] five wrong passphrases lock that approver for 15 minutes, on record, and no other', async () => {
  await fail(5)
  expect(await attempt(passphrase)).toBe('approver_locked')
  expect((await recorded()).map(({ failures, locked_until }) => [failures, locked_until])).toEqual([
    [1, null], [2, null], [3, null], [4, null], [5, time + lockMs],
  ])
  expect(await attempt(passphrase, 'bert')).toBe('private')
  time += lockMs - 1
  const locked = { code: 'approver_locked', data: { locked_until: time + 1 } }
  await expect(unlockApprover(dependencies(), 'anna', passphrase)).rejects.toMatchObject(locked)
  time += 1
  expect(await attempt(passphrase)).toBe('private')
})

it('after a lock five more wrong passphrases lock again', async () => {
  await fail(5)
  time += lockMs
  await fail(5)
  expect(await attempt(passphrase)).toBe('approver_locked')
  expect(await store.approverTries('anna')).toEqual({ failures: 10, locked_until: time + lockMs })
})

it('a try is counted before its outcome is known, so that a process that dies saves nothing', async () => {
  const died = new Error('killed')
  const dying: UnlockDependencies['store'] = {
    approverTries: (name) => store.approverTries(name),
    commit: async (commit) => {
      await store.commit(commit)
      throw died
    },
  }
  for (let count = 0; count < 5; count++) {
    await expect(unlockApprover({ ...dependencies(), store: dying }, 'anna', 'wrong passphrase')).rejects.toBe(died)
  }
  expect(await attempt(passphrase)).toBe('approver_locked')
})

it('[approvals.lockout] of tries at once no more than five are made', async () => {
  const outcomes = await Promise.all(Array.from({ length: 12 }, () => attempt('wrong passphrase')))
  expect(outcomes.filter((outcome) => outcome === 'wrong_passphrase')).toHaveLength(5)
  expect(outcomes.filter((outcome) => outcome === 'approver_locked')).toHaveLength(7)
  expect((await recorded()).map(({ failures }) => failures)).toEqual([1, 2, 3, 4, 5])
})

it('a missing or broken key file costs no try', async () => {
  expect(await attempt(passphrase, 'nobody')).toBe('not_found')
  const broken = { ...dependencies(), readKeyFile: () => Promise.resolve('{') }
  await expect(unlockApprover(broken, 'anna', passphrase)).rejects.toMatchObject({ code: 'bad_config' })
  expect(await recorded()).toEqual([])
})
