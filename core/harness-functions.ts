/*
 * Workflows as functions: registering and taking back. A workflow says what it offers; configuration says under which namespace, at which
 * risk, and whether its own limits count. What is stored is sealed, and nobody but an administrator of the harness gets here.
 */
import { canonical, seal } from './digest'
import { evaluate } from './policy/evaluate'
import type { Engine } from './engine/engine'
import { layersOf } from './engine/engine'
import { HarnessError } from './errors'
import { untilUndisturbed, type HarnessParts } from './harness-parts'
import { quoted } from './harness-views'
import { mayBeCalledAt, maySee, type Caller } from './identity/principal'
import { isFunctionId, maxFunctionIdLength } from './policy/glob'
import type { FunctionEntry } from './policy/policy'
import { entryUnder, mayStillOffer, registrationSealFacts, type RegistrationRow } from './policy/registration'
import type { OutputOf, ParsedOf } from './protocol/operations'
import { nothingAsked } from './turn/turn'

/** How often it is looked again when somebody else registered the same id in the same moment. */
const mostTries = 20

/**
 * Registers, or registers anew; the same again changes no row and makes the function live. Errors: `conflict` when the id is another's (final),
 * `forbidden` for another namespace or an address outside the caller's callbacks, `invalid_input` for an id, an address or a schema.
 */
export async function registerFunction(input: ParsedOf<'register_function'>, caller: Caller, { engine }: HarnessParts): Promise<OutputOf<'register_function'>> {
  const { registrations } = engine
  return untilUndisturbed(mostTries, async () => {
    await engine.refreshAuthority()
    await registrations.reread()
    const id = fullId(input.id, engine)
    const declared = declaredEntry(input, id, engine)
    checkAddress(input, caller)
    checkFree(id, input.workflow, caller, engine)
    checkAddressFree(id, input.workflow.url, caller, engine)
    const entry = entryUnder(engine.authority().workflows, declared)
    if (entry === null) throw new HarnessError('invariant_broken', `Function ${id} is in no namespace of workflows.`)
    const answer = { id, risk: entry.risk, usually: usuallyOf(withinLimits(entry), caller, engine) }

    const standing = registrations.row(id)
    const text = canonical(declared)
    if (standing?.status === 'active' && standing.workflow_id === input.workflow.id && standing.entry === text && standing.registered_by === caller.principal.id) {
      await registrations.becameLive(standing)
      return answer
    }
    const row = sealedRow({ id, workflow_id: input.workflow.id, entry: text, status: 'active', registered_by: caller.principal.id }, standing, engine)
    await engine.store.commit({
      actor: caller.principal.id, at: row.updated_at, session_id: null,
      changes: [{ type: 'function.registered', registration: row, replaces: registrations.standingSeal(id) }],
    })
    await registrations.becameLive(row)
    return answer
  })
}

/** Takes it back; from then on its calls are denied. `removed` is false when it is not this workflow's or not active. Errors: as registering. */
export async function unregisterFunction(input: ParsedOf<'unregister_function'>, caller: Caller, { engine }: HarnessParts): Promise<OutputOf<'unregister_function'>> {
  const { registrations } = engine
  return untilUndisturbed(mostTries, async () => {
    await engine.refreshAuthority()
    await registrations.reread()
    const id = fullId(input.id, engine)
    const standing = registrations.row(id)
    if (standing?.status !== 'active' || standing.workflow_id !== input.workflow_id || !maySee(caller.principal, standing.registered_by)) return { removed: false }
    const { workflow_id, entry } = standing
    const row = sealedRow({ id, workflow_id, entry, status: 'deactivated', registered_by: caller.principal.id }, standing, engine)
    await registrations.remember(row)
    await engine.store.commit({
      actor: caller.principal.id, at: row.updated_at, session_id: null, changes: [{ type: 'function.unregistered', registration: row, replaces: standing.seal }],
    })
    await registrations.reread()
    return { removed: true }
  })
}

/** With the configured namespace where none is given; another one is not for workflows. */
function fullId(given: string, engine: Engine): string {
  const { namespace } = engine.authority().workflows
  const id = given.includes('::') ? given : `${namespace}::${given}`
  if (!isFunctionId(id)) {
    throw new HarnessError('invalid_input', `${quoted(given)} is no function id: write a name of a-z, 0-9 and single _, at most ${String(maxFunctionIdLength)} characters with its namespace.`)
  }
  if (!id.startsWith(`${namespace}::`)) {
    throw new HarnessError('forbidden', `Functions of workflows are in the namespace ${namespace}:: here, so ${id} is not for a workflow. Leave the namespace out, or set workflows.namespace in harness.yaml.`)
  }
  return id
}

