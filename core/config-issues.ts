/* What zod finds wrong with harness.yaml, said in sentences that name what is expected. Never repeats a value: it could be a secret. */
import type { z } from 'zod'
import type { Problem } from './config-yaml'
import type { Json } from './digest'

type JsonObject = { readonly [key: string]: Json }

const kinds: Readonly<Record<string, string>> = {
  string: 'a text', number: 'a number', int: 'a whole number', boolean: 'true or false', array: 'a list',
  object: 'a group of settings', record: 'a group of settings',
}

/** One problem for each thing wrong. `value` is what was parsed, `schema` the JSON Schema whose names are suggested. */
export function problemsOf(issues: readonly z.core.$ZodIssue[], value: unknown, schema: JsonObject): Problem[] {
  return issues.flatMap((issue) => problemsOfOne(issue, value, schema)).map(({ at, text }) => ({ at, text: text.endsWith('.') ? text : `${text}.` }))
}

function problemsOfOne(issue: z.core.$ZodIssue, value: unknown, schema: JsonObject): Problem[] {
  const { path } = issue
  const given = valueAt(value, path)
  switch (issue.code) {
    case 'unrecognized_keys': {
      const known = knownNames(schema, path)
      const hint = known.length === 0 ? 'Remove it.' : `Known here: ${known.join(', ')}.`
      return issue.keys.map((key) => ({ at: [...path, key], text: `is not a setting. ${hint}` }))
    }
    case 'invalid_type': {
      const expected = kinds[issue.expected] ?? issue.expected
      if (given === undefined) return [{ at: path, text: `is missing: it must be ${expected}` }]
      if (given === null) return [{ at: path, text: `is empty: it must be ${expected}${issue.expected === 'array' ? '; write [] for none' : ''}` }]
      return [{ at: path, text: own(issue.message) ?? `must be ${expected}` }]
    }
    case 'invalid_value': {
      if (issue.values.length === 1) return [{ at: path, text: own(issue.message) ?? `must be ${String(issue.values[0])}` }]
      return [{ at: path, text: `${given === undefined ? 'is missing: it must' : 'must'} be one of ${issue.values.map(String).join(', ')}` }]
    }
    case 'invalid_key':
      return [{ at: path, text: issue.issues[0]?.message ?? 'is no name that can be used here' }]
    case 'too_small':
      return [{ at: path, text: own(issue.message) ?? 'is empty or too small' }]
    case 'too_big':
      return [{ at: path, text: own(issue.message) ?? `is larger than ${String(issue.maximum)}` }]
    default:
      return [{ at: path, text: own(issue.message) ?? 'has a form that is not allowed here' }]
  }
}

/** Our own messages begin in lower case, the library's with a capital. */
function own(message: string): string | null {
  return /^[a-z]/.test(message) ? message : null
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((here, key) => {
    return typeof here === 'object' && here !== null && Object.hasOwn(here, key) ? (here as Record<PropertyKey, unknown>)[key] : undefined
  }, value)
}

/** The names of the settings at a path. */
function knownNames(schema: JsonObject, path: readonly PropertyKey[]): string[] {
  let here: Json | undefined = schema
  for (const key of path) {
    const group = groupIn(here)
    if (group === null) return []
    const properties = isObject(group['properties']) ? group['properties'] : {}
    here = typeof key === 'number' ? group['items'] : (properties[String(key)] ?? group['additionalProperties'])
  }
  const properties = groupIn(here)?.['properties']
  return isObject(properties) ? Object.keys(properties) : []
}

/** The object or list behind "this or null". */
function groupIn(schema: Json | undefined): JsonObject | null {
  if (!isObject(schema)) return null
  const choices: Json | undefined = schema['anyOf']
  if (!Array.isArray(choices)) return schema
  const groups = (choices as readonly Json[]).map(groupIn)
  return groups.find((choice) => choice?.['type'] === 'object' || choice?.['type'] === 'array') ?? null
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
