/*
 * A text of any kind: message, arguments, result. It lives once in `contents`; everything else, the record included, holds its id and
 * a salted digest, so that a text can be erased and the record still stands.
 */
import { sha256, type Json } from '../digest'
import type { Ids } from '../ids'

export interface Content {
  readonly content_id: string
  /** SHA-256 over salt and text. Salted: a digest of a guessable text must not give it away. */
  readonly digest: string
  readonly salt: string
  /** Null once erased. */
  readonly text: string | null
}

export function newContent(ids: Ids, text: string): Content {
  const salt = ids.hex(16)
  return { content_id: ids.next('k'), digest: contentDigest(salt, text), salt, text }
}

export function contentDigest(salt: string, text: string): string {
  return sha256(salt, '\0', text)
}

/** The value of a stored text that is JSON; null when it was erased, or edited into something that is none. */
export function jsonOf(text: string | null | undefined): Json {
  if (text === null || text === undefined) return null
  try {
    return JSON.parse(text) as Json
  } catch {
    return null
  }
}