/** As the workflow declares it, with defaults; what configuration makes of it comes later, so that a stricter one counts at once. */
function declaredEntry(input: ParsedOf<'register_function'>, id: string, engine: Engine): FunctionEntry {
  engine.checkSchema(input.schema, `The schema of ${id}`)
  const { id: workflow_id, version, url } = input.workflow
  return {
    id, description: input.description, schema: input.schema, risk: input.risk ?? 'medium', side_effects: input.side_effects ?? 'write',
    idempotent: input.idempotent ?? false, roles: [], approver_roles: ['approver'], approval_ttl_ms: 86_400_000, timeout_ms: input.timeout_ms ?? 300_000,
    unattended: input.unattended ?? [], target: { kind: 'workflow', url, workflow_id, workflow_version: version },
  }
}

function checkAddress({ workflow }: ParsedOf<'register_function'>, caller: Caller): void {
  const url = new URL(workflow.url)
  if (url.username !== '' || url.password !== '' || url.hash !== '') throw new HarnessError('invalid_input', 'workflow.url holds a user, a password or a #. Give the plain address of the webhook.')
  if (!mayBeCalledAt(caller, url)) {
    throw new HarnessError('forbidden', `workflow.url is under none of the addresses where this caller may be called: ${(caller.callbacks ?? []).join(', ') || 'there are none'}. Add the address of n8n to the caller's callbacks.`)
  }
}

/** The id of a workflow is no secret: another principal's function is not taken over by naming it. */
function checkFree(id: string, workflow: { readonly id: string; readonly name: string }, caller: Caller, engine: Engine): void {
  const final = { data: { final: true, function_id: id } }
  const known = engine.authority().functions.get(id)
  if (known !== undefined && known.target['kind'] !== 'workflow') {
    throw new HarnessError('conflict', `${id} is a function of the configuration. Give the workflow ${quoted(workflow.name)} another function name.`, final)
  }
  const standing = engine.registrations.row(id)
  if (standing?.status !== 'active' || !mayStillOffer(standing, engine.authority().grants)) return
  if (!maySee(caller.principal, standing.registered_by)) {
    throw new HarnessError('conflict', `${id} is the function of a workflow that somebody else registered. Give the workflow ${quoted(workflow.name)} another function name.`, final)
  }
  if (standing.workflow_id !== workflow.id) {
    throw new HarnessError('conflict', `${id} is the function of another workflow (id ${quoted(standing.workflow_id)}). Deactivate that one first, or choose another name.`, final)
  }
}

/**
 * What we sign says the path and not the function: under another function's address a call would pass there without having been judged
 * as that one. By the path alone, since a host of somebody else's could pass such a request on.
 */
function checkAddressFree(id: string, url: string, caller: Caller, engine: Engine): void {
  const path = pathOf(url)
  const others = [...engine.authority().functions.values()].filter((entry) => entry.id !== id && typeof entry.target['url'] === 'string' && pathOf(entry.target['url']) === path)
  const isOwn = ({ id: other, target }: FunctionEntry): boolean => target['kind'] === 'workflow' && maySee(caller.principal, engine.registrations.row(other)?.registered_by ?? '')
  if (others.every(isOwn)) return
  throw new HarnessError('conflict', `workflow.url is the address of another function. Give the workflow ${id} a webhook path of its own.`, { data: { final: true, function_id: id } })
}

function pathOf(url: string): string {
  return URL.canParse(url) ? decoded(new URL(url).pathname).replace(/\/+$/, '').toLowerCase() : ''
}

/** As a router might read it. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

/** Its time is later than that of the row it replaces, so that no two rows of a function carry the same seal. */
function sealedRow(facts: Omit<RegistrationRow, 'seal' | 'updated_at'>, standing: RegistrationRow | null, engine: Engine): RegistrationRow {
  const row = { ...facts, updated_at: Math.max(engine.clock.now(), (standing?.updated_at ?? 0) + 1) }
  return { ...row, seal: seal(engine.sealKey, 'registration', registrationSealFacts(row)) }
}

/** What policy looks at when there is no turn yet. */
export const functionTurn = { kind: 'function' as const, agent: '', spec: nothingAsked }

/** What policy says before there are arguments to test. */
export function usuallyOf(entry: FunctionEntry, caller: Caller, engine: Engine): 'runs' | 'waits_for_a_person' {
  const authority = engine.authority()
  const grant = authority.grants.get(caller.principal.id)
  if (grant === undefined) return 'waits_for_a_person'
  const layers = layersOf(authority, grant, functionTurn).map((layer) => ({ ...layer, rules: layer.rules.filter((rule) => rule.when.length === 0) }))
  const request = { function_id: entry.id, entry, arguments: {}, mode: 'agent' as const, earlier: null, profile: authority.profile }
  return evaluate(request, caller.principal, layers).effect === 'allow' ? 'runs' : 'waits_for_a_person'
}

/** As if the limits that the function came with were met. */
function withinLimits(entry: FunctionEntry): FunctionEntry {
  return entry.unattended.length === 0 ? entry : { ...entry, side_effects: 'read' }
}
