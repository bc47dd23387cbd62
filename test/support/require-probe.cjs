'use strict'
/*
 * Loaded by `node --require` before a program: times what loading files of one package takes inside that program, which itself stays as it is.
 * HARNESS_PROBE_FOLDER names the package's folder, HARNESS_PROBE_OUT the file for the answer, written at the program's "exit" and each second,
 * with the processor time of the whole program.
 * Time nested in a load of ours is counted once, that of our dependencies included; so is the module body's, but not what it starts for later.
 */
const { realpathSync, writeFileSync } = require('node:fs')
const Module = require('node:module')

const folder = process.env.HARNESS_PROBE_FOLDER
const out = process.env.HARNESS_PROBE_OUT

if (folder && out) {
  const inside = realpathSync(folder) + require('node:path').sep
  const load = Module.prototype.load
  let depth = 0
  let milliseconds = 0
  const files = []

  Module.prototype.load = function timed(filename) {
    if (depth === 0 && !filename.startsWith(inside)) return load.call(this, filename)
    if (filename.startsWith(inside)) files.push(filename.slice(inside.length))
    depth += 1
    const began = performance.now()
    try {
      return load.call(this, filename)
    } finally {
      depth -= 1
      if (depth === 0) milliseconds += performance.now() - began
    }
  }

  const tell = () => writeFileSync(out, JSON.stringify({ milliseconds, files, cpu: (process.cpuUsage().user + process.cpuUsage().system) / 1000 }))
  setInterval(tell, 1_000).unref()
  process.on('exit', tell)
}
