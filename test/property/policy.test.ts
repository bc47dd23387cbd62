/* The policy engine under random policies, functions and arguments: a rule more never opens anything, and high risk never just runs. */
import fc from 'fast-check'
import type { Json } from '../../core/digest'
import type { Principal } from '../../core/identity/principal'
import { evaluate, isOffered } from '../../core/policy/evaluate'
import type { ArgumentTest, FunctionEntry, LayerName, PolicyLayer, PolicyRequest, Rule, Verdict } from '../../core/policy/policy'

const runs = { numRuns: 3_000 }
const strictness = { allow: 0, hold: 1, deny: 2 }
const strictnessOf = (verdict: Verdict): number => strictness[verdict.effect]

// few names, so that rules and requests meet
const functionId = fc.constantFrom('shop::refund', 'shop::note', 'bank::pay', 'shop::a::b')
const glob = fc.constantFrom('*', 'shop::*', 'shop::refund', '*::note', 'bank::*', 's*d', 'shop::a::*', 'none::*')
const role = fc.constantFrom('owner', 'admin', 'approver')
const scalar = fc.constantFrom<Json>(null, true, 0, 7, 50, 'EUR', 'A-1')
const deep: fc.Arbitrary<Json> = fc.record({ currency: scalar })
const argumentsOf: fc.Arbitrary<Json> = fc.oneof(
  { weight: 5, arbitrary: fc.dictionary(fc.constantFrom('amount', 'currency', 'order'), fc.oneof(scalar, deep)) },
  { weight: 1, arbitrary: fc.jsonValue() as fc.Arbitrary<Json> },
)
const test: fc.Arbitrary<ArgumentTest> = fc.oneof(
  fc.record({
    argument: fc.constantFrom('amount', 'order.currency', '__proto__'), test: fc.constantFrom('at_most' as const, 'at_least' as const),
    value: fc.constantFrom(0, 7, 50),
  }),
  fc.record({ argument: fc.constantFrom('currency', 'order.currency'), test: fc.constant('equals' as const), value: scalar }),
  fc.record({ argument: fc.constantFrom('currency', 'amount'), test: fc.constant('one_of' as const), value: fc.array(scalar, { minLength: 1 }) }),
  fc.record({ argument: fc.constantFrom('order', 'currency'), test: fc.constant('matches' as const), value: fc.constantFrom('*', 'A-*') }),
)
const ruleOf = (effect: fc.Arbitrary<Rule['effect']>): fc.Arbitrary<Rule> =>
  fc.record({
    id: fc.constantFrom('r1', 'r2'), functions: fc.array(glob, { minLength: 1, maxLength: 2 }), when: fc.array(test, { maxLength: 2 }), effect,
    reason: fc.constant('why'),
  })
const rule = ruleOf(fc.constantFrom('allow', 'hold', 'deny'))
const globs = fc.record({ allow: fc.array(glob, { maxLength: 3 }), deny: fc.array(glob, { maxLength: 1 }) })
const layerNamed = (name: LayerName): fc.Arbitrary<PolicyLayer> =>
  fc.record({ layer: fc.constant(name), functions: fc.option(globs), rules: fc.array(rule, { maxLength: 3 }) })
const openGlobs = fc.record({ allow: fc.constantFrom(['*'], ['shop::*', 'bank::*']), deny: fc.constant([]) })
const deployment: fc.Arbitrary<PolicyLayer> = fc.record({
  layer: fc.constant('deployment' as const), functions: fc.oneof(openGlobs, globs), rules: fc.array(rule, { maxLength: 3 }),
})
const narrower = fc.constantFrom<LayerName>('principal', 'agent', 'send').chain(layerNamed)
const layers = fc.tuple(deployment, fc.array(narrower, { maxLength: 3 })).map(([first, rest]) => [first, ...rest])

const entry: fc.Arbitrary<FunctionEntry> = fc.record({
  id: functionId, description: fc.constant(''), schema: fc.constant({ type: 'object' }), risk: fc.constantFrom('low', 'medium', 'high'),
  side_effects: fc.constantFrom('none', 'read', 'write'), idempotent: fc.boolean(),
  roles: fc.oneof(fc.constant([]), fc.array(role, { maxLength: 2 })),
  approver_roles: fc.array(role, { minLength: 1, maxLength: 2 }), approval_ttl_ms: fc.nat(), timeout_ms: fc.nat(), unattended: fc.constant([]), target: fc.constant({}),
})
const principal: fc.Arbitrary<Principal> = fc.record({
  id: fc.constant('ann'), type: fc.constantFrom('user', 'system', 'agent'), name: fc.constant('Ann'), roles: fc.array(role, { maxLength: 3 }),
  scopes: fc.constant([]), active: fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
})
const request: fc.Arbitrary<PolicyRequest & { entry: FunctionEntry }> = fc.record({
  entry, arguments: argumentsOf, mode: fc.constantFrom('agent' as const, 'agent' as const, 'plan' as const, 'ask' as const),
  profile: fc.constantFrom('personal' as const, 'server' as const),
  earlier: fc.constantFrom(null, null, 'rejected' as const, 'interrupted' as const),
}).map((facts) => ({ ...facts, function_id: facts.entry.id }))

/** `more` at a place in the list, wherever it falls. */
const insertedAt = <T>(list: readonly T[], place: number, more: T): T[] => {
  const at = place % (list.length + 1)
  return [...list.slice(0, at), more, ...list.slice(at)]
}
const changedAt = (all: readonly PolicyLayer[], place: number, change: (layer: PolicyLayer) => PolicyLayer): PolicyLayer[] =>
  all.map((layer, index) => (index === place % all.length ? change(layer) : layer))

