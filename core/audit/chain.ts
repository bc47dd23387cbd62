/* The record: rows of changes, each linked to the one before in its chain by a hash. Pure; the store writes them, verify reads them. */
import { canonical, sha256 } from '../digest'
import type { Change } from '../turn/changes'

/** What the first row of a chain links to. */
export const genesis = '0'.repeat(64)

export interface AuditFacts {
  readonly chain: string
  /** From 1, without holes. */
  readonly seq: number
  readonly at: number
  readonly actor: string
  /** Canonical JSON of the changes, texts by digest. */
  readonly changes: string
  readonly prev_hash: string
}

/** SHA-256 over the row's facts, newline-separated; the published form (docs/guarantees.md). */
export function auditHash(row: AuditFacts): string {
  return sha256([row.chain, String(row.seq), String(row.at), row.actor, sha256(row.changes), row.prev_hash].join('\n'))
}

/** The changes as the record keeps them: canonical JSON in which a text is its id and digest alone. */
export function auditText(changes: readonly Change[]): string {
  return canonical(changes.map(withoutTexts))
}

function withoutTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTexts)
  if (typeof value !== 'object' || value === null) return value
  if ('content_id' in value && 'digest' in value) return { content_id: value.content_id, digest: value.digest }
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withoutTexts(member)]))
}
