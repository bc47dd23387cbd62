/* Verdicts by example: what holds, what relaxes a hold, what denies, and which rules are named for it. */
import type { Json } from '../../core/digest'
import type { Principal } from '../../core/identity/principal'
import { evaluate, isOffered } from '../../core/policy/evaluate'
import type { ArgumentTest, Effect, FunctionEntry, LayerName, PolicyLayer, PolicyRequest, Rule, Verdict } from '../../core/policy/policy'

const principal: Principal = { id: 'local', type: 'user', name: 'Local', roles: ['owner'], scopes: [], active: true }
const entry = (facts: Partial<FunctionEntry> = {}): FunctionEntry => ({
  id: 'shop::note', description: '', schema: { type: 'object' }, risk: 'low', side_effects: 'write', idempotent: false, roles: [],
  approver_roles: ['approver'], approval_ttl_ms: 1_000, timeout_ms: 1_000, unattended: [], target: { kind: 'http' }, ...facts,
})
const rule = (effect: Effect, facts: Partial<Rule> = {}): Rule => ({
  id: `${effect}-rule`, functions: ['shop::*'], when: [], effect, reason: `because ${effect}`, ...facts,
})
const layer = (rules: readonly Rule[] = [], name: LayerName = 'deployment'): PolicyLayer => ({
  layer: name, functions: { allow: ['shop::*'], deny: [] }, rules,
})

interface Asked extends Partial<PolicyRequest> {
  readonly rules?: readonly Rule[]
  readonly more?: readonly PolicyLayer[]
  readonly facts?: Partial<FunctionEntry>
  readonly who?: Partial<Principal>
}
function verdict({ rules = [], more = [], facts = {}, who = {}, ...request }: Asked = {}): Verdict {
  const asked: PolicyRequest = { function_id: 'shop::note', entry: entry(facts), arguments: {}, mode: 'agent', profile: 'server', earlier: null, ...request }
  return evaluate(asked, { ...principal, ...who }, [layer(rules), ...more])
}
const effectOf = (asked: Asked): Effect => verdict(asked).effect
const decisive = (asked: Asked): string[] =>
  verdict(asked).reasons.filter((reason) => reason.decisive).map(({ layer: name, rule: id }) => `${name}/${id}`)

describe('what holds', () => {
  it('a write that no rule of the deployment speaks of waits for a person; a read does not', () => {
    expect(verdict()).toMatchObject({ effect: 'hold', approver_roles: ['approver'], ttl_ms: 1_000, assurance: 'channel-asserted' })
    expect(decisive({})).toEqual(['registry/side_effects:write'])
    expect(effectOf({ facts: { side_effects: 'read' } })).toBe('allow')
    expect(effectOf({ facts: { side_effects: 'none' } })).toBe('allow')
  })

  it('a rule of the deployment relaxes that hold below high risk, and of no other layer', () => {
    expect(effectOf({ rules: [rule('allow')] })).toBe('allow')
    expect(effectOf({ rules: [rule('allow')], facts: { risk: 'medium' } })).toBe('allow')
    expect(effectOf({ more: [layer([rule('allow')], 'agent'), layer([rule('allow')], 'principal')] })).toBe('hold')
  })

  it('high risk always waits, whatever a rule says', () => {
    expect(effectOf({ rules: [rule('allow')], facts: { risk: 'high' } })).toBe('hold')
    expect(effectOf({ facts: { risk: 'high', side_effects: 'read' } })).toBe('hold')
    expect(decisive({ rules: [rule('allow')], facts: { risk: 'high' } })).toEqual(['registry/risk:high'])
  })

  it('what may have happened already waits, even where it would pass', () => {
    expect(effectOf({ rules: [rule('allow')], earlier: 'interrupted' })).toBe('hold')
    expect(decisive({ rules: [rule('allow')], earlier: 'interrupted' })).toEqual(['turn/unknown_outcome'])
  })
})

