/*
 * JSON Schemas and the arguments they are for. Schemas come from strangers (MCP servers, registrations), arguments from models: neither
 * may hang the process, reach the network or change a value. Never coerces, never fills in defaults; what cannot be checked is refused.
 */
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019'
import { Ajv2020 } from 'ajv/dist/2020'
import type AjvCore from 'ajv/dist/core'
import { fullFormats } from 'ajv-formats/dist/formats'
import { RE2JS } from 're2js'
import { canonical } from '../digest'
import { HarnessError, isHarnessError } from '../errors'
import { jsonProblem } from '../json'

const schemaLimits = { bytes: 64 * 1024, depth: 32 }
const argumentLimits = { bytes: 256 * 1024, depth: 64 }
/** Longest text that a format other than `byte` looks at, since not all of their expressions are linear; a longer one has no format. */
const maxFormatLength = 2048
const maxPatternLength = 1024
/** All different patterns of one schema together, characters. */
const maxPatternsLength = 8192
const maxProgramSize = 10_000
/** Subschemas in one keyword, and in all: compiling takes time in the square of the former. */
const maxWidth = 256
const maxSubschemas = 2048
/** Work for one validation, so that references that multiply end too: about a unit for each keyword, or for 16 steps of a pattern. */
const budget = 1_000_000
const costKeyword = 'harness-cost'

export type Validation = { readonly ok: true } | { readonly ok: false; readonly problem: string }

/**
 * Throws unless the schema can be used for arguments: plain JSON of at most 64 KiB and 32 levels, `type: object` at its root, references
 * only to subschemas of its own (`#/…`), patterns that RE2 can match in linear time (no lookaround, no backreference).
 * `where` begins the message, e.g. `functions.shop::refund.schema`. The code is `bad_config` unless the schema came with a request.
 */
export function checkSchema(schema: unknown, where: string, code: 'bad_config' | 'invalid_input' = 'bad_config'): void {
  const isObject = typeof schema === 'object' && schema !== null && !Array.isArray(schema)
  const compiled = isObject ? compiledFor(schema) : `A schema must be an object, not ${nameOf(schema)}.`
  if (typeof compiled === 'string') throw new HarnessError(code, `${where}: ${compiled}`)
}

/**
 * Whether a value fits a schema. Never throws and always ends; a schema that {@link checkSchema} would refuse fits nothing. `problem` is
 * one sentence of at most 300 characters that names the place and may be shown to a model. The compiled schema is kept as long as the
 * object, which must not be changed after its first use.
 */
export function validateArguments(schema: object, value: unknown): Validation {
  const compiled = compiledFor(schema)
  if (typeof compiled === 'string') return failed(`The arguments cannot be checked: ${compiled}`)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return failed(`The arguments must be an object, not ${nameOf(value)}.`)
  const problem = jsonProblem(value, argumentLimits)
  if (problem !== null) return failed(`The arguments must be plain JSON: the value ${problem}.`)
  return compiled(value)
}

type Compiled = (value: unknown) => Validation
const cache = new WeakMap<object, Compiled | string>()

function compiledFor(schema: object): Compiled | string {
  const compiled = cache.get(schema) ?? compile(schema)
  cache.set(schema, compiled)
  return compiled
}

/** The validator, or what is wrong with the schema. */
function compile(schema: object): Compiled | string {
  const bounds = jsonProblem(schema, schemaLimits)
  if (bounds !== null) return `The schema ${bounds}.`
  const root = schema as Readonly<Record<string, unknown>>
  if (root['type'] !== 'object') return 'The schema must say "type": "object" at its root.'
  const dialect = dialectOf(root['$schema'])
  if (dialect === null) return `The schema is written for ${shown(root['$schema'])}; draft-07, 2019-09 and 2020-12 are known.`
  const meter: Meter = { left: 0 }
  try {
    const { copy, patterns } = prepare(root)
    const checker = checkerOf(dialect)
    if (checker.validateSchema(copy) !== true) return `The schema is not valid JSON Schema: ${sentence(checker.errors ?? [], 'it')}`
    const engine = (pattern: string): Matcher => metered(patterns.get(pattern) ?? compilePattern(pattern), meter)
    engine.code = 'harnessPattern'
    const ajv = new dialects[dialect]({ ...ajvOptions, meta: false, validateSchema: false, code: { regExp: engine } })
    equip(ajv, meter)
    const validate = ajv.compile(copy)
    const run = (value: unknown): Validation => runWithin(validate, value, meter)
    const onNothing = run({})
    return !onNothing.ok && onNothing.problem === endless ? 'The schema refers to itself without end.' : run
  } catch (error) {
    if (isHarnessError(error)) return error.message
    if (error instanceof RangeError) return 'The schema is too large to be compiled.'
    return `The schema cannot be used: ${cut(error instanceof Error ? error.message : 'it could not be compiled', 200)}.`
  }
}

