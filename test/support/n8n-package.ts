/*
 * Our package as a user of n8n gets it: packed, and installed by the very steps of n8n's "install community node". Packed once a run.
 */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
export const root = path.join(__dirname, '../..')

interface Manifest {
  readonly name: string
  readonly version: string
  readonly n8n?: { readonly nodes?: readonly string[]; readonly credentials?: readonly string[] }
}

export const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as Manifest

/** What is kept for the whole run: made and removed by test/e2e/set-up.cjs. */
export function runFolder(): string {
  const folder = process.env['AGENT_HARNESS_E2E_RUN']
  if (folder === undefined) throw new Error('No end-to-end run; start these tests with "npm run test:e2e".')
  return folder
}

/** Makes a thing once a run: in a folder aside, which is renamed when it is complete. */
export async function onceARun(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const folder = path.join(runFolder(), name)
  if (existsSync(folder)) return folder
  const staging = mkdtempSync(`${folder}.part-`)
  await make(staging)
  renameSync(staging, folder)
  return folder
}

/** The tarball of the build. A build that is older than the sources would prove nothing. */
export async function packedPackage(): Promise<string> {
  const folder = await onceARun('packed', async (staging) => {
    const { buildIsFresh } = jest.requireActual<{ buildIsFresh(): boolean }>('../../scripts/freshness.cjs')
    if (!buildIsFresh()) throw new Error('dist/ is older than the sources; run "npm run build", or the tests by npm.')
    await run('npm', ['pack', '--ignore-scripts', '--quiet', '--pack-destination', staging], { cwd: root, env: npmEnvironment() })
  })
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
  return path.join(folder, tarball!)
}

/** The npm line of n8n 2.41.1. It adds `--registry`; here npm asks the registry that it is set up for. */
const installLine = [
  'install', '--audit=false', '--fund=false', '--bin-links=false', '--install-strategy=shallow', '--ignore-scripts=true', '--package-lock=false',
]

/** Where n8n keeps a community package. */
export function packageFolder(userFolder: string): string {
  return path.join(userFolder, '.n8n', 'nodes', 'node_modules', manifest.name)
}

/** Installs the tarball into the folder of an n8n, in the order in which n8n does it; answers how long that took. */
export async function installPackage(userFolder: string, tarball: string, env = npmEnvironment()): Promise<{ milliseconds: number }> {
  const folder = packageFolder(userFolder)
  mkdirSync(folder, { recursive: true })
  const began = performance.now()
  await run('tar', ['-xzf', tarball, '-C', folder, '--strip-components=1'], { cwd: path.join(userFolder, '.n8n', 'nodes'), env })
  const file = path.join(folder, 'package.json')
  const given = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
  const dropped = new Set(['devDependencies', 'peerDependencies', 'optionalDependencies'])
  writeFileSync(file, JSON.stringify(Object.fromEntries(Object.entries(given).filter(([key]) => !dropped.has(key))), null, 2))
  await run('npm', installLine, { cwd: folder, env })
  const nodes = { name: 'installed-nodes', private: true, dependencies: { [manifest.name]: manifest.version } }
  writeFileSync(path.join(userFolder, '.n8n', 'nodes', 'package.json'), JSON.stringify(nodes, null, 2))
  return { milliseconds: Math.round(performance.now() - began) }
}

/** Puts the package where n8n has its own; installed once a run, copied for each place. */
export async function placePackage(userFolder: string): Promise<void> {
  const installed = await onceARun('installed', async (staging) => {
    await installPackage(staging, await packedPackage())
  })
  cpSync(path.join(installed, '.n8n', 'nodes'), path.join(userFolder, '.n8n', 'nodes'), { recursive: true })
}

/** A folder for PATH with nothing but what n8n's install needs: no compiler, no make, no Python. The caller removes it. */
export function bareTools(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'harness-bare-'))
  symlinkSync(process.execPath, path.join(folder, 'node'))
  for (const tool of ['npm', 'tar', 'gzip', 'sh']) symlinkSync(onPath(tool), path.join(folder, tool))
  return folder
}

function onPath(tool: string): string {
  const found = (process.env['PATH'] ?? '').split(path.delimiter).map((folder) => path.join(folder, tool)).find((file) => existsSync(file))
  if (found === undefined) throw new Error(`There is no ${tool} on PATH.`)
  return realpathSync(found)
}

/** What a program may know of this machine: its PATH, and the way to the registry; none of the settings of this project or of an outer npm. */
export function npmEnvironment(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  const kept = /^(PATH|HOME|LANG|TMPDIR|(https?|no)_proxy|NODE_EXTRA_CA_CERTS|npm_config_(registry|cafile|ca|cache|userconfig|globalconfig|(https_)?proxy|noproxy|\/\/.*))$/i
  const env = Object.entries(process.env).flatMap(([key, value]) => (kept.test(key) && value !== undefined ? [[key, value] as const] : []))
  const whole: Record<string, string> = { ...Object.fromEntries(env), ...extra }
  // the Node that runs the tests is the one that n8n runs on
  if (extra['PATH'] === undefined) whole['PATH'] = [path.dirname(process.execPath), whole['PATH'] ?? ''].join(path.delimiter)
  return whole
}

/** Names of node types as n8n shows them, from the paths in package.json. */
export function nodeNames(): readonly string[] {
  return (manifest.n8n?.nodes ?? []).map((file) => {
    const base = path.basename(file, '.node.js')
    return `${manifest.name}.${base.charAt(0).toLowerCase()}${base.slice(1)}`
  })
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
}