it('[page.assurance] a hold says how sure an answer must be: a passphrase for high risk on a server, else what a channel asserts', () => {
  const asked = (profile: PolicyRequest['profile'], risk: FunctionEntry['risk']): unknown => {
    const held = verdict({ profile, facts: { risk } })
    return held.effect === 'hold' ? held.assurance : held.effect
  }
  expect((['low', 'medium', 'high'] as const).map((risk) => asked('server', risk))).toEqual(['channel-asserted', 'channel-asserted', 'human-verified'])
  expect((['low', 'medium', 'high'] as const).map((risk) => asked('personal', risk))).toEqual(Array(3).fill('channel-asserted'))
})

describe('limits that a function came with', () => {
  const unattended: readonly ArgumentTest[] = [{ argument: 'amount', test: 'at_most', value: 20 }, { argument: 'currency', test: 'equals', value: 'EUR' }]
  const within = { amount: 20, currency: 'EUR' }
  const asked = (args: Json, more: Asked = {}): Asked => ({ ...more, arguments: args, facts: { unattended, ...more.facts } })

  it('[workflow.own-limits] let a write that no rule speaks of pass when all of them hold, and the limit is named', () => {
    expect(effectOf(asked(within))).toBe('allow')
    expect(decisive(asked(within))).toContain('registry/unattended')
    for (const args of [{ amount: 21, currency: 'EUR' }, { amount: 5 }, { amount: '5', currency: 'EUR' }, {}, null]) {
      expect([args, decisive(asked(args))]).toEqual([args, ['registry/unattended']])
      expect(effectOf(asked(args))).toBe('hold')
    }
    expect(verdict(asked({ amount: 21, currency: 'EUR' })).reasons.find(({ decisive: yes }) => yes)?.text).toContain('amount at most 20')
  })

  it('[workflow.own-limits] relax nothing else: not high risk, not a rule, not an unknown outcome', () => {
    expect(effectOf(asked(within, { facts: { risk: 'high' } }))).toBe('hold')
    expect(effectOf(asked(within, { rules: [rule('hold')] }))).toBe('hold')
    expect(effectOf(asked(within, { rules: [rule('deny')] }))).toBe('deny')
    expect(effectOf(asked(within, { more: [layer([rule('deny')], 'agent')] }))).toBe('deny')
    expect(effectOf(asked(within, { earlier: 'interrupted' }))).toBe('hold')
    expect(effectOf({ facts: { unattended: [] } })).toBe('hold')
  })
})

describe('what denies', () => {
  it('a rule, of any layer, and it is named', () => {
    expect(verdict({ rules: [rule('deny')] })).toMatchObject({ effect: 'deny', code: 'rule' })
    expect(decisive({ rules: [rule('allow')], more: [layer([rule('deny')], 'agent')] })).toEqual(['agent/deny-rule'])
  })

  it('a role that is not had, a mode without side effects, an earlier no, and one who is not active', () => {
    expect(verdict({ facts: { roles: ['admin'] } })).toMatchObject({ effect: 'deny', code: 'role' })
    expect(effectOf({ rules: [rule('allow')], facts: { roles: ['admin', 'owner'] } })).toBe('allow')
    for (const mode of ['plan', 'ask'] as const) {
      expect(verdict({ rules: [rule('allow')], mode })).toMatchObject({ effect: 'deny', code: 'mode' })
      expect(effectOf({ facts: { side_effects: 'read' }, mode })).toBe('allow')
    }
    expect(verdict({ rules: [rule('allow')], earlier: 'rejected' })).toMatchObject({ effect: 'deny', code: 'rejected_before' })
    expect(verdict({ rules: [rule('allow')], who: { active: false } })).toMatchObject({ effect: 'deny', code: 'inactive' })
  })

  it('a function that is not known and one that is forbidden get the same words and the same code', () => {
    const unknown = verdict({ entry: null, function_id: 'shop::nothing' })
    const forbidden = verdict({ more: [{ layer: 'send', functions: { allow: [], deny: [] }, rules: [] }] })
    const told = ({ reasons, ...rest }: Verdict): unknown => ({ ...rest, told: reasons.find((reason) => reason.decisive)?.text })
    expect(told(unknown)).toEqual(told(forbidden))
    expect(unknown).toMatchObject({ effect: 'deny', code: 'not_available' })
  })
})

