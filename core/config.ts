/*
 * From the text of harness.yaml to the authority that everything else obeys. Pure on text and environment. Every doubt is an error with
 * its line; nothing of the file's texts is repeated in an error, and secrets stand in the fingerprint and in targets by reference only.
 */
import { z } from 'zod'
import type { Agent, Authority, Grant } from './authority'
import { tokenOfSettings, tokenProblems } from './config-tokens'
import { configSchema, plainAgent, type Config, type FunctionSettings, type GlobSettings, type RuleSettings } from './config-schema'
import { problemsOf } from './config-issues'
import { configName, readConfigDocument, type Problem } from './config-yaml'
import { digestOf, type Json } from './digest'
import { HarnessError, isHarnessError } from './errors'
import { ollamaUrl } from './model/ollama-url'
import type { Globs } from './policy/glob'
import type { ArgumentTest, FunctionEntry, Rule } from './policy/policy'
import type { WorkflowRules } from './policy/registration'

export { addApproverToConfig, defaultConfigText } from './config-text'
export { addTokenToConfig, removeTokenFromConfig } from './config-tokens'
export { configName, maxConfigBytes } from './config-yaml'

/** The agent that is there when none is named. */
export const defaultAgent = 'assistant'

/** Secrets shorter than this are not masked: masking them would spoil ordinary texts. */
const shortestMasked = 6
const shortestSigningSecret = 16

export interface AuthoritySource {
  readonly configText: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Counts where the text names no `deployment`. */
  readonly deployment: string
  /** More functions (`--sample`): each is allowed by its id, and no agent gets more rights by it. */
  readonly overlay?: readonly FunctionEntry[]
  /** Throws a HarnessError when the JSON Schema cannot be used; its message is passed on. */
  readonly checkSchema?: (schema: FunctionEntry['schema'], where: string) => void
}

export interface LoadedAuthority extends Authority {
  /**
   * The value of an environment variable that the configuration refers to as `${NAME}`, as it was at load. Throws `bad_config` for any
   * other name. For use at the wire only, never in a log or a row.
   */
  secret(name: string): string
}

/** Reads the configuration into a frozen authority. Throws `bad_config` naming line, column and what to do. */
export function loadAuthority(source: AuthoritySource): LoadedAuthority {
  const document = readConfigDocument(source.configText)
  const parsed = configSchema.safeParse(document.value)
  if (!parsed.success) return document.refuse(problemsOf(parsed.error.issues, document.value, configJsonSchema()))
  const config = parsed.data
  const overlay = source.overlay ?? []
  const found = references(config)
  const problems = [...found.problems, ...crossProblems(config, overlay), ...schemaProblems(config, source), ...missingProblems(found, source.env)]
  if (problems.length > 0) return document.refuse(problems)
  return authorityOf(config, source, secretsOf(found, source.env))
}

/** The JSON Schema of harness.yaml, as people write it. */
export function configJsonSchema(): { readonly [key: string]: Json } {
  const schema = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' })
  return { ...schema, title: `${configName} of agent-harness` } as unknown as { readonly [key: string]: Json }
}

// ---------------------------------------------------------------------------------------------------------------- the authority

function authorityOf(config: Config, source: AuthoritySource, secrets: ReadonlyMap<string, string>): LoadedAuthority {
  const overlay = source.overlay ?? []
  const deployment = config.deployment ?? source.deployment
  const functions = new Map(Object.entries(config.functions).map(([id, settings]) => [id, entryOf(id, settings)]))
  for (const entry of overlay) functions.set(entry.id, freeze(entry))
  const { models, limits } = config
  const authority: LoadedAuthority = {
    deployment,
    profile: config.profile,
    fingerprint: digestOf('authority', { config: { ...config, deployment }, overlay }),
    policy: freeze({ layer: 'deployment', functions: deploymentGlobs(config, overlay), rules: rulesOf(config.policy.rules) }),
    functions,
    workflows: freeze(workflowRules(config.workflows)),
    agents: new Map(Object.entries({ [defaultAgent]: plainAgent(), ...config.agents }).map(([id, settings]) => [id, agentOf(id, settings)])),
    grants: new Map(Object.entries(config.principals).map(([id, settings]) => [id, grantOf(id, settings)])),
    approvers: freeze(config.approvers),
    channels: freeze(config.channels.page === undefined ? [] : [{ name: 'page', ...config.channels.page }]),
    tokens: freeze(config.tokens.map(tokenOfSettings)),
    four_eyes: config.four_eyes ?? config.profile === 'server',
    local_principal: config.local_principal,
    models: freeze({
      default: models.default,
      ollama: {
        url: ollamaUrl(models.ollama.url ?? source.env['OLLAMA_HOST'] ?? ''),
        num_ctx: models.ollama.num_ctx, first_byte_ms: models.ollama.first_byte, idle_ms: models.ollama.idle,
      },
    }),
    limits: freeze({
      turn_ms: limits.turn, message_bytes: limits.message,
      open_approvals_per_session: limits.open_approvals_per_session, live_turns_per_principal: limits.live_turns_per_principal,
    }),
    secrets: freeze([...new Set(secrets.values())].filter((value) => value.length >= shortestMasked)),
    secret(name) {
      const value = secrets.get(name)
      if (value === undefined) throw new HarnessError('bad_config', `The configuration does not refer to \${${name.slice(0, 100)}}.`)
      return value
    },
  }
  return Object.freeze(authority)
}

