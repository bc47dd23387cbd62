/* The demo as a user runs it: the built command in a process of its own, mostly against a server that is not ours. */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCountingServer, type CountingServer } from '../support/counting-server'

jest.setTimeout(120_000)

const cli = join(__dirname, '../../dist/mcp-server/cli.js')

interface Run {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

let folder: string
/** What the demo has for temporary files. */
let temporary: string
let server: CountingServer

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'demo-test-'))
  temporary = mkdtempSync(join(tmpdir(), 'demo-test-temporary-'))
  server = await startCountingServer()
})

afterEach(async () => {
  await server.stop()
  for (const one of [folder, temporary]) rmSync(one, { recursive: true, force: true })
})

function start(words: readonly string[], onOutput: (stdout: string, child: ChildProcess) => void = () => undefined): Promise<Run> {
  const child = spawn(process.execPath, [cli, ...words], { env: { ...process.env, TMPDIR: temporary }, stdio: ['ignore', 'pipe', 'pipe'] })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
    onOutput(stdout, child)
  })
  child.stderr.on('data', (chunk: Buffer) => { stderr += chunk.toString() })
  return new Promise((resolve) => child.on('close', (code) => { resolve({ code, stdout, stderr }) }))
}

const demo = (...words: string[]): Promise<Run> => start(['serve', '--demo', ...words])

/** Of all processes that the story names, in order. */
const pidsOf = ({ stdout }: Pick<Run, 'stdout'>): number[] => [...stdout.matchAll(/Harness process (\d+)/g)].map(([, pid]) => Number(pid))

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** What holds however a demo ended. */
function expectNothingLeft(run: Run): void {
  expect(pidsOf(run).filter(isAlive)).toEqual([])
  expect(readdirSync(temporary)).toEqual([])
}

function expectGood(run: Run): void {
  expect({ code: run.code, stderr: run.stderr }).toEqual({ code: 0, stderr: '' })
  expect(run.stdout).toContain('All of it holds.')
  expect(run.stdout).not.toContain('FAILED')
  expect(run.stdout.trimEnd().split('\n').length).toBeLessThanOrEqual(40)
  expect(pidsOf(run)).toHaveLength(3)
  expect(new Set(pidsOf(run)).size).toBe(3)
  expectNothingLeft(run)
}

it('[demo.approve] ends 0 against a foreign server that saw one POST and nothing else; the kept record verifies', async () => {
  const database = join(folder, 'demo.db')
  const run = await demo('--function-url', `${server.url}/pay`, '--database', database)
  expectGood(run)
  expect(server.requests).toMatchObject([{ method: 'POST', path: '/pay', query: '', body: '{"amount":120,"currency":"EUR","order":"A-1001"}' }])
  expect(server.connections()).toBe(1)
  expect(run.stdout).toMatch(/started, then interrupted .*started, then interrupted/)
  expect(run.stdout).toContain('I will not send it again')
  expect(await start(['audit', 'verify', '--database', database])).toMatchObject({ code: 0, stdout: expect.stringContaining('good') })
  expect(['checkpoint.pub', 'checkpoints.jsonl'].every((name) => existsSync(join(folder, name)))).toBe(true)
})

it('[demo.reject] ends 0 against a foreign server that saw nothing at all; the kept record verifies', async () => {
  const database = join(folder, 'demo.db')
  const run = await demo('--decide', 'reject', '--function-url', `${server.url}/pay`, '--database', database)
  expectGood(run)
  expect(server.requests).toEqual([])
  expect(server.connections()).toBe(0)
  expect(await start(['audit', 'verify', '--database', database])).toMatchObject({ code: 0, stdout: expect.stringContaining('good') })
})

it('[demo.approve] [demo.reject] both show themselves with a shop of their own and leave nothing behind', async () => {
  const runs = await Promise.all([demo(), demo('--decide', 'approve'), demo('--decide', 'reject')])
  for (const run of runs) expectGood(run)
  const counts = runs.map(({ stdout }) => /(\d) counted on the wire, (\d) by the shop, (\d) in sent.log/.exec(stdout)?.slice(1).join(' '))
  expect(counts).toEqual(['1 1 1', '1 1 1', '0 0 0'])
})

it('[demo.approve] a server that never ends its answer, or drops it, is as good: what counts is the first byte', async () => {
  server.plan('/slow', { kind: 'first_byte' })
  server.plan('/cut', { kind: 'cut_in_body' })
  const runs = await Promise.all(['/slow', '/cut'].map((path) => demo('--function-url', server.url + path)))
  for (const run of runs) expect({ ...run, good: run.stdout.includes('All of it holds.') }).toMatchObject({ code: 0, stderr: '', good: true })
  expect(server.requests.map(({ path }) => path).sort()).toEqual(['/cut', '/slow'])
  runs.forEach(expectNothingLeft)
})

it('a server that refuses the connection, fails, redirects or hangs up ends the demo with 1 and the reason', async () => {
  const gone = await startCountingServer()
  await gone.stop()
  server.plan('/500', { kind: 'answer', status: 500 })
  server.plan('/302', { kind: 'answer', status: 302, headers: { Location: '/elsewhere' } })
  server.plan('/cut', { kind: 'cut' })
  const reasons = {
    [`${gone.url}/pay`]: 'the connection was refused', [`${server.url}/500`]: 'HTTP 500', [`${server.url}/302`]: 'HTTP 302',
    [`${server.url}/cut`]: 'no answer',
  }
  const runs = await Promise.all(Object.keys(reasons).map((url) => demo('--function-url', url)))
  for (const [index, reason] of Object.values(reasons).entries()) {
    expect(runs[index]).toMatchObject({ code: 1, stderr: expect.stringContaining(reason) })
    expect(runs[index]!.stdout).not.toContain('All of it holds.')
  }
  runs.forEach(expectNothingLeft)
  expect(server.requests.map(({ path }) => path).sort()).toEqual(['/302', '/500', '/cut'])
})

it.each([['SIGTERM', 143], ['SIGINT', 130]] as const)('%s ends it with its child and its temporary home', async (signal, code) => {
  const run = await start(['serve', '--demo'], (stdout, child) => { if (pidsOf({ stdout }).length === 2) child.kill(signal) })
  expect(run).toMatchObject({ code, stderr: '' })
  expect(pidsOf(run)).toHaveLength(2)
  expectNothingLeft(run)
})

it('killed itself, it leaves no process', async () => {
  const run = await start(['serve', '--demo'], (stdout, child) => { if (pidsOf({ stdout }).length === 2) child.kill('SIGKILL') })
  expect(run.code).toBe(null)
  for (let tries = 0; tries < 100 && pidsOf(run).some(isAlive); tries += 1) await new Promise((resolve) => setTimeout(resolve, 50))
  expect(pidsOf(run).filter(isAlive)).toEqual([])
})

it('a place that is in use and an address that is none are refused before anything is made', async () => {
  writeFileSync(join(folder, 'harness.yaml'), 'profile: personal\n')
  expect(await demo('--database', join(folder, 'demo.db'))).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('harness.yaml') })
  for (const url of ['shop.test/pay', 'ftp://shop.test/pay', 'http://user:word@shop.test/pay']) {
    expect(await demo('--function-url', url)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('--function-url') })
  }
  expect(readdirSync(folder)).toEqual(['harness.yaml'])
  expect(readFileSync(join(folder, 'harness.yaml'), 'utf8')).toBe('profile: personal\n')
  expect(readdirSync(temporary)).toEqual([])
})
