/*
 * The set-up that `npm test` and `npm start` do on a fresh clone, on a small clone with a stand-in for npm and a Node that says it is old:
 * what is under test is which steps are taken, in which order, how often, and what the program that is run at last gets to see.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const root = join(__dirname, '../..')
// compiles several times
jest.setTimeout(120_000)

/** Stands in for npm: notes what it is asked for and puts in place what the real one would have fetched. */
const standIn = `
const fs = require('node:fs'), path = require('node:path')
fs.appendFileSync(process.env.NPM_LOG, process.argv.slice(2).join(' ') + '\\n')
const put = (target, file) => { fs.mkdirSync(path.dirname(file), { recursive: true }); fs.symlinkSync(target, file) }
if (process.argv[2] === 'ci') {
  for (const name of ['typescript', 'gulp', '@types']) put(path.join(process.env.REAL, 'node_modules', name), path.join('node_modules', name))
} else put(process.execPath, path.join('node_modules', process.argv.at(-1).replace(/@[^@]*$/, ''), 'bin', 'node'))
`
const program = `
import { readFileSync } from 'node:fs'
const [word, file = ''] = process.argv.slice(2)
if (word === 'wait') { process.stdout.write('up ' + String(process.pid)); setInterval(() => {}, 1000) }
else { process.stdout.write(JSON.stringify({ args: process.argv.slice(2), text: readFileSync(file, 'utf8') })); process.exit(7) }
`

const kept = ['scripts', 'package.json', 'package-lock.json', 'tsconfig.json', 'gulpfile.js', '.node-version']
const made: string[] = []
let clone = ''
let environment: NodeJS.ProcessEnv = {}

function freshClone(): void {
  clone = join(mkdtempSync(join(tmpdir(), 'harness runner ')), 'a clone')
  made.push(dirname(clone))
  for (const name of kept) cpSync(join(root, name), join(clone, name), { recursive: true })
  write('core/index.ts', 'export const one = 1\n')
  write('core/store/0001.sql', 'SELECT 1')
  write('mcp-server/cli.ts', program)
  write('stand-in/npm-cli.js', standIn)
  write('stand-in/old.cjs', "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.0.0' } })")
  write('users folder/input.txt', 'as written')
  const { PATH, HOME } = process.env
  const asNpmTells = {
    npm_execpath: join(clone, 'stand-in/npm-cli.js'), npm_package_json: join(clone, 'package.json'), INIT_CWD: join(clone, 'users folder'),
  }
  environment = { PATH, HOME, NPM_LOG: join(clone, 'npm.log'), REAL: root, ...asNpmTells }
}

afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true })
})

function write(file: string, text: string): void {
  mkdirSync(dirname(join(clone, file)), { recursive: true })
  writeFileSync(join(clone, file), text)
}

const command = (...args: string[]): string[] => ['--require', join(clone, 'stand-in/old.cjs'), join(clone, 'scripts/run.cjs'), ...args]
const run = (...args: string[]) => spawnSync(process.execPath, command(...args), { cwd: clone, env: environment, encoding: 'utf8' })
const start = (...args: string[]): ChildProcess => spawn(process.execPath, command(...args), { cwd: clone, env: environment })
const steps = (): string[] => readFileSync(join(clone, 'npm.log'), 'utf8').trim().split('\n').map((line) => line.split(' ')[0] ?? '')

beforeEach(() => {
  if (clone === '') freshClone()
})

it('[setup.fresh-clone] a fresh clone fetches its Node, installs, builds and runs; the next run does nothing but run', () => {
  const first = run('dist/mcp-server/cli.js', 'say', 'input.txt')
  expect([first.status, JSON.parse(first.stdout)]).toEqual([7, { args: ['say', 'input.txt'], text: 'as written' }])
  expect(steps()).toEqual(['install', 'ci'])
  expect(readFileSync(join(clone, 'npm.log'), 'utf8')).toMatch(/^(.*--ignore-scripts.*\n){2}$/)
  expect(existsSync(join(clone, 'dist/core/store/0001.sql'))).toBe(true)

  const second = run('dist/mcp-server/cli.js', 'say', 'input.txt')
  expect([second.status, second.stdout, second.stderr]).toEqual([7, first.stdout, ''])
  expect(steps()).toEqual(['install', 'ci'])
})

it('what was built from a source that is gone does not stay', () => {
  write('core/gone.ts', 'export const gone = 1\n')
  run('--build-only')
  expect(existsSync(join(clone, 'dist/core/gone.js'))).toBe(true)
  rmSync(join(clone, 'core/gone.ts'))
  run('--build-only')
  expect([existsSync(join(clone, 'dist/core/gone.js')), existsSync(join(clone, 'dist/core/index.js'))]).toEqual([false, true])
})

it('two at once on a fresh clone, and one that a dead owner had locked, set up once', async () => {
  freshClone()
  write('.setup-lock', '999999999')
  const ends = await Promise.all([1, 2].map(async () => once(start('--build-only'), 'exit')))
  expect(ends.map(([code]) => code as number)).toEqual([0, 0])
  expect(steps()).toEqual(['install', 'ci'])
  expect(existsSync(join(clone, '.setup-lock'))).toBe(false)
})

it('a build that fails is a failed test run with its closing line', () => {
  write('core/index.ts', 'export const one: string = 1\n')
  const done = run('node_modules/jest/bin/jest.js')
  write('core/index.ts', 'export const one = 1\n')
  expect([done.status, done.stdout]).toEqual([1, '0 passed, 1 failed\n'])
})

it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s to the runner leaves no process', async (signal) => {
  run('--build-only')
  const runner = start('dist/mcp-server/cli.js', 'wait')
  const pid = await pidOf(runner)
  runner.kill(signal)
  await once(runner, 'exit')
  expect(() => process.kill(pid, 0)).toThrow()
})

it('the death of what started the runner leaves no process', async () => {
  run('--build-only')
  const words = [process.execPath, ...command('dist/mcp-server/cli.js', 'wait')].map((word) => `'${word}'`).join(' ')
  const shell = spawn('sh', ['-c', `${words}; true`], { cwd: clone, env: environment })
  const pid = await pidOf(shell)
  shell.kill('SIGKILL')
  await once(shell.stdout, 'close')
  expect(() => process.kill(pid, 0)).toThrow()
})

async function pidOf(child: ChildProcess): Promise<number> {
  const [text] = (await once(child.stdout!, 'data')) as [Buffer]
  return Number(/up (\d+)/.exec(String(text))?.[1])
}
