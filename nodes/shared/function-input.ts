/*
 * PURE. From what a person filled into the Function Trigger to what the harness registers: fields to a JSON Schema, limits to tests, and
 * a version that changes when the workflow does. What cannot be read is refused, since a limit that is lost would let more pass.
 */
import { createHash } from 'node:crypto'
import { UserError } from 'n8n-workflow'
import type { InputOf } from '../../core/index'

export interface ArgumentField {
  readonly name: string
  readonly type: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'texts' | 'object'
  readonly description?: string
  readonly required?: boolean
  readonly choices?: string
}

export interface LimitField {
  readonly argument: string
  readonly test: 'equals' | 'one_of' | 'at_most' | 'at_least' | 'matches'
  readonly value: string
}

type Schema = InputOf<'register_function'>['schema']
type JsonValue = Schema[string]
type Limits = NonNullable<InputOf<'register_function'>['unattended']>

export function schemaOf(fields: readonly ArgumentField[]): Schema {
  const names = fields.map(({ name }) => name.trim())
  if (names.includes('')) throw new UserError('An argument has no name.')
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new UserError(`There are two arguments ${twice}.`)
  return {
    type: 'object',
    properties: Object.fromEntries(fields.map((field) => [field.name.trim(), propertyOf(field)])),
    required: fields.filter(({ required }) => required ?? true).map(({ name }) => name.trim()),
    additionalProperties: false,
  }
}

function propertyOf(field: ArgumentField): JsonValue {
  const description = (field.description ?? '').trim() === '' ? {} : { description: (field.description ?? '').trim() }
  switch (field.type) {
    case 'text':
      return { type: 'string', ...description }
    case 'choice': {
      const choices = listOf(field.choices ?? '')
      if (choices.length === 0) throw new UserError(`Argument ${field.name} has no choices.`)
      return { type: 'string', enum: choices, ...description }
    }
    case 'texts':
      return { type: 'array', items: { type: 'string' }, ...description }
    default:
      return { type: field.type, ...description }
  }
}

/** Values are read by the type of their argument. */
export function limitsOf(limits: readonly LimitField[], fields: readonly ArgumentField[]): Limits {
  return limits.map(({ argument, test, value }) => {
    const field = fields.find(({ name }) => name.trim() === argument.trim())
    if (field === undefined) throw new UserError(`Runs Without a Person When names ${argument.trim() || 'no argument'}, which is not an argument of this function.`)
    return { argument: argument.trim(), test, value: limitValue(field, test, value) }
  })
}

function limitValue(field: ArgumentField, test: LimitField['test'], value: string): JsonValue {
  if (test === 'at_most' || test === 'at_least') return numberOf(field, value)
  if (test === 'matches') return value
  if (test === 'one_of') return listOf(value).map((one) => valueOf(field, one))
  return valueOf(field, value)
}

function valueOf(field: ArgumentField, value: string): JsonValue {
  if (field.type === 'number' || field.type === 'integer') return numberOf(field, value)
  if (field.type !== 'boolean') return value
  if (value.trim() !== 'true' && value.trim() !== 'false') throw new UserError(`Runs Without a Person When: ${field.name} is true or false, not ${value}.`)
  return value.trim() === 'true'
}

function numberOf(field: ArgumentField, value: string): number {
  const number = value.trim() === '' ? NaN : Number(value)
  if (Number.isFinite(number)) return number
  throw new UserError(`Runs Without a Person When: the limit of ${field.name} is no number.`)
}

const listOf = (text: string): string[] => text.split(',').map((one) => one.trim()).filter((one) => one !== '')

/** The same workflow has the same version; where things stand on the canvas is no matter. */
export function versionOf(nodes: readonly unknown[], connections: unknown): string {
  return createHash('sha256').update(JSON.stringify([nodes, connections], sorted)).digest('hex').slice(0, 32)
}

function sorted(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Which calls came already, for as long as a signature is fresh. */
export function replayGuard(keepMs: number): (callId: string, now: number) => boolean {
  const seen = new Map<string, number>()
  return (callId, now) => {
    for (const [id, at] of seen) {
      if (now - at <= keepMs) break
      seen.delete(id)
    }
    if (seen.has(callId)) return true
    seen.set(callId, now)
    return false
  }
}
