'use strict'
/*
 * Tells when those who started us are gone. npm dies of SIGKILL, and its shell of any signal, without a word to what they run: a server
 * would stay behind. Between npm and us there may be that shell, which outlives npm; then npm is watched through it.
 */
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')

/** Calls back once. Does not keep the process alive. */
function watchParents(gone) {
  const parent = process.ppid
  const npm = npmBehind(parent)
  const timer = setInterval(() => {
    const parentIsThere = process.ppid === parent && isAlive(parent)
    if (parentIsThere && (npm === null || parentOf(parent) === npm)) return
    clearInterval(timer)
    gone()
  }, 500)
  timer.unref()
}

/** The process id of npm when our parent is only the shell that npm put between; null when there is no such shell. */
function npmBehind(parent) {
  if (process.env.npm_lifecycle_event === undefined || process.platform === 'win32') return null
  // the shell's command line is the script of package.json, which names us; npm's own does not
  return /scripts\/run\.cjs/.test(ask(parent, 'args')) ? parentOf(parent) : null
}

function parentOf(pid) {
  try {
    // after the program's name, which may hold anything: state, parent
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return Number(ask(pid, 'ppid'))
  }
}

function ask(pid, column) {
  try {
    if (column === 'args') return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    // no /proc here
  }
  return spawnSync('ps', ['-o', `${column}=`, '-p', String(pid)], { encoding: 'utf8' }).stdout ?? ''
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

module.exports = { watchParents }
