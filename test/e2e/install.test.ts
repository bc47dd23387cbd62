/*
 * Our package in a real n8n: it installs the way n8n installs it, it shows its nodes, it costs a start next to nothing, and n8n's commands
 * beside a running n8n open nothing of ours.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { endN8n, makePlace, n8nCommand, startN8n, type N8nPlace, type N8nServer } from '../support/n8n'
import { createWorkflow } from '../support/n8n-api'
import { bareTools, installPackage, nodeNames, npmEnvironment, packageFolder, packedPackage, removeFolder } from '../support/n8n-package'

const isMine = (name: string): boolean => name.startsWith('n8n-nodes-agent-harness.')

afterAll(endN8n)

describe('a fresh install', () => {
  const made: string[] = []

  afterAll(() => {
    for (const folder of made) removeFolder(folder)
  })

  it('[n8n.installs] the tarball installs with the flags of n8n, in less than a minute, where there is no compiler', async () => {
    const tarball = await packedPackage()
    const tools = bareTools()
    const user = mkdtempSync(path.join(tmpdir(), 'harness-install-'))
    made.push(tools, user)
    mkdirSync(path.join(user, '.n8n', 'nodes'), { recursive: true })
    const env = npmEnvironment({ PATH: tools })
    for (const compiler of ['cc', 'gcc', 'clang', 'make', 'python', 'python3']) {
      expect(spawnSync('sh', ['-c', `command -v ${compiler}`], { env, encoding: 'utf8' }).stdout).toBe('')
    }

    const { milliseconds } = await installPackage(user, tarball, env)

    say(`install: ${(milliseconds / 1000).toFixed(1)} s`)
    expect(milliseconds).toBeLessThan(60_000)
    const opens = 'const D = require("better-sqlite3"); console.log(new D(":memory:").prepare("select 6 * 7 as n").get().n)'
    expect(spawnSync('node', ['-e', opens], { cwd: packageFolder(user), env, encoding: 'utf8' })).toMatchObject({ status: 0, stdout: '42\n' })
  })
})

describe('commands beside a running n8n', () => {
  let place: N8nPlace
  let n8n: N8nServer
  const home = (): string => path.join(place.n8nFolder, 'agent-harness')

  beforeAll(async () => {
    place = await makePlace()
    n8n = await startN8n(place)
  })

  afterAll(() => n8n.stop())

  it('[n8n.shows-nodes] export:nodes shows every node of the package, and the Tool forms of those that an agent may use', async () => {
    const file = path.join(place.folder, 'nodes.json')
    const done = await n8nCommand(place, ['export:nodes', `--output=${file}`])
    expect(done).toMatchObject({ code: 0 })
    const names = (JSON.parse(readFileSync(file, 'utf8')) as { name: string }[]).map(({ name }) => name).filter(isMine)
    const tools = nodeNames().filter((name) => /\.harness(Send|AwaitTurn)$/.test(name)).map((name) => `${name}Tool`)
    expect(names).toEqual(expect.arrayContaining([...nodeNames(), ...tools]))
    expect(names.filter((name) => /Tool$/.test(name) && !/HitlTool$/.test(name)).sort()).toEqual([...tools].sort())
  })

  it('[n8n.commands-open-nothing] neither the start of n8n nor export:nodes or export:workflow makes or opens a harness', async () => {
    expect(existsSync(home())).toBe(false)
    await createWorkflow(n8n, { name: 'Any', connections: {}, nodes: [{ id: 'a', name: 'Start', type: 'n8n-nodes-base.manualTrigger', typeVersion: 1, position: [0, 0], parameters: {} }] })
    const exports = async (): Promise<void> => {
      expect(await n8nCommand(place, ['export:nodes', `--output=${path.join(place.folder, 'n.json')}`])).toMatchObject({ code: 0 })
      expect(await n8nCommand(place, ['export:workflow', '--all', `--output=${path.join(place.folder, 'w.json')}`])).toMatchObject({ code: 0 })
    }
    await exports()
    expect(existsSync(home())).toBe(false)

    // a home that could not be opened without a trace
    mkdirSync(home(), { mode: 0o700 })
    const database = path.join(home(), 'harness.db')
    writeFileSync(database, 'no database')
    const before = statSync(database).mtimeMs
    await exports()
    expect(readdirSync(home())).toEqual(['harness.db'])
    expect(statSync(database).mtimeMs).toBe(before)
    removeFolder(home())
  })
})

describe('the start of n8n', () => {
  it('[n8n.start-cost] less than 150 ms of it are spent inside our files, median of five', async () => {
    const withUs = await makePlace()
    const without = await makePlace({ withPackage: false })
    const own: Start[] = []
    const plain: Start[] = []
    for (let round = 0; round < 5; round += 1) {
      own.push(await probedStart(withUs, withUs))
      // the probe is also there without us, so that it costs both the same
      if (round < 3) plain.push(await probedStart(without, withUs))
    }
    const ratioOf = (field: 'ready' | 'cpu'): string => (medianOf(own, field) / medianOf(plain, field)).toFixed(2)
    const inside = own.map(({ milliseconds }) => milliseconds)
    const { files } = own[0]!
    say(`start of n8n with and without us: ${seconds(medianOf(own, 'ready'))} and ${seconds(medianOf(plain, 'ready'))}, ratio ${ratioOf('ready')}`)
    say(`its processor time, until it was stopped: ${seconds(medianOf(own, 'cpu'))} and ${seconds(medianOf(plain, 'cpu'))}, ratio ${ratioOf('cpu')}`)
    say(`inside our ${String(files.length)} files: ${median(inside).toFixed(0)} ms (${inside.map((one) => one.toFixed(0)).join(', ')})`)
    // it saw our nodes being loaded, or it measured nothing
    expect(files.filter((file) => file.endsWith('.node.js'))).not.toEqual([])
    expect(median(inside)).toBeLessThan(150)
  })
})

/** A start as the probe saw it: time inside our files and their names, processor time of the whole, and when it was ready. */
interface Start {
  readonly milliseconds: number
  readonly files: readonly string[]
  readonly cpu: number
  readonly ready: number
}

async function probedStart(place: N8nPlace, ours: N8nPlace): Promise<Start> {
  const out = path.join(place.folder, 'probe.json')
  const env = { HARNESS_PROBE_FOLDER: packageFolder(ours.folder), HARNESS_PROBE_OUT: out }
  const n8n = await startN8n(place, { nodeOptions: ['--require', require.resolve('../support/require-probe.cjs')], env })
  await n8n.stop()
  return { ...(JSON.parse(readFileSync(out, 'utf8')) as Omit<Start, 'ready'>), ready: n8n.readyAfter }
}

function medianOf(starts: readonly Start[], field: 'ready' | 'cpu'): number {
  return median(starts.map((start) => start[field]))
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(2)} s`
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right)
  return sorted[Math.floor(sorted.length / 2)] ?? NaN
}

/** Figures of the run, for whoever reads its output. */
function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
