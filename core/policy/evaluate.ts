/*
 * The policy engine: a pure function from a request to a verdict and the rules that made it. Closed on every doubt. Layers can only
 * make an answer stricter, save that the deployment's rules may relax the default hold of a write below high risk.
 */
import type { Json } from '../digest'
import type { Principal } from '../identity/principal'
import { globMatches, matchGlobs } from './glob'
import { requiredAssurance, type ArgumentTest, type DenyCode, type Effect, type FunctionEntry, type PolicyLayer, type PolicyRequest, type Reason, type Rule, type Verdict } from './policy'

const strictness: Record<Effect, number> = { allow: 0, hold: 1, deny: 2 }

/** The verdict on one call. `layers` in the order they are told: deployment, principal, agent, send. */
export function evaluate(request: PolicyRequest, principal: Principal, layers: readonly PolicyLayer[]): Verdict {
  const reasons: Reason[] = []
  const say = (layer: Reason['layer'], rule: string, effect: Effect, text: string): void => {
    reasons.push({ layer, rule, effect, text, decisive: false })
  }
  const deny = (code: DenyCode): Verdict => ({ effect: 'deny', code, reasons: markDecisive(reasons, 'deny') })

  if (!principal.active) {
    say('principal', 'active', 'deny', `Principal ${principal.id} is not active.`)
    return deny('inactive')
  }
  const { entry } = request
  const forbidden = layers.find((layer) => layer.functions !== null && !matchGlobs(layer.functions, request.function_id).allowed)
  if (entry === null || forbidden !== undefined) {
    // One text for unknown and forbidden: a model must not learn which functions exist. The layer stands in the record only.
    say(entry === null ? 'registry' : (forbidden?.layer ?? 'registry'), 'functions', 'deny', 'No such function is available here.')
    return deny('not_available')
  }
  if (entry.roles.length > 0 && !entry.roles.some((role) => principal.roles.includes(role))) {
    say('registry', 'roles', 'deny', `${entry.id} needs one of the roles ${entry.roles.join(', ')}.`)
    return deny('role')
  }
  if (request.mode !== 'agent' && entry.side_effects === 'write') {
    say('turn', `mode:${request.mode}`, 'deny', `Mode ${request.mode} lets nothing with a side effect through.`)
    return deny('mode')
  }
  if (request.earlier === 'rejected') {
    say('turn', 'rejected_before', 'deny', 'A person rejected exactly this call earlier in this turn.')
    return deny('rejected_before')
  }
  for (const layer of layers) sayLayer(layer, request, entry, say)
  if (entry.risk === 'high') say('registry', 'risk:high', 'hold', 'High risk always waits for a person.')
  if (request.earlier === 'interrupted') say('turn', 'unknown_outcome', 'hold', 'The outcome of an equal call in this turn is unknown.')

  const effect = reasons.reduce<Effect>((worst, reason) => (strictness[reason.effect] > strictness[worst] ? reason.effect : worst), 'allow')
  if (effect === 'deny') return deny('rule')
  if (effect === 'allow') return { effect, reasons: markDecisive(reasons, effect) }
  return {
    effect,
    reasons: markDecisive(reasons, effect),
    approver_roles: entry.approver_roles,
    ttl_ms: entry.approval_ttl_ms,
    assurance: requiredAssurance(request.profile, entry.risk),
  }
}

/** Whether a function is shown to this principal and its model at all: what the globs, roles and mode let through. */
export function isOffered(entry: FunctionEntry, principal: Principal, layers: readonly PolicyLayer[], mode: PolicyRequest['mode']): boolean {
  if (!principal.active || (mode !== 'agent' && entry.side_effects === 'write')) return false
  if (entry.roles.length > 0 && !entry.roles.some((role) => principal.roles.includes(role))) return false
  return layers.every((layer) => layer.functions === null || matchGlobs(layer.functions, entry.id).allowed)
}

function sayLayer(layer: PolicyLayer, request: PolicyRequest, entry: FunctionEntry, say: (l: Reason['layer'], r: string, e: Effect, t: string) => void): void {
  const rule = layer.rules.find((candidate) => ruleMatches(candidate, request))
  if (rule !== undefined) say(layer.layer, rule.id, rule.effect, rule.reason)
  else if (layer.functions !== null) say(layer.layer, 'functions', 'allow', `${entry.id} is among the functions allowed here.`)
  // A write that no rule of the deployment speaks of waits for a person; only the deployment may relax that.
  if (layer.layer === 'deployment' && rule === undefined && entry.side_effects === 'write') sayUnspoken(request, entry, say)
}

/** A write that no rule of the deployment speaks of: held, unless it is within the limits that the function itself came with. */
function sayUnspoken(request: PolicyRequest, entry: FunctionEntry, say: (l: Reason['layer'], r: string, e: Effect, t: string) => void): void {
  if (entry.unattended.length === 0 || entry.risk === 'high') {
    say('registry', 'side_effects:write', 'hold', `${entry.id} changes something and no rule lets it pass by itself.`)
    return
  }
  const unmet = entry.unattended.find((test) => testArgument(test, request.arguments) !== true)
  if (unmet === undefined) say('registry', 'unattended', 'allow', `${entry.id} passes by itself within its own limits: ${entry.unattended.map(limitText).join(', ')}.`)
  else say('registry', 'unattended', 'hold', `${entry.id} passes by itself only with ${limitText(unmet)}.`)
}

function limitText({ argument, test, value }: ArgumentTest): string {
  return `${argument} ${test.replaceAll('_', ' ')} ${JSON.stringify(value).slice(0, 200)}`
}

function markDecisive(reasons: readonly Reason[], effect: Effect): readonly Reason[] {
  return reasons.map((reason) => ({ ...reason, decisive: reason.effect === effect }))
}

function ruleMatches(rule: Rule, request: PolicyRequest): boolean {
  if (!rule.functions.some((glob) => globMatches(glob, request.function_id))) return false
  return rule.when.every((test) => {
    const answer = testArgument(test, request.arguments)
    return answer === 'unknown' ? rule.effect !== 'allow' : answer
  })
}

function testArgument(test: ArgumentTest, args: Json): boolean | 'unknown' {
  const value = readPath(args, test.argument)
  switch (test.test) {
    case 'equals':
      return value === undefined || (typeof value === 'object' && value !== null) ? 'unknown' : value === test.value
    case 'one_of':
      if (value === undefined || (typeof value === 'object' && value !== null) || !Array.isArray(test.value)) return 'unknown'
      return test.value.includes(value)
    case 'at_most':
      return typeof value === 'number' && typeof test.value === 'number' ? value <= test.value : 'unknown'
    case 'at_least':
      return typeof value === 'number' && typeof test.value === 'number' ? value >= test.value : 'unknown'
    case 'matches':
      return typeof value === 'string' && typeof test.value === 'string' ? globMatches(test.value, value) : 'unknown'
  }
}

/** Own members only: `__proto__` and friends are not reachable. */
function readPath(args: Json, path: string): Json | undefined {
  let here: Json | undefined = args
  for (const key of path.split('.')) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined
    here = (here as Record<string, Json>)[key]
  }
  return here
}
