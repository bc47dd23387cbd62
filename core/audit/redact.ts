/*
 * Masks secrets in a text that will be shown or recorded: those known by value, and what looks like a common token. It masks and never
 * refuses. Time is linear in the text: each pattern either begins at a fixed word or reads a run of characters once.
 */

/** What stands in the place of a secret. */
export const mask = '[masked]'

/** Shorter values would mask half of any text. */
export const shortestSecret = 6

const patterns: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  // authorization: Bearer …, in headers as text, JSON and escaped JSON
  [/(\bauthorization[\\"']{0,4}[ \t]{0,4}[:=][ \t]{0,4}[\\"']{0,4}(?:Bearer|Basic|Token|ApiKey)[ \t]{1,4})(?!\[masked\])[^\s\\"',;]+/gi, `$1${mask}`],
  [/(\bBearer[ \t]{1,8})[A-Za-z0-9._~+/-]{16,}={0,2}/gi, `$1${mask}`],
  // user:password@ in an address; the user stays
  [/(?<=:\/\/)([^\s/?#:@"'<>\\]{0,256}):(?!\[masked\]@)[^\s/?#"'<>\\]+@/g, `$1:${mask}@`],
  [/\bsk-[A-Za-z0-9_-]{16,}/g, mask],
  [/\bgh[oprsu]_[A-Za-z0-9]{20,}/g, mask],
  [/\bgithub_pat_[A-Za-z0-9_]{20,}/g, mask],
  [/\bglpat-[A-Za-z0-9_-]{16,}/g, mask],
  [/\bxox[abeoprs]-[A-Za-z0-9-]{10,}/g, mask],
  [/\b(?:npm|hf)_[A-Za-z0-9]{30,}/g, mask],
  [/\bAIza[A-Za-z0-9_-]{30,}/g, mask],
  [/\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g, mask],
  // a signed web token; it begins where no such run is under way, so that a run is read once
  [/(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?/g, mask],
]

/**
 * The text with `[masked]` for each of `secrets` (of at least {@link shortestSecret} characters; also as JSON and URLs write them), and
 * for what has the shape of a bearer token, an API key (sk-, ghp_, AKIA, …), a private key in PEM or a password in a URL.
 */
export function maskSecrets(text: string, secrets: readonly string[]): string {
  return patterns.reduce((masked, [pattern, replacement]) => masked.replace(pattern, replacement), maskPrivateKeys(maskKnown(text, secrets)))
}

function maskKnown(text: string, secrets: readonly string[]): string {
  const forms = new Set(secrets.filter((secret) => secret.length >= shortestSecret).flatMap(formsOf))
  const found: (readonly [start: number, end: number])[] = []
  for (const form of forms) {
    for (let at = text.indexOf(form); at >= 0; at = text.indexOf(form, at + form.length)) found.push([at, at + form.length])
  }
  return replaceRanges(text, found)
}

/** A secret as such, as JSON strings hold it, and as URLs hold it. */
function formsOf(secret: string): string[] {
  return [secret, JSON.stringify(secret).slice(1, -1), inUrl(secret)]
}

function inUrl(secret: string): string {
  try {
    return encodeURIComponent(secret)
  } catch {
    return secret // half a surrogate pair has no form in a URL
  }
}

/** One mask for each range; ranges that overlap or touch are one, so that no end of a secret is left. */
function replaceRanges(text: string, ranges: (readonly [start: number, end: number])[]): string {
  if (ranges.length === 0) return text
  ranges.sort(([left], [right]) => left - right)
  const parts: string[] = []
  let kept = 0
  for (const [start, end] of ranges) {
    if (start > kept || parts.length === 0) parts.push(text.slice(kept, start), mask)
    kept = Math.max(kept, end)
  }
  return parts.join('') + text.slice(kept)
}

const keyBegin = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g
const keyEnd = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/y
/** What a key without its end is made of, line breaks as JSON writes them included. */
const keyBody = /[A-Za-z0-9+/=\s\\]*/y

function maskPrivateKeys(text: string): string {
  const ranges: (readonly [number, number])[] = []
  let covered = 0
  for (const begin of text.matchAll(keyBegin)) {
    if (begin.index < covered) continue
    const afterBegin = begin.index + begin[0].length
    // headers inside a key may hold any character; the next dashes are its end, or it has none
    const dashes = text.indexOf('-----', afterBegin)
    covered = (dashes < 0 ? null : endOfMatch(keyEnd, text, dashes)) ?? endOfMatch(keyBody, text, afterBegin) ?? afterBegin
    ranges.push([begin.index, covered])
  }
  return replaceRanges(text, ranges)
}

function endOfMatch(pattern: RegExp, text: string, from: number): number | null {
  pattern.lastIndex = from
  const match = pattern.exec(text)
  return match === null ? null : from + match[0].length
}
