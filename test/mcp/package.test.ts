/* The package as a user gets it: packed, installed into an empty folder without running scripts, and started from there. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const root = path.join(__dirname, '..', '..')
let folder = ''

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'harness-package-'))
  // not the settings of the npm that runs the tests: they name its own folder
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(package|lifecycle|config_local_prefix|config_prefix|command)/i.test(name)))
  const npm = (args: readonly string[], cwd: string): string => execFileSync('npm', args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  const packed = npm(['pack', '--silent', '--pack-destination', folder], root).trim().split('\n').at(-1) ?? ''
  writeFileSync(path.join(folder, 'package.json'), '{"private":true}')
  npm(['install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', path.join(folder, packed)], folder)
}, 240_000)
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

const command = (): string => path.join(folder, 'node_modules', '.bin', 'agent-harness')

it('[package.installs] installed without scripts, the command works, and brings what tsc does not copy', () => {
  const home = path.join(folder, 'home')
  expect(spawnSync(command(), ['--version'], { encoding: 'utf8' })).toMatchObject({ status: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string })
  // opens a database: the native module and the migrations are there
  expect(spawnSync(command(), ['status', '--home', home], { encoding: 'utf8' })).toMatchObject({ status: 0, stdout: expect.stringContaining('Schema') as string })
  const installed = path.join(folder, 'node_modules', 'n8n-nodes-agent-harness')
  expect(existsSync(path.join(installed, 'README.md'))).toBe(true)
  expect(readdirSync(installed).filter((name) => ['test', 'scripts', 'core'].includes(name))).toEqual([])
})

it('[package.no-n8n] brings no n8n-workflow', () => {
  expect(existsSync(path.join(folder, 'node_modules', 'n8n-workflow'))).toBe(false)
})

it('[package.old-node-told] on a Node that is too old on PATH the command says which Node it needs', () => {
  const nodes = (process.env['PATH'] ?? '').split(path.delimiter).map((one) => path.join(one, 'node')).filter((one) => existsSync(one))
  const old = nodes.find((one) => Number(/^v(\d+)/.exec(execFileSync(one, ['--version'], { encoding: 'utf8' }))?.[1]) < 22)
  // where every Node is new enough, a preload says otherwise (test/mcp/stdio.test.ts does it for all machines)
  const [program, flags]: [string, string[]] = old === undefined ? [process.execPath, ['--require', oldVersion()]] : [old, []]
  const run = spawnSync(program, [...flags, path.join(folder, 'node_modules', 'n8n-nodes-agent-harness', 'dist', 'mcp-server', 'cli.js'), 'status'], { encoding: 'utf8' })
  expect(run).toMatchObject({ status: 1, stdout: '', signal: null })
  expect(run.stderr).toMatch(/Node 22\.13 or newer/)
})

function oldVersion(): string {
  const file = path.join(folder, 'old.cjs')
  writeFileSync(file, `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } }); Object.defineProperty(process, 'version', { value: 'v20.20.2' })`)
  return file
}