describe('rules', () => {
  it('inside one document the first match counts', () => {
    expect(effectOf({ rules: [rule('allow'), rule('deny')] })).toBe('allow')
    expect(effectOf({ rules: [rule('deny'), rule('allow')] })).toBe('deny')
    expect(effectOf({ rules: [rule('deny', { functions: ['shop::other'] }), rule('allow')] })).toBe('allow')
  })

  const when = (test: ArgumentTest['test'], value: Json, argument = 'amount'): readonly ArgumentTest[] => [{ argument, test, value }]
  const passes = (tests: readonly ArgumentTest[], args: Json): boolean =>
    effectOf({ rules: [rule('allow', { when: tests })], arguments: args }) === 'allow'

  it('an argument is tested as it is written, and every test must hold', () => {
    expect(passes(when('at_most', 50), { amount: 50 })).toBe(true)
    expect(passes(when('at_most', 50), { amount: 51 })).toBe(false)
    expect(passes(when('at_least', 50), { amount: 50 })).toBe(true)
    expect(passes(when('equals', 'EUR', 'order.currency'), { order: { currency: 'EUR' } })).toBe(true)
    expect(passes(when('equals', null), { amount: null })).toBe(true)
    expect(passes(when('one_of', [1, 2]), { amount: 2 })).toBe(true)
    expect(passes(when('one_of', [1, 2]), { amount: '2' })).toBe(false)
    expect(passes(when('matches', 'A-*'), { amount: 'A-17' })).toBe(true)
    expect(passes([...when('at_most', 50), ...when('equals', 'EUR', 'currency')], { amount: 1, currency: 'USD' })).toBe(false)
  })

  it('an argument that is absent or of another type counts against the caller: no allow matches, every hold and deny does', () => {
    const tests: readonly ArgumentTest[][] = [
      [...when('at_most', 50)], [...when('at_least', 1)], [...when('matches', '*')], [...when('equals', 1)], [...when('one_of', [1])],
    ]
    const odd: readonly Json[] = [{}, { amount: { deep: 1 } }, { amount: [1] }, [], null, { other: 1 }]
    for (const test of tests) {
      for (const args of odd) {
        expect(passes(test, args)).toBe(false)
        expect(effectOf({ rules: [rule('deny', { when: test }), rule('allow')], arguments: args })).toBe('deny')
        expect(effectOf({ rules: [rule('hold', { when: test }), rule('allow')], arguments: args })).toBe('hold')
      }
    }
    expect(passes(when('at_most', 50), { amount: '10' })).toBe(false)
  })

  it('no path reaches what an object inherits', () => {
    for (const argument of ['__proto__', 'constructor', 'constructor.name', 'toString', 'amount.__proto__']) {
      expect(effectOf({ rules: [rule('allow', { when: when('equals', 'x', argument) })], arguments: { amount: {} } })).toBe('hold')
    }
  })
})

describe('what is offered', () => {
  const offered = (facts: Partial<FunctionEntry>, mode: PolicyRequest['mode'] = 'agent', who: Partial<Principal> = {}): boolean =>
    isOffered(entry(facts), { ...principal, ...who }, [layer()], mode)

  it('a model sees what globs, roles and mode let through, and nothing when its owner is not active', () => {
    expect(offered({})).toBe(true)
    expect(offered({ id: 'bank::note' })).toBe(false)
    expect(offered({ roles: ['admin'] })).toBe(false)
    expect(offered({}, 'plan')).toBe(false)
    expect(offered({ side_effects: 'read' }, 'plan')).toBe(true)
    expect(offered({}, 'agent', { active: false })).toBe(false)
  })
})