const endless = 'The arguments cannot be checked: the schema refers to itself without end.'

function runWithin(validate: ValidateFunction, value: unknown, meter: Meter): Validation {
  meter.left = budget
  try {
    // Compared with true: a promise, as an asynchronous schema would give, is no yes.
    if ((validate(value) as unknown) === true) return { ok: true }
    return failed(sentence(validate.errors ?? [], 'The arguments'))
  } catch (error) {
    if (error instanceof TooCostly) return failed('The arguments cannot be checked: they are too large for this schema.')
    return failed(error instanceof RangeError ? endless : 'The arguments cannot be checked against the schema.')
  }
}

// ------------------------------------------------------------------ dialects

type Dialect = '07' | '2019' | '2020'

const dialects: Readonly<Record<Dialect, new (options: Options) => AjvCore>> = { '07': Ajv, '2019': Ajv2019, '2020': Ajv2020 }

function dialectOf(name: unknown): Dialect | null {
  if (name === undefined || name === 'https://json-schema.org/draft/2020-12/schema') return '2020'
  if (name === 'https://json-schema.org/draft/2019-09/schema') return '2019'
  return typeof name === 'string' && /^https?:\/\/json-schema\.org\/draft-07\/schema#?$/.test(name) ? '07' : null
}

/** References are compiled once instead of copied in, so that the generated code is no larger than the schema. */
const ajvOptions = {
  strict: false, logger: false, allErrors: false, ownProperties: true, inlineRefs: false, multipleOfPrecision: 9,
} as const satisfies Options

const integerFormats = Object.entries({ uint8: 2 ** 8, uint16: 2 ** 16, uint32: 2 ** 32, uint64: 2 ** 64, int8: 2 ** 7, int16: 2 ** 15 })

/** Formats, the keyword that counts the work, and a `uniqueItems` that is linear. */
function equip(ajv: AjvCore, meter: Meter): AjvCore {
  for (const [name, format] of Object.entries(fullFormats)) {
    if (typeof format === 'boolean' || (typeof format === 'object' && 'type' in format && format.type === 'number')) ajv.addFormat(name, format)
    else ajv.addFormat(name, (text: string) => hasFormat(name, format, text, meter))
  }
  ajv.addFormat('regex', (text: string) => patternProblem(text) === null)
  for (const [name, end] of integerFormats) {
    const low = name.startsWith('u') ? 0 : -end
    ajv.addFormat(name, { type: 'number', validate: (number: number) => Number.isInteger(number) && number >= low && number < end })
  }
  ajv.addKeyword({
    keyword: costKeyword, schemaType: 'number', errors: false,
    validate: (cost: number, data: unknown) => charge(meter, cost + sizeOf(data)),
  })
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems', type: 'array', schemaType: 'boolean', error: { message: 'must NOT have duplicate items' },
    validate: (on: boolean, items: readonly unknown[]) => {
      if (!on) return true
      const texts = items.map((item) => canonical(item))
      return charge(meter, texts.reduce((sum, text) => sum + text.length, 0) / 16) && new Set(texts).size === texts.length
    },
  })
  return ajv
}

function sizeOf(data: unknown): number {
  if (typeof data === 'string') return data.length / 64
  return typeof data === 'object' && data !== null ? Object.keys(data).length : 0
}

