/* Keeps an answer short enough for every client: the longest texts are cut, with a note that says so. Never cuts silently. */
import type { Json } from '../core/index'

/** Most bytes of one answer over MCP. */
export const answerBytes = 20_000

const textLengths = [8_000, 4_000, 2_000, 1_000, 500, 200]
const listLengths = [200, 100, 50, 20, 10]

export type Facts = Readonly<Record<string, Json>>

/** The facts as they are if they fit, else shortened as little as it takes, with `cut` saying how. */
export function capped(facts: Facts, limit = answerBytes): Facts {
  if (size(facts) <= limit) return facts
  for (const length of textLengths) {
    const short = noted(
      shorter(facts, { text: length, list: Infinity, depth: Infinity }),
      `Texts longer than ${String(length)} characters are cut here.`,
    )
    if (size(short) <= limit) return short
  }
  for (const length of listLengths) {
    const short = noted(
      shorter(facts, { text: 500, list: length, depth: 6 }),
      `Texts longer than 500 characters and lists longer than ${String(length)} are cut here.`,
    )
    if (size(short) <= limit) return short
  }
  return noted(shorter(facts, { text: 200, list: 10, depth: 2 }), 'This was far too long: only its outline is here.')
}

function size(facts: Facts): number {
  return Buffer.byteLength(JSON.stringify(facts))
}

function noted(value: Json, note: string): Facts {
  return { ...(value as Facts), cut: note }
}

interface Measure {
  readonly text: number
  readonly list: number
  readonly depth: number
}

function shorter(value: Json, most: Measure): Json {
  if (typeof value === 'string') return cutText(value, most.text)
  if (typeof value !== 'object' || value === null) return value
  if (most.depth <= 0) return cutText(JSON.stringify(value), most.text)
  const deeper = { ...most, depth: most.depth - 1 }
  if (Array.isArray(value)) return (value as readonly Json[]).slice(0, most.list).map((item) => shorter(item, deeper))
  const members = Object.entries(value).slice(0, most.list)
  return Object.fromEntries(members.map(([key, member]) => [cutText(key, most.text), shorter(member, deeper)]))
}

function cutText(text: string, length: number): string {
  if (text.length <= length) return text
  return `${text.slice(0, length).toWellFormed()}… [cut; ${String(text.length)} characters in all]`
}
