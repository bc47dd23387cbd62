/*
 * Which writes were handed to the wire, remembered outside the database: one that was rewound or restored from a backup still never
 * sends a write again. Lines are only ever added, and a line counts only when it is whole.
 */
import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { HarnessError } from './errors'

export interface SentLog {
  /** Whether the call was appended, by this process or another. */
  has(callId: string): boolean
  /** Contract: on disk when it resolves. Fails with `store_unavailable`: then nothing may be sent. */
  append(callId: string): Promise<void>
  close(): Promise<void>
}

/** As core/ids.ts makes them. Fixed length, so that a torn line is never the id of another call. */
const idPattern = /^c_[0-9a-f]{32}$/
const newline = 0x0a

/** Opens the file, making it (mode 0600) where it is not there. One line, `<call_id>\n`, for each entry. */
export async function openSentLog(path: string): Promise<SentLog> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_APPEND, 0o600).catch((cause: unknown) => {
    const text = 'sent.log cannot be opened, so no write could be sent. Is it a file, and may this user write it?'
    throw new HarnessError('store_unavailable', text, { cause })
  })
  syncFolderOf(path)
  const known = new Set<string>()
  let readTo = 0
  let unfinished = Buffer.alloc(0)
  let last: Promise<unknown> = Promise.resolve()

  const readOn = (): void => {
    const { size } = fstatSync(handle.fd)
    if (size < readTo) {
      // somebody cut the file: what is known stays known
      readTo = 0
      unfinished = Buffer.alloc(0)
    }
    while (readTo < size) {
      const chunk = Buffer.alloc(Math.min(size - readTo, 1 << 20))
      const count = readSync(handle.fd, chunk, 0, chunk.length, readTo)
      if (count === 0) return
      readTo += count
      const bytes = Buffer.concat([unfinished, chunk.subarray(0, count)])
      const whole = bytes.lastIndexOf(newline) + 1
      for (const line of bytes.toString('latin1', 0, whole).split('\n')) if (idPattern.test(line)) known.add(line)
      unfinished = bytes.subarray(whole)
    }
  }

  const write = async (callId: string): Promise<void> => {
    const { size } = fstatSync(handle.fd)
    const end = Buffer.alloc(1, newline)
    if (size > 0) readSync(handle.fd, end, 0, 1, size - 1)
    // a line torn by a crash is closed first, or the two would run together
    const line = Buffer.from(`${end[0] === newline ? '' : '\n'}${callId}\n`)
    const { bytesWritten } = await handle.write(line)
    if (bytesWritten !== line.length) throw new Error('short write')
    await handle.datasync()
    known.add(callId)
  }

  return {
    has(callId) {
      if (known.has(callId)) return true
      readOn()
      return known.has(callId)
    },
    async append(callId) {
      if (!idPattern.test(callId)) throw new HarnessError('invariant_broken', 'What is sent must have the id of a call.')
      const mine = last.then(() => write(callId))
      last = mine.catch(() => undefined)
      try {
        await mine
      } catch (error) {
        const text = `Call ${callId} could not be noted in sent.log, so it was not sent. Is the disk full, or the file read-only?`
        throw new HarnessError('store_unavailable', text, { cause: error })
      }
    },
    async close() {
      await last
      await handle.close()
    },
  }
}

/** Makes a new name in the folder durable, where the system can. */
function syncFolderOf(path: string): void {
  if (process.platform === 'win32') return
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