type Format = Exclude<(typeof fullFormats)[keyof typeof fullFormats], boolean>

function hasFormat(name: string, format: Format, text: string, meter: Meter): boolean {
  if (name === 'byte') charge(meter, text.length / 16)
  else if (text.length > maxFormatLength) return false
  else charge(meter, text.length ** 2 / 400)
  const check = (typeof format === 'object' && 'validate' in format ? format.validate : format) as RegExp | ((text: string) => boolean)
  return typeof check === 'function' ? check(text) : check.test(text)
}

const checkers = new Map<Dialect, AjvCore>()

/** Checks schemas against the meta-schema of their dialect. Made at first use: meta-schemas take long to compile. */
function checkerOf(dialect: Dialect): AjvCore {
  const checker = checkers.get(dialect) ?? equip(new dialects[dialect](ajvOptions), { left: Infinity })
  checkers.set(dialect, checker)
  return checker
}

// ------------------------------------------------------------------ the schema's own copy

const inMap = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'])
const inList = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items'])
const inPlace = new Set([
  'items', 'additionalItems', 'additionalProperties', 'unevaluatedItems', 'unevaluatedProperties', 'contains', 'propertyNames', 'not', 'if',
  'then', 'else', 'contentSchema',
])
const refused = new Set(['$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor', '$async', 'id'])

/** Copies the schema, adds to each subschema what it costs, and refuses what must not be in one. */
function prepare(root: Readonly<Record<string, unknown>>): { copy: Record<string, unknown>; patterns: ReadonlyMap<string, Pattern> } {
  const places = new Set<string>()
  const references: { readonly from: string; readonly to: string }[] = []
  const patterns = new Map<string, Pattern>()

  const notePattern = (pattern: unknown, place: string): void => {
    if (typeof pattern !== 'string' || patterns.has(pattern)) return
    const problem = patternProblem(pattern)
    if (problem !== null) refuse(place, `has the pattern ${shown(pattern)}, which ${problem}`)
    patterns.set(pattern, compilePattern(pattern))
    const length = [...patterns.keys()].join('').length
    if (length > maxPatternsLength) refuse(place, `has patterns of more than ${String(maxPatternsLength)} characters in all`)
  }

  const copySchema = (schema: unknown, place: string): unknown => {
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema
    if (places.add(place).size > maxSubschemas) refuse(place, `has more than ${String(maxSubschemas)} subschemas`)
    const copied: Record<string, unknown> = {}
    let cost = 1
    for (const [keyword, member] of Object.entries(schema as Readonly<Record<string, unknown>>)) {
      if (refused.has(keyword) || (keyword === '$id' && place !== '#')) refuse(place, `uses ${keyword}, which is not supported here`)
      if (place === '#' && (keyword === '$id' || keyword === '$schema')) continue
      if (keyword === 'enum' || keyword === 'const') cost += JSON.stringify(member).length / 8
      else cost += 1 + (typeof member === 'object' && member !== null ? Object.keys(member).length : 0)
      copied[keyword] = copyMember(keyword, member, `${place}/${escaped(keyword)}`)
      if (keyword === 'pattern') notePattern(member, place)
      if (keyword === '$ref') references.push({ from: place, to: decoded(member, place) })
    }
    copied[costKeyword] = cost
    return copied
  }

  const copyMember = (keyword: string, member: unknown, place: string): unknown => {
    const width = typeof member === 'object' && member !== null && (inMap.has(keyword) || inList.has(keyword)) ? Object.keys(member).length : 0
    if (width > maxWidth) refuse(place, `has more than ${String(maxWidth)} subschemas in one keyword`)
    if (inMap.has(keyword) && typeof member === 'object' && member !== null) {
      if (keyword === 'patternProperties') for (const pattern of Object.keys(member)) notePattern(pattern, place)
      return Object.fromEntries(Object.entries(member).map(([name, schema]) => [name, copySchema(schema, `${place}/${escaped(name)}`)]))
    }
    if (inList.has(keyword) && Array.isArray(member)) return member.map((schema, index) => copySchema(schema, `${place}/${String(index)}`))
    return inPlace.has(keyword) ? copySchema(member, place) : member
  }

  const copy = copySchema(root, '#') as Record<string, unknown>
  const lost = references.find(({ to }) => !places.has(to))
  if (lost !== undefined) refuse(lost.from, `refers to ${shown(lost.to)}, where the schema has no subschema`)
  return { copy, patterns }
}

