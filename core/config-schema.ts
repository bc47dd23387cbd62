/*
 * The shape of harness.yaml: names, defaults and the limits of single values. What needs two settings at once is checked in config.ts.
 * Globs that open something have no default here: they are computed where both sides are known.
 */
import { createPublicKey } from 'node:crypto'
import { z } from 'zod'
import { scopes } from './identity/principal'
import { ollamaUrl } from './model/ollama-url'
import { checkGlob, isFunctionId } from './policy/glob'

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const sizes: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: 1024 ** 2, kB: 1000, MB: 1000 ** 2 }

/** Milliseconds of `250ms`, `30s`, `10m`, `24h`, `7d` or a whole number of milliseconds; null for anything else. */
export function durationMs(value: string | number): number | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : null
  const [, count = '', unit = ''] = /^(\d{1,9}) ?(ms|s|m|h|d)$/.exec(value) ?? []
  const factor = units[unit]
  return factor === undefined ? null : Number(count) * factor
}

function sizeBytes(value: string | number): number | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : null
  const [, count = '', unit = ''] = /^(\d{1,9}) ?(B|kB|KiB|MB|MiB)$/.exec(value) ?? []
  const factor = sizes[unit]
  return factor === undefined ? null : Number(count) * factor
}

/** A text or number with a unit between two bounds, read into a number. */
type Measure = z.ZodPipe<z.ZodUnion<readonly [z.ZodString, z.ZodNumber]>, z.ZodTransform<number, string | number>>

function measure(read: (value: string | number) => number | null, least: string, most: string, example: string): Measure {
  const text = `must be between ${least} and ${most}, written like ${example}`
  return z.union([z.string(), z.number()], { error: text }).transform((value, context) => {
    const measured = read(value)
    if (measured !== null && measured >= (read(least) ?? 0) && measured <= (read(most) ?? 0)) return measured
    context.addIssue({ code: 'custom', message: text })
    return z.NEVER
  })
}

const duration = (least: string, most: string, example: string): Measure => measure(durationMs, least, most, example)
const count = (least: number, most: number): z.ZodNumber => {
  const error = `must be a whole number from ${String(least)} to ${String(most)}`
  return z.number({ error }).int({ error }).min(least, { error }).max(most, { error })
}

const line = z.string().max(2000, { error: 'is longer than 2000 characters' })
const names = z.array(z.string().regex(/^[a-z0-9._-]{1,64}$/, { error: 'must be of a-z, 0-9, dot, _ and -, at most 64 characters' }))
const glob = z.string().refine(isGlob, { error: 'must be a function id or a glob of a-z, 0-9, _, : and *, at most 80 characters' })
export const functionId = z.string().refine(isFunctionId, {
  error: 'is no function id: write namespace::name of a-z, 0-9 and single _, at most 60 characters',
})
const plainName = /^[a-z0-9][a-z0-9._-]{0,63}$/
const name = z.string().regex(plainName, { error: 'is no name: use a-z, 0-9, dot, _ and -, at most 64 characters' })

function isGlob(text: string): boolean {
  try {
    checkGlob(text)
    return true
  } catch {
    return false
  }
}

type Section<S extends z.ZodType> = z.ZodPipe<z.ZodOptional<z.ZodNullable<S>>, z.ZodTransform<z.output<S>, z.output<S> | null | undefined>>

/** A section that is absent, or whose settings are all commented out, has its defaults. */
function section<S extends z.ZodType>(schema: S, empty: z.input<S>): Section<S> {
  return schema.nullish().transform((given): z.output<S> => given ?? schema.parse(empty))
}

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()], { error: 'must be a text, a number, true, false or null' })
const test = z
  .strictObject({
    equals: scalar.optional(),
    one_of: z.array(scalar).min(1, { error: 'must name at least one value' }).optional(),
    at_most: z.number().optional(), at_least: z.number().optional(), matches: z.string().max(200).optional(),
  })
  .refine((given) => Object.values(given).some((value) => value !== undefined), {
    error: 'must hold one of equals, one_of, at_most, at_least, matches',
  })

