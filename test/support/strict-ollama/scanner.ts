/*
 * Way A's reader of calls, by the rules that were seen to hold: after the tag, any offered name anywhere in the text, then the first object.
 * It is as careless as the original, on purpose.
 */
export interface ScannedCall {
  readonly name: string
  readonly arguments: Record<string, unknown>
}

/** Text and calls of what a model wrote. Text before the tag stays text; what follows it is text no more, whether a call is found or not. */
export function scan(written: string, tag: string, names: readonly string[]): { text: string; calls: ScannedCall[] } {
  const at = written.indexOf(tag)
  if (at < 0 || (tag === '{' && written.slice(0, at).trim() !== '')) return { text: written, calls: [] }
  const text = written.slice(0, at).trim()
  const rest = tag === '{' ? written.slice(at) : written.slice(at + tag.length)
  const name = firstName(rest, names)
  if (name === null) return { text, calls: [] }
  const found = argumentsIn(rest, name)
  return { text, calls: found === null ? [] : [{ name, arguments: found }] }
}

/** The earliest; of two that begin at the same place the longer. */
function firstName(text: string, names: readonly string[]): string | null {
  const hits = names.map((name) => ({ name, at: text.indexOf(name) })).filter((hit) => hit.at >= 0)
  hits.sort((left, right) => left.at - right.at || right.name.length - left.name.length)
  return hits[0]?.name ?? null
}

function argumentsIn(text: string, name: string): Record<string, unknown> | null {
  const from = text.indexOf('{')
  const value = from < 0 ? null : objectAt(text, from)
  if (value === null) return null
  if (value['name'] !== name) return value['name'] === undefined ? value : null
  const given = value['arguments'] ?? value['parameters']
  if (typeof given === 'string') return objectAt(given, 0)
  return typeof given === 'object' && given !== null && !Array.isArray(given) ? (given as Record<string, unknown>) : null
}

function objectAt(text: string, from: number): Record<string, unknown> | null {
  let depth = 0
  let quoted = false
  for (let at = from; at < text.length; at += 1) {
    const character = text[at]
    if (quoted && character === '\\') at += 1
    else if (character === '"') quoted = !quoted
    else if (!quoted && character === '{') depth += 1
    else if (!quoted && character === '}' && (depth -= 1) === 0) return parsed(text.slice(from, at + 1))
  }
  return null
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return null
  }
}
