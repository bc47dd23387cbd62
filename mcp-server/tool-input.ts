/*
 * What models fill in, forgivingly read: null, an empty text and an unknown name count as absent, numbers and objects may come as text.
 * Flat by design, because clients refuse or mangle anything richer. What it lets through is checked again by the core.
 */
import { HarnessError, isHarnessError, parseStrictJson, type Json } from '../core/index'

export interface Field {
  readonly type: 'string' | 'integer' | 'number' | 'object'
  readonly description: string
  readonly required?: true
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
}

export type Fields = Readonly<Record<string, Field>>
export type ToolArguments = Readonly<Record<string, Json>>

/** Most bytes of an object that comes as text. */
const objectBytes = 1 << 20

/** The fields as a JSON Schema every client takes: one flat object, no references, no unions. */
export function jsonSchemaOf(fields: Fields): { type: 'object'; properties: Record<string, object>; required?: string[] } {
  const properties = Object.fromEntries(
    Object.entries(fields).map(([name, { required: _required, ...field }]) => [
      name,
      field.type === 'object' ? { ...field, additionalProperties: true } : field,
    ]),
  )
  const required = Object.entries(fields)
    .filter(([, field]) => field.required === true)
    .map(([name]) => name)
  return { type: 'object', properties, ...(required.length === 0 ? {} : { required }) }
}

/** The known, present fields in their types. Throws `invalid_input` that says how to call. */
export function readArguments(tool: string, fields: Fields, example: ToolArguments, given: ToolArguments): ToolArguments {
  const refuse = (what: string): HarnessError => new HarnessError('invalid_input', `${tool}: ${what} Call it like ${JSON.stringify(example)}.`)
  const read: Record<string, Json> = {}
  for (const [name, field] of Object.entries(fields)) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    if (value === undefined || value === null || value === '') {
      if (field.required === true) throw refuse(`${name} is missing.`)
      continue
    }
    const problem = (): HarnessError => refuse(`${name} must be ${expectation(field)}.`)
    const typed = typedValue(field, value, name, refuse)
    if (typed === undefined) throw problem()
    if (typeof typed === 'number' && (typed < (field.minimum ?? -Infinity) || typed > (field.maximum ?? Infinity))) throw problem()
    if (field.enum !== undefined && !(typeof typed === 'string' && field.enum.includes(typed))) throw problem()
    read[name] = typed
  }
  return read
}

/** The names of what was given and nobody asked for; some clients add their own. */
export function unknownArguments(fields: Fields, given: ToolArguments): readonly string[] {
  return Object.keys(given).filter((name) => !Object.hasOwn(fields, name))
}

/** An object, or the text of one, read strictly. Throws `invalid_input` for a text that is no JSON; undefined for what is no object. */
export function objectOf(value: Json): ToolArguments | undefined {
  const parsed = typeof value === 'string' ? parseStrictJson(value, { bytes: objectBytes }) : value
  return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? (parsed as ToolArguments) : undefined
}

function typedValue(field: Field, value: Json, name: string, refuse: (what: string) => HarnessError): Json | undefined {
  switch (field.type) {
    case 'string':
      return typeof value === 'string' ? value : undefined
    case 'integer':
    case 'number': {
      const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
      if (typeof number !== 'number' || !Number.isFinite(number)) return undefined
      return field.type === 'integer' && !Number.isInteger(number) ? undefined : number
    }
    case 'object':
      try {
        return objectOf(value)
      } catch (error) {
        throw refuse(`${name} came as a text that cannot be used. ${isHarnessError(error) ? error.message : ''}`)
      }
  }
}

function expectation(field: Field): string {
  if (field.enum !== undefined) return `one of ${field.enum.join(', ')}`
  if (field.type === 'object') return 'a JSON object'
  if (field.type === 'string') return 'a text'
  const from = field.minimum === undefined ? '' : ` from ${String(field.minimum)}`
  return `${field.type === 'integer' ? 'a whole number' : 'a number'}${from}${field.maximum === undefined ? '' : ` to ${String(field.maximum)}`}`
}
