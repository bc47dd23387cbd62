/*
 * Globs over function ids. `*` stands for any run of characters, `::` included; nothing else is special. Ids are lower-case ASCII,
 * so no two spellings of one id exist. Deny wins; an empty allow list allows nothing.
 */
import { HarnessError } from '../errors'

/** A function id: two or more segments of `[a-z0-9_]` joined by `::`, no leading, trailing or doubled underscore; 3 to 60 characters. */
export const functionIdPattern = /^[a-z0-9]+(?:_[a-z0-9]+)*(?:::[a-z0-9]+(?:_[a-z0-9]+)*)+$/
export const maxFunctionIdLength = 60

export function isFunctionId(text: string): boolean {
  return text.length <= maxFunctionIdLength && functionIdPattern.test(text)
}

const globPattern = /^[a-z0-9_:*]{1,80}$/

/** Throws `invalid_input` naming the glob and what is wrong with it. */
export function checkGlob(glob: string): void {
  if (!globPattern.test(glob)) {
    throw new HarnessError('invalid_input', `Bad glob ${JSON.stringify(glob.slice(0, 80))}: a glob holds only a-z, 0-9, _, : and *, at most 80 characters.`)
  }
}

/** Whether the glob matches the whole id. Linear in the glob's pieces: no regular expression is built from foreign text. */
export function globMatches(glob: string, id: string): boolean {
  const pieces = glob.split('*')
  const first = pieces[0] ?? ''
  if (pieces.length === 1) return id === first
  const last = pieces[pieces.length - 1] ?? ''
  if (!id.startsWith(first) || !id.endsWith(last) || id.length < first.length + last.length) return false
  let from = first.length
  const end = id.length - last.length
  for (const piece of pieces.slice(1, -1)) {
    const at = id.indexOf(piece, from)
    if (at < 0 || at + piece.length > end) return false
    from = at + piece.length
  }
  return true
}

export interface Globs {
  readonly allow: readonly string[]
  readonly deny: readonly string[]
}

export type GlobVerdict = { readonly allowed: true; readonly glob: string } | { readonly allowed: false; readonly glob: string | null }

/** Deny wins over allow; without a match the answer is no. `glob` is the one that decided, null when none matched. */
export function matchGlobs(globs: Globs, id: string): GlobVerdict {
  const denied = globs.deny.find((glob) => globMatches(glob, id))
  if (denied !== undefined) return { allowed: false, glob: denied }
  const allowed = globs.allow.find((glob) => globMatches(glob, id))
  return allowed === undefined ? { allowed: false, glob: null } : { allowed: true, glob: allowed }
}