function refuse(place: string, what: string): never {
  throw new HarnessError('bad_config', `The schema at ${shown(place)} ${what}.`)
}

function decoded(reference: unknown, place: string): string {
  if (typeof reference !== 'string' || (reference !== '#' && !reference.startsWith('#/'))) {
    return refuse(place, `refers to ${shown(reference)}; only references into the schema itself (#/…) are followed`)
  }
  try {
    return decodeURIComponent(reference)
  } catch {
    return refuse(place, `refers to ${shown(reference)}, which is no reference`)
  }
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

// ------------------------------------------------------------------ patterns and cost

interface Pattern {
  readonly source: string
  readonly expression: RE2JS
}

interface Matcher {
  test(text: string): boolean
  /** Ajv tells patterns apart by this text. */
  toString(): string
}

/** What only RE2 knows and JSON Schema reads otherwise. */
const foreignSyntax = /(?:^|[^\\])(?:\\\\)*\\[AzQEC]|\[\[:/

/** Why a pattern cannot be used, as the end of a sentence, or null. */
function patternProblem(pattern: string): string | null {
  if (pattern.length > maxPatternLength) return `is longer than ${String(maxPatternLength)} characters`
  if (foreignSyntax.test(pattern)) return 'uses syntax that JSON Schema does not have'
  try {
    new RegExp(pattern)
    if (compilePattern(pattern).expression.programSize() > maxProgramSize) return 'repeats too much'
    return null
  } catch {
    return 'cannot be matched in linear time or is no regular expression (lookaround and backreferences are not supported)'
  }
}

function compilePattern(pattern: string): Pattern {
  return { source: pattern, expression: RE2JS.compile(RE2JS.translateRegExp(pattern)) }
}

function metered(pattern: Pattern, meter: Meter): Matcher {
  const steps = pattern.expression.programSize() / 16
  return {
    test: (text) => charge(meter, text.length * steps) && pattern.expression.test(text),
    toString: () => pattern.source,
  }
}

interface Meter {
  left: number
}

class TooCostly extends Error {}

/** Always true, so that it can stand before what it pays for. */
function charge(meter: Meter, cost: number): boolean {
  meter.left -= cost
  if (meter.left < 0) throw new TooCostly()
  return true
}

// ------------------------------------------------------------------ words

function sentence(errors: readonly ErrorObject[], whole: string): string {
  const error = errors.at(-1)
  if (error === undefined) return `${whole} do not fit the schema.`
  const place = error.instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~')
  const subject = place === '' ? whole : `${whole === 'it' ? '' : 'Argument '}${shown(place)}`
  const first = errors[0]
  const isChoice = error.keyword === 'anyOf' || error.keyword === 'oneOf'
  const inner = isChoice && first !== undefined && first !== error ? `, for one: ${saying(first)}` : ''
  return `${subject} ${saying(error)}${inner}.`
}

function saying(error: ErrorObject): string {
  const about = error.params as Readonly<Record<string, unknown>>
  if (error.keyword === 'enum') return `must be one of ${cut(JSON.stringify(about['allowedValues']), 160)}`
  if (error.keyword === 'const') return `must be ${cut(JSON.stringify(about['allowedValue']), 160)}`
  if (error.keyword === 'additionalProperties') return `must not have ${shown(about['additionalProperty'])}`
  if (error.keyword === 'unevaluatedProperties') return `must not have ${shown(about['unevaluatedProperty'])}`
  return cut(error.message ?? 'does not fit', 160)
}

function failed(problem: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem: cut(problem, 300) }
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : cut(JSON.stringify(value), 120)
}

function nameOf(value: unknown): string {
  return value === null || value === undefined ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`
}
