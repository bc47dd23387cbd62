/* A place with its HTTP interface on a free port of loopback, and tokens that tests know. */
import { createHash } from 'node:crypto'
import { silentLog } from '../../core/log'
import { postTo, remoteHarness, tokenHash, tokenOf, type Harness } from '../../core/index'
import { startHttp } from '../../mcp-server/http'
import { v1Routes, type V1Parts } from '../../mcp-server/v1-routes'

/** The token of a name: the same in each run. */
export function tokenNamed(name: string): string {
  return tokenOf(createHash('sha256').update(name).digest())
}

/** An entry of `tokens:`. */
export function tokenLine(name: string, principal: string, more = ''): string {
  return `  - { name: ${name}, principal: ${principal}, sha256: ${tokenHash(tokenNamed(name))}${more} }\n`
}

export interface Door {
  readonly base: string
  /** The harness as the holder of this token has it. */
  remote(tokenName: string): Harness
  close(): Promise<void>
}

export async function openDoor(place: { readonly harness: V1Parts['harness'] }): Promise<Door> {
  const server = await startHttp(0, v1Routes({ harness: place.harness, log: silentLog }))
  return { base: server.base, remote: (name) => remoteHarness(postTo(server.base, tokenNamed(name)), { address: server.base }), close: () => server.close() }
}
