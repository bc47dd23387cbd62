'use strict'
/*
 * Loaded by `node --require` into a program that a test started: ends it when its parent is gone, however that died, so that a test run
 * that was killed leaves no server behind.
 */
const parent = process.ppid

setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
}, 500).unref()
