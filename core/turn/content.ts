/*
 * A text of any kind: message, arguments, result. It lives once in `contents`; everything else, the record included, holds its id and
 * a salted digest, so that a text can be erased and the record still stands.
 */
import { seal, sha256, type Json } from '../digest'
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

/**
 * The result of a call. Its salt is an HMAC over the text, so that a text put in its place by hand is known; a salt is no secret of the
 * text, and this one tells nobody without the key more than any other.
 */
export function newResult(callId: string, value: Json, from: { readonly ids: Ids; readonly sealKey: Buffer }): Content {
  const text = JSON.stringify(value)
  const salt = resultSalt(callId, text, from.sealKey)
  return { content_id: from.ids.next('k'), digest: contentDigest(salt, text), salt, text }
}

/** Whether a result is what was recorded; one that was erased is. */
export function resultHolds(callId: string, result: Content | null, sealKey: Buffer): boolean {
  return result === null || result.text === null || result.salt === resultSalt(callId, result.text, sealKey)
}

function resultSalt(callId: string, text: string, sealKey: Buffer): string {
  return seal(sealKey, 'result', { call_id: callId, text }).slice(0, 32)
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
