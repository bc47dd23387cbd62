/*
 * Where serve listens, in a file of its home while it runs, so that the command line can name links. Only told to people, never called.
 * One that was killed leaves its file, and somebody else may have its port by then: the file names its process, and is not believed after it.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isProvablyDead, thisProcess } from '../core/index'

interface ServeAddress {
  readonly base: string
  readonly pid: number
  readonly host: string
  readonly pid_start: string | null
}

const fileOf = (folder: string): string => join(folder, 'serve.address')

export function rememberAddress(folder: string, base: string): void {
  const { pid, host, pidStart } = thisProcess()
  const address: ServeAddress = { base, pid, host, pid_start: pidStart }
  writeFileSync(fileOf(folder), `${JSON.stringify(address)}\n`, { mode: 0o600 })
}

/** Unless another one wrote its own meanwhile. */
export function forgetAddress(folder: string, base: string): void {
  if (rememberedAddress(folder) === base) rmSync(fileOf(folder), { force: true })
}

/** The address of an approval's page: for people, never for a model. */
export function pageAddress(base: string, approvalId: string, linkKey: string): string {
  return `${base}/approvals/${approvalId}?key=${linkKey}`
}

/** Null when serve does not run, as far as this place knows. */
export function rememberedAddress(folder: string): string | null {
  try {
    const address = JSON.parse(readFileSync(fileOf(folder), 'utf8')) as ServeAddress
    return /^http:\/\/127\.0\.0\.1:\d{1,5}$/.test(address.base) && !isProvablyDead(address) ? address.base : null
  } catch {
    return null
  }
}
