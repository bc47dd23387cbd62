/*
 * One canonical form of JSON and the digests over it. Everything that is hashed, sealed or signed goes through here, so that two
 * places never disagree about what the same value looks like.
 */
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hash, hkdfSync, timingSafeEqual, type KeyObject } from 'node:crypto'
import { HarnessError } from './errors'

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/**
 * Canonical JSON in the manner of RFC 8785: keys sorted by UTF-16 code units, no white space, numbers as JavaScript prints them.
 * `undefined` members are left out. Throws `invalid_input` on NaN, Infinity and anything that is not JSON.
 */
export function canonical(value: unknown): string {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new HarnessError('invalid_input', 'A number in the value is not finite; JSON cannot hold it.')
    return JSON.stringify(value)
  }
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item ?? null)).join(',')}]`
  if (typeof value === 'object') {
    const members = Object.entries(value).filter(([, member]) => member !== undefined)
    members.sort(([left], [right]) => (left < right ? -1 : 1))
    return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(',')}}`
  }
  throw new HarnessError('invalid_input', `A value of type ${typeof value} cannot be written as JSON.`)
}

/** SHA-256 as lower-case hex. */
export function sha256(...parts: readonly string[]): string {
  return hash('sha256', parts.join(''), 'hex')
}

/** SHA-256 over the canonical form, with a name in front so that digests of different kinds never collide. */
export function digestOf(kind: string, value: unknown): string {
  return sha256(kind, '\0', canonical(value))
}

/**
 * A seal: HMAC-SHA-256 over the canonical form under a key kept outside the database. A row that gives rights or asks for work
 * carries one, and is ignored without it.
 */
export function seal(key: Buffer, kind: string, value: unknown): string {
  return createHmac('sha256', keyObject(key)).update(`${kind}\0${canonical(value)}`).digest('hex')
}

/** Made once for a key: making it costs more than a seal. */
const keyObjects = new WeakMap<Buffer, KeyObject>()
function keyObject(key: Buffer): KeyObject {
  const known = keyObjects.get(key) ?? createSecretKey(key)
  keyObjects.set(key, known)
  return known
}

/** Never throws: what was edited into something that has no canonical form carries no seal. */
export function sealHolds(key: Buffer, kind: string, value: unknown, given: string | null): boolean {
  if (given === null) return false
  let expected: Buffer
  try {
    expected = Buffer.from(seal(key, kind, value))
  } catch {
    return false
  }
  const actual = Buffer.from(given)
  return expected.length === actual.length && timingSafeEqual(expected, actual)
}

const cipher = 'aes-256-gcm'
const tagBytes = 16

function cipherKey(key: Buffer, kind: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, '', `agent-harness ${kind}`, 32))
}

/**
 * A text that the database may hold but nobody may read there: AES-256-GCM under a key of its kind, bound to `bound`. `nonce` is 12
 * random bytes as hex, never used twice.
 */
export function conceal(key: Buffer, kind: string, given: { readonly bound: Json; readonly text: string; readonly nonce: string }): string {
  const nonce = Buffer.from(given.nonce, 'hex')
  const work = createCipheriv(cipher, cipherKey(key, kind), nonce, { authTagLength: tagBytes })
  work.setAAD(Buffer.from(canonical(given.bound)))
  return Buffer.concat([nonce, work.update(given.text, 'utf8'), work.final(), work.getAuthTag()]).toString('base64')
}

/** The text again; null when it is none that was concealed under this key for this. Never throws. */
export function reveal(key: Buffer, kind: string, given: { readonly bound: Json; readonly hidden: string }): string | null {
  try {
    const bytes = Buffer.from(given.hidden, 'base64')
    const work = createDecipheriv(cipher, cipherKey(key, kind), bytes.subarray(0, 12), { authTagLength: tagBytes })
    work.setAAD(Buffer.from(canonical(given.bound)))
    work.setAuthTag(bytes.subarray(-tagBytes))
    return Buffer.concat([work.update(bytes.subarray(12, -tagBytes)), work.final()]).toString('utf8')
  } catch {
    return null
  }
}
