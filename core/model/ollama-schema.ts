/*
 * JSON Schema cut down to what Ollama keeps of a function's parameters. It drops the rest without a word, so what it drops is said in
 * descriptions here. The cut copy is for the model to read; arguments are validated elsewhere, with the full schema.
 */
import type { Json } from '../digest'

type Schema = { readonly [key: string]: Json }

/** What Ollama keeps of a property. */
export interface WireProperty {
  type?: string | string[]
  description?: string
  enum?: Json[]
  items?: WireProperty
  anyOf?: WireProperty[]
  properties?: Record<string, WireProperty>
  required?: string[]
}

/** What Ollama keeps of `parameters`; llama.cpp refuses one without type and properties. */
export interface WireParameters {
  type: 'object'
  properties: Record<string, WireProperty>
  required?: string[]
}

export interface ReducedSchema {
  readonly parameters: WireParameters
  /** What could not stay in the schema and belongs to no property; for the function's description. */
  readonly note: string | null
}

interface Reduction {
  readonly root: Schema
  /** Nodes still allowed: a schema of references may unfold without end. */
  nodes: number
}

const nodeLimit = 2_000
const depthLimit = 32

export function reduceSchema(schema: Schema): ReducedSchema {
  const reduction: Reduction = { root: schema, nodes: nodeLimit }
  const whole = reduce(schema, reduction, []) ?? {}
  const variants = whole.anyOf ?? []
  const properties: Record<string, WireProperty> = {}
  // parameters take no alternatives: all properties are offered, those of the alternatives not required
  for (const variant of variants) define(properties, Object.entries(variant.properties ?? {}))
  define(properties, Object.entries(whole.properties ?? {}))
  const required = (whole.required ?? []).filter((name) => Object.hasOwn(properties, name))
  const groups = variants.map((variant) => (variant.required ?? []).join(', ')).filter((group) => group !== '')
  const note = groups.length > 1 ? `Give one of these sets of arguments: ${groups.join(' | ')}.` : null
  return { parameters: { type: 'object', properties, ...(required.length > 0 ? { required } : {}) }, note }
}

/** Null for a schema that nothing satisfies: its property is not offered. */
function reduce(node: Json | undefined, reduction: Reduction, references: readonly string[], depth = 0): WireProperty | null {
  if (node === false) return null
  reduction.nodes -= 1
  if (!isSchema(node) || depth > depthLimit || reduction.nodes < 0) return {}
  const deeper = (child: Json | undefined, seen = references): WireProperty | null => reduce(child, reduction, seen, depth + 1)
  const result: WireProperty = {}
  if (typeof node['$ref'] === 'string') {
    const reference = node['$ref']
    const target = references.includes(reference) ? undefined : lookUp(reduction.root, reference)
    merge(result, target === undefined ? {} : (deeper(target, [...references, reference]) ?? {}))
  }
  for (const part of list(node['allOf'])) merge(result, deeper(part) ?? {})
  const type = node['type']
  if (typeof type === 'string') result.type = type
  else if (Array.isArray(type)) result.type = type.filter((entry) => typeof entry === 'string')
  if (Array.isArray(node['enum'])) result.enum = [...(node['enum'] as Json[])]
  else if (node['const'] !== undefined) result.enum = [node['const']]
  const variants = [...list(node['anyOf']), ...list(node['oneOf'])].map((part) => deeper(part)).filter((part) => part !== null)
  if (variants.length > 0) result.anyOf = [...(result.anyOf ?? []), ...variants]
  const items = itemsOf(node)
  if (items !== undefined) result.items = deeper(items) ?? {}
  if (isSchema(node['properties'])) {
    const properties = (result.properties ??= {})
    for (const [name, child] of Object.entries(node['properties'])) {
      const reduced = deeper(child)
      if (reduced !== null) define(properties, [[name, reduced]])
    }
  }
  const required = list(node['required']).filter((name) => typeof name === 'string')
  if (required.length > 0) result.required = [...new Set([...(result.required ?? []), ...required])]
  const description = describe(node, result.description)
  if (description !== '') result.description = description
  return result
}

/** Tuples become lists of any of their members. */
function itemsOf(node: Schema): Json | undefined {
  const tuple = Array.isArray(node['items']) ? node['items'] : node['prefixItems']
  if (Array.isArray(tuple)) return { anyOf: tuple as readonly Json[] }
  return isSchema(node['items']) ? node['items'] : undefined
}

/** Limits that Ollama drops; the words a model sees beside the description. */
const limits: readonly (readonly [keyword: string, words: string])[] = [
  ['format', 'format'], ['pattern', 'pattern'], ['minimum', 'at least'], ['maximum', 'at most'], ['exclusiveMinimum', 'more than'],
  ['exclusiveMaximum', 'less than'], ['multipleOf', 'multiple of'], ['minLength', 'min length'], ['maxLength', 'max length'],
  ['minItems', 'min items'], ['maxItems', 'max items'], ['uniqueItems', 'unique items'], ['default', 'default'],
]

function describe(node: Schema, inherited: string | undefined): string {
  const own = typeof node['description'] === 'string' ? node['description'] : (inherited ?? (typeof node['title'] === 'string' ? node['title'] : ''))
  const said = limits.filter(([keyword]) => node[keyword] !== undefined).map(([keyword, words]) => `${words}: ${short(node[keyword])}`)
  if (said.length === 0) return own
  return own === '' ? said.join('; ') : `${own} (${said.join('; ')})`
}

function short(value: Json | undefined): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= 120 ? text : `${text.slice(0, 119)}…`
}

function merge(into: WireProperty, from: WireProperty): void {
  const properties = into.properties ?? {}
  define(properties, Object.entries(from.properties ?? {}))
  const required = [...new Set([...(into.required ?? []), ...(from.required ?? [])])]
  Object.assign(into, from)
  if (Object.keys(properties).length > 0) into.properties = properties
  if (required.length > 0) into.required = required
}

/** Copies members as own properties, whatever they are called. */
function define(into: Record<string, WireProperty>, from: readonly (readonly [string, WireProperty])[]): void {
  for (const [name, value] of from) Object.defineProperty(into, name, { value, enumerable: true, configurable: true, writable: true })
}

/** A local reference, e.g. `#/$defs/address`. Anything else is never fetched. */
function lookUp(root: Schema, reference: string): Json | undefined {
  if (reference === '#') return root
  if (!reference.startsWith('#/')) return undefined
  let node: Json | undefined = root
  for (const part of reference.slice(2).split('/')) {
    const key = decode(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) return undefined
    node = (node as Schema)[key]
  }
  return node
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function isSchema(value: Json | undefined): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function list(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : []
}
