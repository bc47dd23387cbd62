/*
 * The file of signed checkpoints beside the database. Lines are only ever added, each on disk before the next; a line torn by a crash
 * is closed and passed over, never cut away, since another process could be writing it.
 */
import { open } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { openIfThere, syncFolder } from './home-files'
import { HarnessError } from './errors'

const newline = 0x0a

/** Adds one line (JSON, no line break in it). Contract: on disk when it resolves. Throws `store_unavailable`. */
export async function appendLine(path: string, line: string): Promise<void> {
  if (line.includes('\n')) throw new HarnessError('invariant_broken', 'What is added must be one line.')
  try {
    const handle = await open(path, 'a+', 0o600)
    try {
      const { size } = await handle.stat()
      const end = Buffer.alloc(1, newline)
      if (size > 0) await handle.read(end, 0, 1, size - 1)
      const bytes = Buffer.from(`${end[0] === newline ? '' : '\n'}${line}\n`)
      const { bytesWritten } = await handle.write(bytes)
      if (bytesWritten !== bytes.length) throw new Error('short write')
      await handle.sync()
      if (size === 0) await syncFolder(dirname(path))
    } finally {
      await handle.close()
    }
  } catch (cause) {
    throw new HarnessError('store_unavailable', `A line could not be added to ${basename(path)}. Is the disk full, or the file read-only?`, { cause })
  }
}

/**
 * The whole lines in order. A last line without its end, and lines that are not one JSON object (torn by a crash), are passed over: a
 * checkpoint lost that way shows as a hole in the numbers. No file: no lines.
 */
export async function* readLines(path: string): AsyncGenerator<string> {
  const handle = await openIfThere(path)
  if (handle === null) return
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of handle.createReadStream() as AsyncIterable<Buffer>) {
    let bytes = Buffer.concat([rest, chunk])
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline)) {
      const line = bytes.toString('utf8', 0, end)
      if (isObject(line)) yield line
      bytes = bytes.subarray(end + 1)
    }
    rest = bytes
  }
}

function isObject(line: string): boolean {
  if (!line.startsWith('{')) return false
  try {
    JSON.parse(line)
    return true
  } catch {
    return false
  }
}