function entryOf(id: string, settings: FunctionSettings): FunctionEntry {
  const { http, approval_ttl, timeout, schema, ...rest } = settings
  return freeze({
    id, ...rest, schema: schema as FunctionEntry['schema'], approval_ttl_ms: approval_ttl, timeout_ms: timeout, unattended: [],
    target: { kind: 'http', url: http.url, method: http.method, headers: http.headers, signing: referencedName(http.signing?.secret ?? '') },
  })
}

function workflowRules({ approval_ttl, ...rules }: Config['workflows']): WorkflowRules {
  return { ...rules, approval_ttl_ms: approval_ttl }
}

/** The one place that opens: what configuration names, else the namespaces it declares and those of workflows. */
function deploymentGlobs(config: Config, overlay: readonly FunctionEntry[]): Globs {
  const namespaces = new Set(Object.keys(config.functions).map((id) => `${namespaceOf(id)}::*`))
  const { allow, deny } = config.policy.functions
  return { allow: [...(allow ?? [...namespaces, `${config.workflows.namespace}::*`]), ...overlay.map((entry) => entry.id)], deny }
}

/** A layer under the deployment's only narrows: without an allow list it takes what is left. */
function narrowingGlobs({ allow, deny }: GlobSettings): Globs {
  return { allow: allow ?? ['*'], deny }
}

function agentOf(id: string, settings: Config['agents'][string]): Agent {
  return freeze({ id, ...settings, functions: narrowingGlobs(settings.functions), rules: rulesOf(settings.rules) })
}

function grantOf(id: string, settings: Config['principals'][string]): Grant {
  const { type, roles, scopes, active } = settings
  return freeze({
    principal: { id, type, name: settings.name ?? id, roles, scopes, active },
    functions: settings.functions === undefined ? null : narrowingGlobs(settings.functions),
    rules: rulesOf(settings.rules),
  })
}

function ruleId(settings: RuleSettings, index: number): string {
  return settings.id ?? `rule-${String(index + 1)}`
}

function rulesOf(rules: readonly RuleSettings[]): readonly Rule[] {
  return rules.map((settings, index) => {
    const id = ruleId(settings, index)
    const when = Object.entries(settings.when ?? {}).flatMap(([argument, tests]) =>
      Object.entries(tests).flatMap(([test, value]): ArgumentTest[] => {
        return value === undefined ? [] : [{ argument, test: test as ArgumentTest['test'], value }]
      }),
    )
    return { id, functions: globsOfRule(settings), when, effect: settings.effect, reason: settings.reason ?? `Rule ${id} of the configuration.` }
  })
}

function globsOfRule(settings: RuleSettings): readonly string[] {
  return typeof settings.functions === 'string' ? [settings.functions] : settings.functions
}

function namespaceOf(id: string): string {
  return id.slice(0, id.indexOf('::'))
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(freeze)
  }
  return value
}

// ---------------------------------------------------------------------------------------------------------------- what can be wrong

type Path = readonly (string | number)[]

/** What needs more than one setting to be seen. */
function crossProblems(config: Config, overlay: readonly FunctionEntry[]): Problem[] {
  const problems: Problem[] = []
  const say = (at: Path, text: string): void => void problems.push({ at, text })
  if (!Object.hasOwn(config.principals, config.local_principal)) {
    say(['local_principal'], `must name one of the principals: ${Object.keys(config.principals).join(', ') || 'there are none'}.`)
  }
  for (const key of ['name', 'public_key'] as const) {
    config.approvers.forEach((approver, index) => {
      const first = config.approvers.findIndex((other) => other[key] === approver[key])
      if (first < index) say(['approvers', index, key], 'is already that of another approver. Each needs its own.')
    })
  }
  // who holds the key of the page could else sign as that approver
  if (config.approvers.some((approver) => approver.public_key === config.channels.page?.public_key)) {
    say(['channels', 'page', 'public_key'], 'is already that of an approver. The page has a key of its own.')
  }
  problems.push(...tokenProblems(config))
  const ids = new Set([...Object.keys(config.functions), ...overlay.map((entry) => entry.id)])
  for (const [id, settings] of Object.entries(config.functions)) {
    if (settings.http.method === 'GET' && settings.side_effects === 'write') {
      say(['functions', id, 'http', 'method'], 'is GET, which must change nothing. Say side_effects: read, or choose another method.')
    }
    if (namespaceOf(id) === 'harness') say(['functions', id], 'is in the namespace harness::, which belongs to this program. Choose another.')
    if (overlay.some((entry) => entry.id === id)) say(['functions', id], 'is also a function of the sample. Rename it, or start without --sample.')
  }
  // a rule or glob that names a function which is not there would silently do nothing
  const namespaces = new Set([...ids].map(namespaceOf))
  const checkNames = (at: Path, globs: readonly string[]): void => {
    for (const glob of globs) {
      if (glob.includes('*') || ids.has(glob) || !namespaces.has(namespaceOf(glob))) continue
      say(at, `names ${glob}, which is not among the functions. Is it spelled right?`)
    }
  }
  const checkRules = (at: Path, rules: readonly RuleSettings[]): void => {
    rules.forEach((rule, index) => {
      checkNames([...at, index, 'functions'], globsOfRule(rule))
      const id = ruleId(rule, index)
      const first = rules.findIndex((other, place) => ruleId(other, place) === id)
      if (first < index) say([...at, index], `has the id ${id} of an earlier rule. Give it another.`)
    })
  }
  const checkLayer = (at: Path, globs: GlobSettings | undefined, rules: readonly RuleSettings[]): void => {
    checkNames([...at, 'functions', 'allow'], globs?.allow ?? [])
    checkNames([...at, 'functions', 'deny'], globs?.deny ?? [])
    checkRules([...at, 'rules'], rules)
  }
  checkLayer(['policy'], config.policy.functions, config.policy.rules)
  for (const [id, agent] of Object.entries(config.agents)) checkLayer(['agents', id], agent.functions, agent.rules)
  for (const [id, principal] of Object.entries(config.principals)) checkLayer(['principals', id], principal.functions, principal.rules)
  return problems
}

