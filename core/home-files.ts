/*
 * Private files: made whole or not at all, by one of several processes that start at once, and read only while nobody else may change
 * them. Nothing here knows what the files are for.
 */
import { randomBytes } from 'node:crypto'
import { chmod, copyFile, link, mkdir, open, rename, stat, unlink, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { constants } from 'node:fs'
import { HarnessError } from './errors'

/** `secret`: nobody else may read it. `trusted`: nobody else may change it. */
export type Care = 'secret' | 'trusted'

const maxBytes = 2 << 20

/** Makes the folder (mode 0700, parents too) and refuses one that others may write. */
export async function ensureFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
  } catch (cause) {
    const text = `The folder ${folder} cannot be made. Is there a file in its place, or no right to write beside it?`
    throw new HarnessError('bad_config', text, { cause })
  }
  const facts = await stat(folder)
  if (!facts.isDirectory()) throw new HarnessError('bad_config', `${folder} is not a folder.`)
  checkAccess(folder, facts, 'trusted', '700')
}

/** The text of the file, null when there is none. Throws `bad_config` when others may write it, or read a secret one. */
export async function readPrivate(path: string, care: Care): Promise<string | null> {
  const handle = await openIfThere(path)
  if (handle === null) return null
  try {
    const facts = await handle.stat()
    if (!facts.isFile()) throw new HarnessError('bad_config', `${path} is not a file.`)
    checkAccess(path, facts, care, '600')
    if (facts.size > maxBytes) throw new HarnessError('bad_config', `${path} is larger than ${String(maxBytes)} bytes: it is not what belongs there.`)
    return new TextDecoder('utf-8', { fatal: true }).decode(await handle.readFile())
  } catch (cause) {
    if (cause instanceof TypeError) throw new HarnessError('bad_config', `${path} is not a text in UTF-8.`, { cause })
    throw cause
  } finally {
    await handle.close()
  }
}

/** Refuses a file that others may write; a file that is not there is fine. */
export async function checkTrusted(path: string): Promise<void> {
  const facts = await statIfThere(path)
  if (facts !== null) checkAccess(path, facts, 'trusted', '600')
}

/** Size in bytes, 0 when there is no such file. */
export async function sizeOf(path: string): Promise<number> {
  return (await statIfThere(path))?.size ?? 0
}

/**
 * Writes the file (mode 0600) unless it is there; answers whether this call made it. On disk when it resolves. A crash leaves the whole
 * file or none, on file systems that have hard links.
 */
export async function makeOnce(path: string, text: string): Promise<boolean> {
  if ((await statIfThere(path)) !== null) return false
  const draft = await writeDraft(path, text)
  try {
    await link(draft, path).catch(async (error: unknown) => {
      if (codeOf(error) === 'EEXIST') throw error
      await copyFile(draft, path, constants.COPYFILE_EXCL)
    })
    await syncFolder(dirname(path))
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  } finally {
    await unlink(draft)
  }
}

/** Puts a new text in the place of the file in one step; its mode is kept. On disk when it resolves. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const draft = await writeDraft(path, text)
  try {
    const facts = await statIfThere(path)
    if (facts !== null) await chmod(draft, facts.mode & 0o777)
    await rename(draft, path)
    await syncFolder(dirname(path))
  } catch (error) {
    await unlink(draft).catch(() => undefined)
    throw error
  }
}

async function writeDraft(path: string, text: string): Promise<string> {
  const draft = join(dirname(path), `.${basename(path)}.${randomBytes(8).toString('hex')}.draft`)
  const handle = await open(draft, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  return draft
}

/** Makes new names in the folder durable, where the system can. */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function openIfThere(path: string): Promise<FileHandle | null> {
  try {
    return await open(path, 'r')
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return null
    throw new HarnessError('bad_config', `${path} cannot be read. Give this user the right to read it.`, { cause })
  }
}

interface Facts {
  readonly mode: number
  readonly uid: number
  readonly size: number
}

async function statIfThere(path: string): Promise<Facts | null> {
  try {
    return await stat(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

function checkAccess(path: string, facts: Facts, care: Care, mode: string): void {
  if (process.platform === 'win32' || process.getuid === undefined) return
  const shown = `'${path.replaceAll("'", `'\\''`)}'`
  const user = process.getuid()
  // root works in folders that belong to others, as in containers
  if (facts.uid !== user && facts.uid !== 0 && user !== 0) {
    const remedy = `Use a place of your own, or run: chown ${String(user)} ${shown}`
    throw new HarnessError('bad_config', `${path} belongs to another user, who could change it. ${remedy}`)
  }
  if ((facts.mode & 0o022) !== 0) throw new HarnessError('bad_config', `${path} may be written by others. Run: chmod ${mode} ${shown}`)
  if (care === 'secret' && (facts.mode & 0o077) !== 0) {
    throw new HarnessError('bad_config', `${path} may be read by others. Run: chmod ${mode} ${shown}`)
  }
}

function codeOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