const rule = z.strictObject({
  id: name.optional(),
  functions: z.union([glob, z.array(glob).min(1, { error: 'must name at least one function' })], {
    error: 'must be a function id, a glob, or a list of them',
  }),
  when: z.record(z.string().regex(/^[^.\s][^\s]{0,199}$/, { error: 'is no name of an argument' }), test).optional(),
  effect: z.enum(['allow', 'deny', 'hold']),
  reason: line.optional(),
})
const globs = z.strictObject({ allow: z.array(glob).optional(), deny: z.array(glob).default([]) })

const headers = z.record(
  z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/, { error: 'is no name of a header' }),
  z.string().max(4000).regex(/^[\t\x20-\x7e]*$/, { error: 'must be printable ASCII on one line' }),
)

const noArguments = { type: 'object' as const, properties: {}, additionalProperties: false }

const functionSettings = z.strictObject({
  description: line.default(''),
  schema: z.looseObject({ type: z.literal('object', { error: 'must be object: arguments have names' }) }).default(noArguments),
  risk: z.enum(['low', 'medium', 'high']).default('medium'),
  side_effects: z.enum(['none', 'read', 'write']).default('write'),
  idempotent: z.boolean().default(false),
  roles: names.default([]),
  approver_roles: names.min(1, { error: 'must name at least one role' }).default(['approver']),
  approval_ttl: duration('1s', '365d', '24h').prefault('24h'),
  timeout: duration('100ms', '24h', '300s').prefault('300s'),
  http: z.strictObject({
    url: z.string().refine(isPlainUrl, { error: 'must be a whole http:// or https:// address without user name, password, # or ${…}' }),
    method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']).default('POST'),
    headers: headers.default({}),
    signing: z.strictObject({ secret: z.string() }).nullable().default(null),
  }),
})

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text) || text.includes('${') || text.includes('#')) return false
  const url = new URL(text)
  return (url.protocol === 'http:' || url.protocol === 'https:') && url.username === '' && url.password === ''
}

function isNamespace(text: string): boolean {
  return text !== 'harness' && text.length <= 40 && isFunctionId(`${text}::a`) && !text.includes(':')
}

const agentSettings = z.strictObject({
  description: line.default(''),
  model: z.string().min(1).max(200).nullable().default(null),
  system_prompt: z.string().max(100_000).default(''),
  functions: globs.default({ deny: [] }),
  rules: z.array(rule).default([]),
  max_turns: count(1, 1000).default(16),
  thinking_level: z.enum(['minimal', 'low', 'medium', 'high', 'xhigh']).nullable().default(null),
})

const principalSettings = z.strictObject({
  type: z.enum(['user', 'system', 'agent']).default('user'),
  name: z.string().min(1).max(200).optional(),
  roles: names.default([]),
  scopes: z.array(z.enum(scopes)).default(['turns:write', 'turns:read', 'identity:read']),
  active: z.boolean().default(true),
  functions: globs.optional(),
  rules: z.array(rule).default([]),
})

export const approverName = z.string().regex(/^[a-z0-9._-]{1,64}$/, { error: 'must be of a-z, 0-9, dot, _ and -, at most 64 characters' })

export const approverSettings = z.strictObject({
  name: approverName,
  public_key: z.string().refine(isEd25519, { error: 'must be an Ed25519 public key (SPKI DER in base64), as agent-harness init prints it' }),
  roles: names.default(['approver']),
  active: z.boolean().default(true),
})

const channelSettings = z.strictObject({
  public_key: z.string().refine(isEd25519, { error: 'must be an Ed25519 public key (SPKI DER in base64), as it stood in harness.yaml when it was made' }),
  roles: names.default(['approver']),
  active: z.boolean().default(true),
})

function isEd25519(text: string): boolean {
  try {
    const key = createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' })
    return key.asymmetricKeyType === 'ed25519' && key.export({ format: 'der', type: 'spki' }).toString('base64') === text
  } catch {
    return false
  }
}

