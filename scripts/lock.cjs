'use strict'
/*
 * One set-up at a time: `npm start` and `npm test` on one fresh clone must not install over each other. The lock is a file that names
 * its owner; one whose owner is dead is taken over, under a second lock so that two who notice it do not both succeed.
 */
const fs = require('node:fs')

/** Does the work while holding the lock; answers what the work answers. */
async function exclusive(lock, say, work) {
  for (let said = false; !claim(lock); ) {
    const owner = ownerOf(lock)
    if (owner === null) continue
    if (!isAlive(owner)) takeOver(lock)
    else {
      if (!said) say(`waiting for another set-up in this folder (process ${owner}; if it is no set-up, delete ${lock})`)
      said = true
      await sleep(200)
    }
  }
  const release = () => fs.rmSync(lock, { force: true })
  process.on('exit', release)
  try {
    return await work()
  } finally {
    process.removeListener('exit', release)
    release()
  }
}

function claim(file) {
  // written aside and linked into place, so that nobody ever reads a lock without its owner
  const mine = `${file}.${process.pid}`
  fs.writeFileSync(mine, String(process.pid))
  try {
    fs.linkSync(mine, file)
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  } finally {
    fs.rmSync(mine, { force: true })
  }
}

function takeOver(lock) {
  const guard = `${lock}.takeover`
  if (!claim(guard)) {
    const owner = ownerOf(guard)
    if (owner !== null && !isAlive(owner)) fs.rmSync(guard, { force: true })
    return
  }
  const owner = ownerOf(lock)
  if (owner !== null && !isAlive(owner)) fs.rmSync(lock, { force: true })
  fs.rmSync(guard, { force: true })
}

function ownerOf(file) {
  try {
    return Number(fs.readFileSync(file, 'utf8'))
  } catch {
    return null
  }
}

function isAlive(pid) {
  // our own number in a lock that we do not hold: it was another process's before
  if (!(pid > 0) || pid === process.pid) return false
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}

module.exports = { exclusive }
