/*
 * A checkpoint fixes the heads of the chains that moved since the last one, under a signature made with a key kept outside the database.
 * It also goes to a file beside it: one who rewrites every row still contradicts what was signed before.
 */
import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto'
import { canonical, digestOf } from '../digest'

export interface ChainHead {
  readonly chain: string
  /** Number of rows in the chain. */
  readonly seq: number
  readonly hash: string
}

export interface Checkpoint {
  /** From 1, without holes. */
  readonly number: number
  readonly at: number
  /** Chains that moved since the checkpoint before, by name ascending. */
  readonly heads: readonly ChainHead[]
  /** SHA-256 over the root before and these heads: stands for all heads so far. */
  readonly root: string
  /** Ed25519 over the rest, base64. */
  readonly signature: string
}

export const emptyRoot = digestOf('checkpoint-root', null)

export function nextRoot(previous: string, number: number, heads: readonly ChainHead[]): string {
  return digestOf('checkpoint-root', { previous, number, heads })
}

function bytesOf(checkpoint: Omit<Checkpoint, 'signature'>): Buffer {
  return Buffer.from(canonical({ number: checkpoint.number, at: checkpoint.at, root: checkpoint.root }))
}

/** The next checkpoint after `previous`. */
export function makeCheckpoint(previous: Checkpoint | null, heads: readonly ChainHead[], at: number, privateKey: string): Checkpoint {
  const number = (previous?.number ?? 0) + 1
  const unsigned = { number, at, heads, root: nextRoot(previous?.root ?? emptyRoot, number, heads) }
  return { ...unsigned, signature: sign(null, bytesOf(unsigned), createPrivateKey(privateKey)).toString('base64') }
}

export function checkpointSignatureHolds(checkpoint: Checkpoint, publicKey: KeyObject | string): boolean {
  try {
    const key = typeof publicKey === 'string' ? createPublicKey(publicKey) : publicKey
    return verify(null, bytesOf(checkpoint), key, Buffer.from(checkpoint.signature, 'base64'))
  } catch {
    return false
  }
}
