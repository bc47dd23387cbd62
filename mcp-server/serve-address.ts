/* Where serve listens, in a file of its home while it runs, so that the command line can name links. Only told to people, never called. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const fileOf = (folder: string): string => join(folder, 'serve.address')

export function rememberAddress(folder: string, base: string): void {
  writeFileSync(fileOf(folder), `${base}\n`, { mode: 0o600 })
}

/** Unless another one wrote its own meanwhile. */
export function forgetAddress(folder: string, base: string): void {
  if (rememberedAddress(folder) === base) rmSync(fileOf(folder), { force: true })
}

/** The address of an approval's page: for people, never for a model. */
export function pageAddress(base: string, approvalId: string, linkKey: string): string {
  return `${base}/approvals/${approvalId}?key=${linkKey}`
}

/** Null when serve does not run, as far as this place knows: one that was killed leaves its file. */
export function rememberedAddress(folder: string): string | null {
  try {
    const text = readFileSync(fileOf(folder), 'utf8').trim()
    return /^http:\/\/127\.0\.0\.1:\d{1,5}$/.test(text) ? text : null
  } catch {
    return null
  }
}
