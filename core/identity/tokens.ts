/*
 * Tokens: how a program says over HTTP which principal it speaks for. A token is 256 random bits, so nobody guesses one, no list of
 * likely ones helps, and a plain SHA-256 of it is enough to keep: a slow hash guards passwords, which people choose, and here it would
 * only cost time at every request. Tokens stand in configuration; a row that looks like one is nothing.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Caller, Principal, Scope } from './principal'

export interface Token {
  readonly name: string
  /** Whom it speaks for. */
  readonly principal: string
  /** SHA-256 of the token, 64 hexadecimal digits. */
  readonly sha256: string
  /** Only these of the principal's scopes; null for all of them. Never more than the principal has. */
  readonly scopes: readonly Scope[] | null
  /** Bases of addresses where its holder may be called back, each ending in a slash. */
  readonly callbacks: readonly string[]
  /** From then on it is nothing, ms since 1970 UTC; null: never. */
  readonly expires_at: number | null
}

/** `ahk_` and 256 bits in base64url. */
export const tokenPattern = /^ahk_[A-Za-z0-9_-]{43}$/

/** The token of 32 random bytes. */
export function tokenOf(random: Uint8Array): string {
  if (random.length !== 32) throw new RangeError('a token is made of 32 bytes')
  return `ahk_${Buffer.from(random).toString('base64url')}`
}

export function tokenHash(token: string): string {
  return createHash('sha256').update(token, 'utf8').digest('hex')
}

/** The token in force that this text is, or null. Looks at every token to its end, so that time tells nothing about any of them. */
export function findToken(tokens: readonly Token[], presented: string, now: number): Token | null {
  const hash = Buffer.from(tokenHash(presented), 'hex')
  let found: Token | null = null
  for (const token of tokens) {
    if (timingSafeEqual(hash, Buffer.from(token.sha256, 'hex'))) found = token
  }
  if (found === null || !tokenPattern.test(presented)) return null
  return found.expires_at !== null && now >= found.expires_at ? null : found
}

/** Who calls with this token. The name of a token makes nothing but the label that executions record as their source. */
export function callerOfToken(token: Token, principal: Principal): Caller {
  const { scopes } = token
  return {
    principal: scopes === null ? principal : { ...principal, scopes: principal.scopes.filter((scope) => scopes.includes(scope)) },
    source: { type: token.name.startsWith('n8n') ? 'n8n' : 'external_system', id: token.name },
    callbacks: token.callbacks,
  }
}
