/*
 * JSON that comes from outside. JSON.parse alone lets the last of two equal keys win and takes `__proto__` for a key like any other, so
 * that what a person reads and what a program does could differ. Never repairs a text: it is taken whole or refused. Own code because
 * the small libraries look for `__proto__` or for duplicates, not for both.
 */
import { HarnessError } from './errors'
import type { Json } from './digest'

/** Keys that no value from outside may have, at any depth. */
export const forbiddenKeys: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

export interface JsonLimits {
  /** UTF-8 bytes of the text, or of the value written without white space. */
  readonly bytes: number
  /** Nested arrays and objects; 64 if not given. */
  readonly depth?: number
}

const defaultDepth = 64

/**
 * Parses one JSON value. Throws `too_large` above `limits.bytes`, and `invalid_input` naming what is wrong: no JSON, a key that occurs
 * twice in one object, a forbidden key, deeper than `limits.depth`, a number that JSON cannot hold.
 */
export function parseStrictJson(text: string, limits: JsonLimits): Json {
  if (text.length > limits.bytes || Buffer.byteLength(text) > limits.bytes) {
    throw new HarnessError('too_large', `The JSON text is longer than ${String(limits.bytes)} bytes.`)
  }
  let value: Json
  try {
    value = JSON.parse(text) as Json
  } catch (error) {
    const at = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1]
    throw new HarnessError('invalid_input', `The text is not valid JSON${at === undefined ? '' : ` (character ${at})`}.`, { cause: error })
  }
  const twice = duplicateKey(text)
  if (twice !== null) throw new HarnessError('invalid_input', `The key ${shown(twice)} occurs twice in one object.`)
  const problem = jsonProblem(value, limits)
  if (problem !== null) throw new HarnessError('invalid_input', `The JSON ${problem}.`)
  return value
}

/**
 * What keeps a value from being plain JSON within the limits, as the end of a sentence ("is nested deeper than 64 levels"), or null.
 * Takes anything: cycles, functions and values of classes are problems like the others.
 */
export function jsonProblem(value: unknown, limits: JsonLimits): string | null {
  const depth = limits.depth ?? defaultDepth
  const open: { item: unknown; level: number }[] = [{ item: value, level: 0 }]
  let bytes = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { item, level } = next
    if (typeof item === 'object' && item !== null) {
      if (level >= depth) return `is nested deeper than ${String(depth)} levels`
      const prototype = Object.getPrototypeOf(item) as unknown
      if (!Array.isArray(item) && prototype !== null && Object.getPrototypeOf(prototype) !== null) return 'holds something that is not JSON'
      const members = Object.entries(item)
      const keys = Array.isArray(item) ? [] : members.map(([key]) => key)
      const forbidden = keys.find((key) => forbiddenKeys.has(key))
      if (forbidden !== undefined) return `has the key ${shown(forbidden)}, which is not allowed`
      bytes += 2 + Math.max(members.length - 1, 0) + keys.reduce((sum, key) => sum + sizeOf(key) + 1, 0)
      for (const [, member] of members) open.push({ item: member, level: level + 1 })
    } else if (typeof item === 'number' && !Number.isFinite(item)) return 'holds a number that JSON cannot hold'
    else if (item !== null && !['string', 'number', 'boolean'].includes(typeof item)) return 'holds something that is not JSON'
    else bytes += sizeOf(item)
    if (bytes > limits.bytes) return `is larger than ${String(limits.bytes)} bytes`
  }
  return null
}

function sizeOf(scalar: unknown): number {
  return Buffer.byteLength(JSON.stringify(scalar))
}

function shown(key: string): string {
  return JSON.stringify(key.slice(0, 80))
}

/** The first key that occurs twice in one object; keys are compared as read, so `"a"` and `"\u0061"` are equal. The text is valid JSON. */
function duplicateKey(text: string): string | null {
  const open: (Set<string> | null)[] = []
  let expectsKey = false
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]
    if (character === '{' || character === '[') open.push(character === '{' ? new Set() : null)
    else if (character === '}' || character === ']') open.pop()
    if (character === '"') {
      const start = at
      for (at += 1; text[at] !== '"'; at += 1) if (text[at] === '\\') at += 1
      const keys = open.at(-1)
      if (!expectsKey || keys === null || keys === undefined) continue
      const key = JSON.parse(text.slice(start, at + 1)) as string
      if (keys.has(key)) return key
      keys.add(key)
      expectsKey = false
    } else if (character === '{' || character === ',') expectsKey = open.at(-1) instanceof Set
  }
  return null
}