/** From the beginning of a day in UTC, or from a moment. */
const moment = z.string().refine((text) => isoDate.safeParse(text).success, { error: 'must be a date like 2027-01-31 or a time like 2027-01-31T18:00:00Z' }).transform((text) => Date.parse(text))
const isoDate = z.union([z.iso.date(), z.iso.datetime({ offset: true })])

const callbackBase = z
  .string()
  .max(500, { error: 'is longer than 500 characters' })
  .refine((text) => isPlainUrl(text) && !text.includes('?'), { error: 'must be a whole http:// or https:// address without user name, password, ?, # or ${…}' })
  // with a slash at its end, so that a base never also begins an address of somebody else
  .transform((text) => new URL(text).href.replace(/\/?$/, '/'))

/** A token of the HTTP interface: its hash, never itself. */
export const tokenSettings = z.strictObject({
  name,
  principal: name,
  sha256: z.string().regex(/^[0-9a-f]{64}$/, { error: 'must be the SHA-256 of the token: 64 of 0-9 and a-f, as agent-harness tokens add writes it' }),
  scopes: z.array(z.enum(scopes)).min(1, { error: 'must name at least one scope; leave it out for all of the principal' }).optional(),
  callbacks: z.array(callbackBase).default([]),
  expires: moment.optional(),
})

const ollamaSettings = z.strictObject({
  url: z.string().refine(isOllamaUrl, { error: 'must be host, host:port or an http(s) address without a password' }).nullable().default(null),
  num_ctx: count(512, 4_194_304).default(16_384),
  first_byte: duration('1s', '24h', '10m').prefault('10m'),
  idle: duration('1s', '24h', '10m').prefault('10m'),
})

function isOllamaUrl(text: string): boolean {
  try {
    return ollamaUrl(text) !== ''
  } catch {
    return false
  }
}

export const localPrincipal = { local: { name: 'Local user', roles: ['owner', 'operator'], scopes: [...scopes] } }

/** The whole file. An empty one is valid. */
export const configSchema = z.strictObject({
  profile: z.enum(['personal', 'server']).default('personal'),
  deployment: z.string().regex(/^d_[0-9a-f]{32}$/, { error: 'must be d_ and 32 hexadecimal digits, as it stood when the file was made' }).optional(),
  four_eyes: z.boolean().optional(),
  local_principal: name.default('local'),
  principals: section(z.record(name, principalSettings), localPrincipal),
  approvers: section(z.array(approverSettings), []),
  channels: section(z.strictObject({ page: channelSettings.optional() }), {}),
  tokens: section(z.array(tokenSettings), []),
  policy: section(z.strictObject({ functions: globs.default({ deny: [] }), rules: z.array(rule).default([]) }), {}),
  functions: section(z.record(functionId, functionSettings), {}),
  workflows: section(
    z.strictObject({
      namespace: z.string().refine(isNamespace, { error: 'must be of a-z, 0-9 and single _, at most 40 characters, and not harness' }).default('workflow'),
      risk_floor: z.enum(['low', 'medium', 'high']).default('medium'),
      own_limits: z.boolean().default(true),
      approval_ttl: duration('1s', '365d', '24h').prefault('24h'),
    }),
    {},
  ),
  agents: section(z.record(name, agentSettings), {}),
  models: section(z.strictObject({ default: z.string().min(1).max(200).nullable().default(null), ollama: section(ollamaSettings, {}) }), {}),
  limits: section(
    z.strictObject({
      turn: duration('1m', '365d', '7d').prefault('7d'),
      message: measure(sizeBytes, '1KiB', '16MiB', '1MiB').prefault('1MiB'),
      open_approvals_per_session: count(1, 1000).default(20),
      live_turns_per_principal: count(1, 100_000).default(100),
    }),
    {},
  ),
})

export type Config = z.output<typeof configSchema>
export type FunctionSettings = z.output<typeof functionSettings>
export type RuleSettings = z.output<typeof rule>
export type GlobSettings = z.output<typeof globs>

/** An agent that configuration does not speak of. */
export const plainAgent = (): z.output<typeof agentSettings> => agentSettings.parse({})