function schemaProblems(config: Config, { checkSchema }: AuthoritySource): Problem[] {
  if (checkSchema === undefined) return []
  return Object.entries(config.functions).flatMap(([id, settings]): Problem[] => {
    try {
      checkSchema(settings.schema as FunctionEntry['schema'], `functions.${id}.schema`)
      return []
    } catch (error) {
      if (!isHarnessError(error)) throw error
      return [{ at: ['functions', id, 'schema'], text: `cannot be used: ${error.message.replace(`functions.${id}.schema: `, '')}` }]
    }
  })
}

// ---------------------------------------------------------------------------------------------------------------- secrets

interface Reference {
  readonly name: string
  readonly at: Path
  readonly use: 'header' | 'signing'
}

const referencePattern = /\$\{([A-Z_][A-Z0-9_]{0,99})\}/g
const secretHeader = /auth|cookie|token|secret|passw|api-?key/i
/** Set by functions/http.ts. */
const ownHeader = /^(host|connection|content-length|transfer-encoding|content-type|expect|upgrade|te|trailer|idempotency-key|harness-.*)$/i

/** The name in a text that is one `${NAME}` and nothing else. */
function referencedName(text: string): string | null {
  const [match] = text.matchAll(referencePattern)
  return match !== undefined && match[0] === text ? (match[1] ?? null) : null
}

/** Every `${NAME}` in the places where one may stand. */
function references(config: Config): { readonly all: readonly Reference[]; readonly problems: readonly Problem[] } {
  const all: Reference[] = []
  const problems: Problem[] = []
  for (const [id, { http }] of Object.entries(config.functions)) {
    const seen = new Set<string>()
    for (const [header, value] of Object.entries(http.headers)) {
      const at: Path = ['functions', id, 'http', 'headers', header]
      const say = (text: string): void => void problems.push({ at, text })
      const names = [...value.matchAll(referencePattern)].map((match) => match[1] ?? '')
      all.push(...names.map((name): Reference => ({ name, at, use: 'header' })))
      if (value.replaceAll(referencePattern, '').includes('${')) say('holds a ${…} that is no reference: write ${NAME} in capitals, digits and _.')
      if (names.length === 0 && secretHeader.test(header)) say('must take its secret from the environment, like ${SHOP_TOKEN}: this file holds none.')
      if (ownHeader.test(header)) say('is set by the harness itself. Remove it.')
      if (seen.has(header.toLowerCase())) say('stands twice. Keep one of them.')
      seen.add(header.toLowerCase())
    }
    if (http.signing === null) continue
    const at: Path = ['functions', id, 'http', 'signing', 'secret']
    const name = referencedName(http.signing.secret)
    if (name !== null) all.push({ name, at, use: 'signing' })
    else problems.push({ at, text: 'must be one reference to the environment, like ${SHOP_SIGNING_SECRET}: this file holds no secrets.' })
  }
  return { all, problems }
}

function missingProblems({ all }: { readonly all: readonly Reference[] }, env: AuthoritySource['env']): Problem[] {
  return all.flatMap(({ name, at, use }): Problem[] => {
    const value = env[name] ?? ''
    if (value === '') return [{ at, text: `needs the environment variable ${name}, which is not set. Set it, or remove what refers to it.` }]
    if (use === 'signing' && value.length < shortestSigningSecret) {
      return [{ at, text: `needs at least ${String(shortestSigningSecret)} characters in the environment variable ${name}.` }]
    }
    if (!/^[\t\x20-\x7e]*$/.test(value)) {
      return [{ at, text: `cannot use the environment variable ${name}: it holds a line break or a character outside ASCII.` }]
    }
    return []
  })
}

function secretsOf({ all }: { readonly all: readonly Reference[] }, env: AuthoritySource['env']): ReadonlyMap<string, string> {
  return new Map(all.map(({ name }) => [name, env[name] ?? '']))
}
