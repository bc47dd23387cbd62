/*
 * Mutants: small patches that each break one guarantee. Each must build and turn the test red that is named for the guarantee; the same
 * test is green without it. A guarantee whose test survives its mutant is no guarantee.
 */
import { spawnSync, type SpawnSyncReturns } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const root = path.join(__dirname, '..', '..')
const patches = path.join(__dirname, 'patches')
const copied = ['core', 'mcp-server', 'test', 'scripts', 'package.json', 'tsconfig.json', 'jest.config.js']

interface Mutant {
  readonly name: string
  readonly file: string
  /** From the head of the patch: `Test: <file>` and `Guarantee: <words of the title>`. */
  readonly test: string
  readonly guarantee: string
  readonly changed: number
}

const mutants: readonly Mutant[] = readdirSync(patches).filter((name) => name.endsWith('.patch')).sort().map((name) => {
  const file = path.join(patches, name)
  const text = readFileSync(file, 'utf8')
  const head = (key: string): string => new RegExp(`^${key}: (.+)$`, 'm').exec(text)?.[1] ?? ''
  const lines = text.split('\n')
  const count = (sign: string): number => lines.filter((line) => line.startsWith(sign) && !line.startsWith(sign.repeat(3))).length
  return { name: name.replace('.patch', ''), file, test: head('Test'), guarantee: head('Guarantee'), changed: Math.max(count('+'), count('-')) }
})

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

function copyOfTree(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'mutant-'))
  folders.push(folder)
  for (const name of copied) cpSync(path.join(root, name), path.join(folder, name), { recursive: true })
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'))
  return folder
}

function run(folder: string, program: string, args: readonly string[]): SpawnSyncReturns<string> {
  // not the outer jest's worker id and the like
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('JEST_')))
  return spawnSync(process.execPath, ['--experimental-vm-modules', path.join(root, 'node_modules', program), ...args], {
    cwd: folder, encoding: 'utf8', env: { ...env, INTERLEAVINGS: '150' }, timeout: 120_000,
  })
}

function namedTest(folder: string, mutant: Mutant): SpawnSyncReturns<string> {
  const title = mutant.guarantee.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return run(folder, 'jest/bin/jest.js', [mutant.test, '-t', title, '--reporters', 'default', '--no-cache'])
}

it('[mutants.five] there are at least five, and [mutants.small] each changes at most ten lines', () => {
  expect(mutants.length).toBeGreaterThanOrEqual(5)
  expect(mutants.filter((mutant) => mutant.changed > 10 || mutant.changed === 0 || mutant.test === '' || mutant.guarantee === '')).toEqual([])
})

it('[mutants.clean-green] without a mutant the named tests are green', () => {
  const folder = copyOfTree()
  const results = [...new Map(mutants.map((mutant) => [mutant.guarantee, mutant])).values()].map((mutant) => {
    const done = namedTest(folder, mutant)
    return { guarantee: mutant.guarantee, green: done.status === 0 && /Tests: .*\b[1-9]\d* passed/.test(done.stderr) }
  })
  expect(results.filter((result) => !result.green)).toEqual([])
}, 300_000)

it.each(mutants)('[mutants.red] $name: breaks "$guarantee"', (mutant) => {
  const folder = copyOfTree()
  const patched = spawnSync('patch', ['-p1', '--no-backup-if-mismatch', '-i', mutant.file], { cwd: folder, encoding: 'utf8' })
  expect(`${patched.stdout}${patched.stderr}`).not.toMatch(/FAILED|malformed/)
  expect(patched.status).toBe(0)
  const built = run(folder, 'typescript/bin/tsc', ['-p', '.', '--noEmit'])
  expect(built.stdout).toBe('')
  const done = namedTest(folder, mutant)
  expect(done.status).not.toBe(0)
  expect(done.stderr).toMatch(/Tests: .*\b[1-9]\d* failed/)
}, 240_000)
