/*
 * Names of functions as one request offers them. For many models Ollama finds a call by looking for any offered name anywhere in what
 * was written, so a name inside another one can turn a call of one function into a call of the other. Names that could are told apart here.
 */
import { toWireName } from './wire-names'

export interface WireNames {
  /** The name under which a function is offered; for one that is not, a name the server accepts (results of invented calls need one). */
  encode(functionId: string): string
  /** The offered function with exactly this name; null when there is none. */
  decode(name: string): string | null
}

/**
 * The rule: an id is offered under its wire name. Where a wire name is contained in another one of the same request, it gets a tail of three
 * underscores and two characters, numbered in the order of the ids: `files::list` beside `files::list_all` is `files__list___00`. No wire name
 * holds three underscores and all tails differ and are equally long, so after that none contains another; at most 1,296 tails exist, and
 * a contained name is short enough for one. The same offer always gives the same names; decoding needs the map of the request.
 */
export function wireNames(functionIds: readonly string[]): WireNames {
  const plain = [...new Set(functionIds)].sort().map((id) => ({ id, name: toWireName(id) }))
  const all = plain.map((entry) => entry.name)
  const toName = new Map<string, string>()
  const toId = new Map<string, string>()
  let contained = 0
  for (const { id, name } of plain) {
    const inside = all.some((other) => other !== name && other.includes(name))
    const offered = inside ? `${name}___${contained.toString(36).padStart(2, '0')}` : name
    if (inside) contained += 1
    toName.set(id, offered)
    toId.set(offered, id)
  }
  return {
    encode: (functionId) => toName.get(functionId) ?? acceptable(toWireName(functionId)),
    decode: (name) => toId.get(name) ?? null,
  }
}

/** What a model invented, as a name that every server takes. */
function acceptable(name: string): string {
  const cleaned = name.replace(/[^A-Za-z0-9_]/g, '_').slice(0, 64)
  return cleaned === '' ? 'unnamed' : cleaned
}
