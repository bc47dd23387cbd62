/*
 * Verifies the whole record: against itself, against the checkpoints that were signed, and against the rows it explains. Reads sorted
 * streams side by side, so that it needs little memory however long the record is. Pure; what it reads is handed in.
 */
import { createPublicKey, type KeyObject } from 'node:crypto'
import type { Execution } from '../executions/execution'
import type { AuditFacts } from './chain'
import type { ChainHead, Checkpoint } from './checkpoint'
import type { FoldedObject, TextRef } from './fold'
import { newFindings, type AuditReport } from './report'
import { verifyChains } from './verify-chains'
import { verifyCheckpoints } from './verify-checkpoints'

export interface StoredHead extends ChainHead {
  /** How far the chain is in checkpoints. */
  readonly checkpointed_seq: number
}

export interface StoredText extends TextRef {
  readonly salt: string
  /** Null once erased. */
  readonly text: string | null
}

/** An execution's row, its payload by id and digest. */
export type StoredExecution = Omit<Execution, 'payload'> & { readonly payload: TextRef }

/**
 * What verifying reads of a database.
 * Contract: everything as it was at one moment, whatever is written meanwhile; streams ascend by the order of code points; values that
 * somebody put in by hand may be of any type, and none makes a read fail. Between two pages other work gets its turn.
 */
export interface AuditReads {
  /** By chain and seq. */
  auditRows(): AsyncIterable<AuditFacts & { readonly hash: string }>
  /** By chain. */
  chainHeads(): AsyncIterable<StoredHead>
  /** By number. Unreadable heads are none. */
  checkpoints(): AsyncIterable<Checkpoint>
  checkpointNumbered(number: number): Promise<Checkpoint | null>
  /** The hashes of these rows, in this order; null where there is none. */
  hashesAt(places: readonly Pick<ChainHead, 'chain' | 'seq'>[]): Promise<readonly (string | null)[]>
  /** The texts of these ids, in this order. */
  textsOf(contentIds: readonly string[]): Promise<readonly (StoredText | null)[]>
  /** By id. */
  executions(): AsyncIterable<StoredExecution>
  /** Ids of sessions, ascending. */
  sessions(): AsyncIterable<string>
  /** The session itself, and its turns, calls, approvals, messages and inbox items. */
  objectsOf(sessionId: string): Promise<readonly FoldedObject[]>
  /** How many turns, calls, approvals, messages and inbox items there are. */
  countObjects(): Promise<number>
  /** Those that belong to no session or turn there is, or to a session without a chain; the first hundred of a kind. */
  strays(): Promise<readonly Pick<FoldedObject, 'kind' | 'id'>[]>
}

export interface VerifyInput {
  readonly reads: AuditReads
  /** The lines of the checkpoint file; null when there is no file. Read after the moment that `reads` shows. */
  readonly checkpointLines: AsyncIterable<string> | null
  /** SPKI PEM or a key; null when it is not there. */
  readonly publicKey: KeyObject | string | null
  /** A checkpoint as the database has it by now, for lines in the file that are newer than `reads`. */
  readonly laterCheckpoint: (number: number) => Promise<Checkpoint | null>
}

const withoutKey = 'The public key of the checkpoints (checkpoint.pub) is not there or unreadable, so their signatures were not checked.'
const withoutCheckpoint = 'There is no checkpoint yet, so nothing shows whether the record was made anew from its beginning.'

/** What is true of the record. Throws only what reading throws. */
export async function verifyAudit(input: VerifyInput): Promise<AuditReport> {
  const findings = newFindings()
  const publicKey = keyOf(input.publicKey)
  if (publicKey === null) findings.couldNotTell(withoutKey)

  const { sealed, checkpoints } = await verifyCheckpoints({ ...input, publicKey, findings })
  const chains = await verifyChains({ reads: input.reads, sealed, findings })

  if (chains.rows > 0 && checkpoints === 0) findings.couldNotTell(withoutCheckpoint)
  return findings.report({ ...chains, checkpoints })
}

function keyOf(given: KeyObject | string | null): KeyObject | null {
  if (given === null || typeof given !== 'string') return given
  try {
    return createPublicKey(given)
  } catch {
    return null
  }
}
