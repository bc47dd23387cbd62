/*
 * An approver's private key, locked by a passphrase. Text in, text out: where the file lies is not known here. The key never leaves
 * unlocked except as a KeyObject, and the file's parameters are bound to its contents, so that nobody can weaken them unseen.
 */
import { createCipheriv, createDecipheriv, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, scrypt } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { canonical } from '../digest'
import { HarnessError } from '../errors'

/** Shortest passphrase, in characters after NFKC. */
export const minPassphraseLength = 12

const kind = 'agent-harness approver key'
const strength = { n: 2 ** 17, r: 8, p: 1 }
const weakest = { n: 2 ** 15, r: 8, p: 1 }
const strongest = { n: 2 ** 20, r: 16, p: 4 }

interface Header {
  readonly kind: typeof kind
  readonly version: 1
  /** Ed25519, SPKI DER in base64. */
  readonly public_key: string
  readonly kdf: { readonly name: 'scrypt'; readonly n: number; readonly r: number; readonly p: number; readonly salt: string }
  readonly cipher: { readonly name: 'aes-256-gcm'; readonly iv: string }
}

interface KeyFile extends Header {
  readonly ciphertext: string
  readonly tag: string
}

/**
 * A new Ed25519 key: `publicKey` as SPKI DER in base64, for harness.yaml, and the text of its key file (JSON). Takes about half a
 * second and 128 MiB. Throws `invalid_input` for a passphrase under {@link minPassphraseLength} characters.
 */
export async function makeApproverKey(passphrase: string): Promise<{ readonly publicKey: string; readonly file: string }> {
  const normal = passphrase.normalize('NFKC')
  if (Array.from(normal).length < minPassphraseLength) {
    const least = `it needs at least ${String(minPassphraseLength)} characters`
    throw new HarnessError('invalid_input', `The passphrase is too short: ${least}. Several unrelated words are good.`)
  }
  const pair = generateKeyPairSync('ed25519')
  const publicKey = pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
  const salt = randomBytes(32)
  const iv = randomBytes(12)
  const header: Header = {
    kind, version: 1, public_key: publicKey,
    kdf: { name: 'scrypt', ...strength, salt: salt.toString('base64') },
    cipher: { name: 'aes-256-gcm', iv: iv.toString('base64') },
  }
  const cipher = createCipheriv('aes-256-gcm', await derive(normal, header), iv)
  cipher.setAAD(boundBytes(header))
  const secret = pair.privateKey.export({ format: 'der', type: 'pkcs8' })
  const ciphertext = Buffer.concat([cipher.update(secret), cipher.final()])
  secret.fill(0)
  const file: KeyFile = { ...header, ciphertext: ciphertext.toString('base64'), tag: cipher.getAuthTag().toString('base64') }
  return { publicKey, file: `${JSON.stringify(file, null, 2)}\n` }
}

/**
 * The private key in the file. Throws `wrong_passphrase` when the passphrase does not open it (or the file was altered: the two cannot be
 * told apart), `bad_config` when it is no key file or its parameters are out of bounds.
 */
export async function openApproverKey(file: string, passphrase: string): Promise<KeyObject> {
  const { ciphertext, tag, ...header } = parseKeyFile(file)
  const derived = await derive(passphrase.normalize('NFKC'), header)
  const key = decrypt(derived, header, Buffer.from(ciphertext, 'base64'), Buffer.from(tag, 'base64'))
  if (key === null) throw new HarnessError('wrong_passphrase', 'The passphrase does not open this key.')
  return key
}

/** The public key that a key file names, after checking its form without a passphrase. Throws `bad_config`. */
export function publicKeyOfFile(file: string): string {
  return parseKeyFile(file).public_key
}

function decrypt(derived: Buffer, header: Header, ciphertext: Buffer, tag: Buffer): KeyObject | null {
  try {
    const decipher = createDecipheriv('aes-256-gcm', derived, Buffer.from(header.cipher.iv, 'base64'), { authTagLength: 16 })
    decipher.setAAD(boundBytes(header))
    decipher.setAuthTag(tag)
    const secret = Buffer.concat([decipher.update(ciphertext), decipher.final()])
    const key = createPrivateKey({ key: secret, format: 'der', type: 'pkcs8' })
    secret.fill(0)
    const publicKey = createPublicKey(key).export({ format: 'der', type: 'spki' }).toString('base64')
    return key.asymmetricKeyType === 'ed25519' && publicKey === header.public_key ? key : null
  } catch {
    return null // wrong passphrase and altered file look the same to the cipher
  }
}

function derive(passphrase: string, header: Header): Promise<Buffer> {
  const { n, r, p, salt } = header.kdf
  const options = { N: n, r, p, maxmem: 128 * n * r + 128 * r * p + (1 << 20) }
  return new Promise((resolve, reject) => {
    scrypt(passphrase, Buffer.from(salt, 'base64'), 32, options, (error, key) => {
      if (error === null) resolve(key)
      else reject(error)
    })
  })
}

/** Everything but the secret itself; what the cipher authenticates. */
function boundBytes(header: Header): Buffer {
  const { public_key, kdf, cipher } = header
  return Buffer.from(canonical({ kind: header.kind, version: header.version, public_key, kdf, cipher }))
}

function parseKeyFile(file: string): KeyFile {
  const broken = (why: string): HarnessError => {
    const remedy = 'Restore it from a backup, or make a new key under another name with agent-harness init.'
    return new HarnessError('bad_config', `The approver key file is not usable: ${why}. ${remedy}`)
  }
  let value: unknown
  try {
    value = JSON.parse(file)
  } catch {
    throw broken('it is not whole')
  }
  if (!isRecord(value) || value['kind'] !== kind) throw broken('it is no key file of this program')
  if (value['version'] !== 1) throw broken('it was written by a newer version of this program')
  const { public_key, kdf, cipher, ciphertext, tag } = value
  if (!isRecord(kdf) || !isRecord(cipher) || kdf['name'] !== 'scrypt' || cipher['name'] !== 'aes-256-gcm') {
    throw broken('it is locked in a way that this program does not know')
  }
  const { n, r, p } = kdf
  if (!isWhole(n) || !isWhole(r) || !isWhole(p)) throw broken('its parameters are not numbers')
  if (n < weakest.n || r < weakest.r || p < weakest.p) throw broken('its passphrase is protected too weakly')
  if (n > strongest.n || r > strongest.r || p > strongest.p || !Number.isInteger(Math.log2(n))) throw broken('its parameters are out of bounds')
  const sized = (text: unknown, bytes: number): text is string => typeof text === 'string' && Buffer.from(text, 'base64').length === bytes
  if (!sized(kdf['salt'], 32) || !sized(cipher['iv'], 12) || !sized(tag, 16)) throw broken('a part of it has the wrong length')
  if (typeof ciphertext !== 'string' || ciphertext.length > 4096 || typeof public_key !== 'string' || public_key.length > 200) {
    throw broken('a part of it is missing')
  }
  return {
    kind, version: 1, public_key, ciphertext, tag,
    kdf: { name: 'scrypt', n, r, p, salt: kdf['salt'] },
    cipher: { name: 'aes-256-gcm', iv: cipher['iv'] },
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value)
}
