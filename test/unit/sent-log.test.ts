import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSentLog, type SentLog } from '../../core/sent-log'

const folder = mkdtempSync(join(tmpdir(), 'sent-log-test-'))
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})
const id = (number: number): string => `c_${number.toString(16).padStart(32, '0')}`

let path = ''
let count = 0
const opened: SentLog[] = []
const openLog = async (): Promise<SentLog> => {
  const log = await openSentLog(path)
  opened.push(log)
  return log
}
beforeEach(() => {
  path = join(folder, `sent-${String(count++)}.log`)
})
afterEach(async () => {
  for (const log of opened.splice(0)) await log.close()
})

it('[write.at-most-once] what was appended is known after the process and its database are gone', async () => {
  const log = await openLog()
  expect(log.has(id(1))).toBe(false)
  await log.append(id(1))
  expect(log.has(id(1))).toBe(true)
  expect(readFileSync(path, 'utf8')).toBe(`${id(1)}\n`)
  const later = await openLog()
  expect([later.has(id(1)), later.has(id(2))]).toEqual([true, false])
  expect((statSync(path).mode & 0o777).toString(8)).toBe('600')
})

it('what another process appends is seen at the next question', async () => {
  const [one, other] = [await openLog(), await openLog()]
  for (let number = 0; number < 50; number++) {
    await (number % 2 === 0 ? one : other).append(id(number))
    expect([one.has(id(number)), other.has(id(number))]).toEqual([true, true])
  }
  expect(one.has(id(50))).toBe(false)
})

it('appends at once are all kept, each on its own line', async () => {
  const [one, other] = [await openLog(), await openLog()]
  await Promise.all(Array.from({ length: 60 }, (_, number) => (number % 2 === 0 ? one : other).append(id(number))))
  const lines = readFileSync(path, 'utf8').split('\n').filter((line) => line !== '')
  expect([...lines].sort()).toEqual(Array.from({ length: 60 }, (_, number) => id(number)).sort())
})

it('a line torn by a crash counts for no call, and never spoils the next', async () => {
  const log = await openLog()
  await log.append(id(1))
  appendFileSync(path, id(2).slice(0, 20))
  const later = await openLog()
  expect(later.has(id(2))).toBe(false)
  expect(later.has(id(2).slice(0, 20))).toBe(false)
  await later.append(id(3))
  for (const reader of [log, later, await openLog()]) {
    expect([1, 2, 3].map((number) => reader.has(id(number)))).toEqual([true, false, true])
  }
})

it('a line that another process is still writing counts once it is whole', async () => {
  const log = await openLog()
  appendFileSync(path, id(7).slice(0, 10))
  expect(log.has(id(7))).toBe(false)
  appendFileSync(path, `${id(7).slice(10)}\n`)
  expect(log.has(id(7))).toBe(true)
})

it('a file that was cut makes nothing forgotten', async () => {
  const log = await openLog()
  await log.append(id(1))
  truncateSync(path, 0)
  expect(log.has(id(1))).toBe(true)
  appendFileSync(path, `${id(2)}\n`)
  expect(log.has(id(2))).toBe(true)
})

it('only ids of calls are written', async () => {
  const log = await openLog()
  for (const text of ['', 'c_1', `${id(1)}\n${id(2)}`, `t${id(1).slice(1)}`]) {
    await expect(log.append(text)).rejects.toMatchObject({ code: 'invariant_broken' })
  }
  expect(readFileSync(path, 'utf8')).toBe('')
})

it('an append that cannot reach the disk fails, so that nothing is sent', async () => {
  const log = await openSentLog(path)
  await log.close()
  await expect(log.append(id(1))).rejects.toMatchObject({ code: 'store_unavailable' })
})
