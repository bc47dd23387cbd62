'use strict'
/*
 * Says whether packages and build are up to date, by content and not by time: a checkout, a copy or a restored cache changes times.
 * The stamps lie inside what they speak of, so that deleting node_modules/ or dist/ deletes them too.
 */
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')

const root = path.join(__dirname, '..')
const dist = path.join(root, 'dist')
const packagesStamp = path.join(root, 'node_modules', '.setup-done')
const buildStamp = path.join(dist, '.build-done')
const sourceFolders = ['core', 'nodes', 'credentials', 'mcp-server']
const settings = ['tsconfig.json', 'gulpfile.js', 'package-lock.json']

function packagesAreFresh() {
  return read(packagesStamp) === packagesDigest()
}

function rememberPackages() {
  fs.writeFileSync(packagesStamp, packagesDigest())
}

function packagesDigest() {
  return digest(['package-lock.json'], [process.platform, process.arch])
}

function buildIsFresh() {
  return read(buildStamp) === sourcesNow().digest
}

/** Taken before a build, so that a source changed during it makes the next run build again. */
function sourcesNow() {
  const names = sourceFolders.flatMap((folder) => files(path.join(root, folder))).map((file) => path.relative(root, file)).sort()
  return { names, digest: digest([...names, ...settings], []) }
}

/** Remembers what was built, and removes from dist/ what sources that are gone have left behind. */
function rememberBuild(built) {
  const outputs = new Set(built.names.flatMap(outputsOf))
  for (const file of files(dist)) {
    const name = path.relative(dist, file)
    if (!outputs.has(name) && !name.startsWith('.') && !name.endsWith('.tsbuildinfo')) fs.rmSync(file, { force: true })
  }
  fs.writeFileSync(buildStamp, built.digest)
}

function outputsOf(source) {
  return /\.ts$/.test(source) && !/\.d\.ts$/.test(source)
    ? ['.js', '.js.map', '.d.ts', '.d.ts.map'].map((ending) => source.replace(/\.ts$/, ending))
    : [source]
}

function digest(names, words) {
  const hash = createHash('sha256')
  for (const word of words) hash.update(word)
  for (const name of names) hash.update(`\0${name}\0`).update(read(path.join(root, name)) ?? '')
  return hash.digest('hex')
}

function files(folder) {
  if (!fs.existsSync(folder)) return []
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name)
    return entry.isDirectory() ? files(file) : [file]
  })
}

function read(file) {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

module.exports = { buildIsFresh, packagesAreFresh, rememberBuild, rememberPackages, root, sourcesNow }
