'use strict'
/*
 * Makes sure that the n8n which our end-to-end tests run is installed, in a cache folder outside the checkout, since it is 3 GB and takes
 * minutes: $AGENT_HARNESS_N8N, else n8n-nodes-agent-harness/ in the user's cache. Prints the folder on stdout, what it does on stderr.
 * An install is made aside and renamed when it is complete, so that one that was interrupted is begun anew; two processes wait for each other.
 */
const { spawn, spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { exclusive } = require('./lock.cjs')

const version = '2.41.1'
const marker = '.n8n-complete'

function n8nFolder() {
  const named = process.env.AGENT_HARNESS_N8N
  if (named) return path.resolve(named)
  const cache = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache')
  return path.join(cache, 'n8n-nodes-agent-harness', `n8n-${version}-node24`)
}

/** Answers the folder, in which n8n is complete. */
async function ensureN8n() {
  const folder = n8nFolder()
  if (isComplete(folder)) return folder
  if (Number(process.versions.node.split('.')[0]) < 24) throw new Error(`n8n ${version} needs Node 24; this is ${process.versions.node}. Run it by npm: npm run n8n`)
  fs.mkdirSync(path.dirname(folder), { recursive: true })
  await exclusive(`${folder}.lock`, say, async () => {
    // another process may have installed it while we waited
    if (!isComplete(folder)) await install(folder)
  })
  return folder
}

/** With our mark, or made by hand: the right version, whose database driver loads. */
function isComplete(folder) {
  if (installedVersion(folder) !== version) return false
  if (fs.existsSync(path.join(folder, marker))) return true
  return spawnSync(process.execPath, ['-e', 'require("sqlite3")'], { cwd: folder, stdio: 'ignore' }).status === 0
}

function installedVersion(folder) {
  try {
    return JSON.parse(fs.readFileSync(path.join(folder, 'node_modules', 'n8n', 'package.json'), 'utf8')).version
  } catch {
    return null
  }
}

async function install(folder) {
  const began = Date.now()
  clearAway(folder)
  // named after us: an npm that outlived the process which started it cannot write into this one
  const staging = `${folder}.part-${process.pid}`
  fs.mkdirSync(staging)
  fs.writeFileSync(path.join(staging, 'package.json'), JSON.stringify({ private: true, dependencies: { n8n: version } }))
  say(`installing n8n ${version} into ${folder} (about 5 minutes and 3 GB, once)`)
  // a plain install fails where a package's script cannot download its library; what n8n needs of it is the driver of its database alone
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  await npm(['install', '--ignore-scripts', '--legacy-peer-deps=false', '--package-lock=true', ...quiet], staging)
  say(`packages are there after ${since(began)}; building the driver of its database`)
  await npm(['rebuild', 'sqlite3', '--ignore-scripts=false', ...headers(), ...quiet], staging)
  fs.writeFileSync(path.join(staging, marker), `${version}\n`)
  if (!isComplete(staging) || !driverLoads(staging)) throw new Error(`n8n ${version} was installed into ${staging}, but does not load`)
  fs.renameSync(staging, folder)
  say(`n8n ${version} is installed; it took ${since(began)}`)
}

function driverLoads(folder) {
  return spawnSync(process.execPath, ['-e', 'require("sqlite3")'], { cwd: folder, stdio: ['ignore', 2, 2] }).status === 0
}

/** Removes what earlier tries left behind; never a folder that somebody named and that holds something else. */
function clearAway(folder) {
  const name = `${path.basename(folder)}.part-`
  for (const entry of fs.readdirSync(path.dirname(folder))) {
    if (entry.startsWith(name)) fs.rmSync(path.join(path.dirname(folder), entry), { recursive: true, force: true, maxRetries: 3 })
  }
  if (!fs.existsSync(folder)) return
  if (fs.readdirSync(folder).length > 0 && installedVersion(folder) === null) {
    throw new Error(`${folder} is there and holds no n8n; delete it, or name another folder in AGENT_HARNESS_N8N`)
  }
  say(`${folder} is no complete n8n ${version}; replacing it`)
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
}

/** The headers that came with this Node, so that none are downloaded; where it has none, npm's own way. */
function headers() {
  const home = path.join(path.dirname(process.execPath), '..')
  return fs.existsSync(path.join(home, 'include', 'node', 'node_api.h')) ? [`--nodedir=${home}`] : []
}

function npm(args, cwd) {
  const began = Date.now()
  const cli = process.env.npm_execpath
  const [file, ...first] = cli !== undefined && /npm-cli\.js$/.test(cli) ? [process.execPath, cli] : ['npm']
  return new Promise((resolve, reject) => {
    const child = spawn(file, [...first, ...args], { cwd, env: environment(), stdio: ['ignore', 2, 2], shell: process.platform === 'win32' })
    const ticking = setInterval(() => say(`npm ${args[0]} is at work since ${since(began)}`), 60_000)
    const end = () => child.kill('SIGTERM')
    process.once('exit', end)
    const done = (error) => {
      clearInterval(ticking)
      process.removeListener('exit', end)
      if (error === null) resolve()
      else reject(error)
    }
    child.on('error', (error) => done(new Error(`npm ${args[0]} of n8n could not start: ${error.message}`)))
    child.on('exit', (code, signal) => done(code === 0 ? null : new Error(`npm ${args[0]} of n8n failed (${signal ?? code})`)))
  })
}

/** Node 24 first on PATH, and none of the settings of this project, which an outer npm hands down. */
function environment() {
  const env = { ...process.env }
  for (const key of Object.keys(env)) {
    const isOuter = /^npm_(package|lifecycle|command)|^init_cwd$/i.test(key)
    if (isOuter || /^npm_config_(ignore_scripts|legacy_peer_deps|omit.*|nodedir|include|(local_|global_)?prefix)$/i.test(key)) delete env[key]
  }
  delete env.NODE_OPTIONS
  env.PATH = [path.dirname(process.execPath), env.PATH].join(path.delimiter)
  return env
}

function since(began) {
  const seconds = Math.round((Date.now() - began) / 1000)
  return seconds < 100 ? `${seconds} s` : `${(seconds / 60).toFixed(1)} min`
}

function say(text) {
  process.stderr.write(`n8n: ${text}\n`)
}

if (require.main === module) {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(143))
  ensureN8n().then((folder) => process.stdout.write(`${folder}\n`), (error) => {
    say(error.message)
    process.exitCode = 1
  })
}

module.exports = { ensureN8n, n8nFolder, version }