it('the same policy and request give the same verdict, and neither is changed', () => {
  fc.assert(fc.property(request, principal, layers, (asked, who, all) => {
    const before = JSON.stringify([asked, who, all])
    const verdict = evaluate(asked, who, all)
    expect(evaluate(structuredClone(asked), structuredClone(who), structuredClone(all))).toEqual(verdict)
    expect(JSON.stringify([asked, who, all])).toBe(before)
  }), { numRuns: 500 })
})

it('a deny glob more, in any layer, never widens', () => {
  fc.assert(fc.property(request, principal, layers, fc.nat(), glob, (asked, who, all, place, denied) => {
    const narrowed = changedAt(
      all, place, (layer) => ({ ...layer, functions: { allow: layer.functions?.allow ?? ['*'], deny: [...(layer.functions?.deny ?? []), denied] } })
    )
    return strictnessOf(evaluate(asked, who, narrowed)) >= strictnessOf(evaluate(asked, who, all))
  }), runs)
})

it('an allow glob less, in any layer, never widens', () => {
  fc.assert(fc.property(request, principal, layers, fc.nat(), fc.nat(), (asked, who, all, place, dropped) => {
    const narrowed = changedAt(all, place, (layer) => ({
      ...layer, functions: layer.functions === null ? null : {
        ...layer.functions, allow: layer.functions.allow.filter((_, index) => index !== dropped % 3)
      },
    }))
    return strictnessOf(evaluate(asked, who, narrowed)) >= strictnessOf(evaluate(asked, who, all))
  }), runs)
})

it('a deny rule more, at any place of any layer, never widens', () => {
  fc.assert(fc.property(request, principal, layers, fc.nat(), fc.nat(), ruleOf(fc.constant('deny')), (asked, who, all, place, at, more) => {
    const narrowed = changedAt(all, place, (layer) => ({ ...layer, rules: insertedAt(layer.rules, at, more) }))
    return strictnessOf(evaluate(asked, who, narrowed)) >= strictnessOf(evaluate(asked, who, all))
  }), runs)
})

it('a layer more, at any place, never widens', () => {
  fc.assert(fc.property(request, principal, layers, fc.nat(), narrower, (asked, who, all, at, more) => {
    return strictnessOf(evaluate(asked, who, insertedAt(all, at, more))) >= strictnessOf(evaluate(asked, who, all))
  }), runs)
})

it('the verdict is the strictest of the layers, in whatever order they stand', () => {
  fc.assert(fc.property(request, principal, layers, (asked, who, all) => {
    expect(strictnessOf(evaluate(asked, who, all.toReversed()))).toBe(strictnessOf(evaluate(asked, who, all)))
  }), runs)
})

it('high risk is held or denied, whatever the rules say, and so is a write that no rule of the deployment speaks of', () => {
  fc.assert(fc.property(request, principal, layers, (asked, who, all) => {
    const high = { ...asked, entry: { ...asked.entry, risk: 'high' as const } }
    expect(evaluate(high, who, all).effect).not.toBe('allow')
    const write = { ...asked, entry: { ...asked.entry, side_effects: 'write' as const } }
    expect(evaluate(write, who, all.map((layer) => (layer.layer === 'deployment' ? { ...layer, rules: [] } : layer))).effect).not.toBe('allow')
  }), runs)
})

it('a function that is unknown and one that a glob forbids are refused in the same words', () => {
  const told = ({ reasons, ...rest }: Verdict): unknown => ({ ...rest, told: reasons.find((reason) => reason.decisive)?.text })
  fc.assert(fc.property(request, principal, layers, fc.nat(), (asked, who, all, place) => {
    const forbidding = changedAt(all, place, (layer) => ({ ...layer, functions: { allow: ['*'], deny: [asked.function_id] } }))
    expect(told(evaluate(asked, who, forbidding))).toEqual(told(evaluate({ ...asked, entry: null }, who, all)))
  }), runs)
})

it('what is offered is never refused as unavailable, and what is not offered is always refused', () => {
  fc.assert(fc.property(request, principal, layers, (asked, who, all) => {
    const verdict = evaluate(asked, who, all)
    const refused = verdict.effect === 'deny' && ['not_available', 'role', 'mode', 'inactive'].includes(verdict.code)
    expect(refused).toBe(!isOffered(asked.entry, who, all, asked.mode))
  }), runs)
})

it('every verdict names a rule that made it', () => {
  fc.assert(fc.property(request, principal, layers, (asked, who, all) => {
    const verdict = evaluate(asked, who, all)
    const decisive = verdict.reasons.filter((reason) => reason.decisive)
    if (verdict.effect !== 'allow') expect(decisive.length).toBeGreaterThan(0)
    for (const reason of decisive) expect(reason.effect).toBe(verdict.effect)
  }), runs)
})

it('all verdicts are met, or the runs above prove nothing', () => {
  const met = new Set<string>()
  fc.assert(fc.property(request, principal, layers, (asked, who, all) => {
    const verdict = evaluate(asked, who, all)
    met.add(verdict.effect === 'deny' ? verdict.code : verdict.effect)
  }), runs)
  expect([...met].sort()).toEqual(['allow', 'hold', 'inactive', 'mode', 'not_available', 'rejected_before', 'role', 'rule'])
})
