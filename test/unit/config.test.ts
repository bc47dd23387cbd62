import { generateKeyPairSync } from 'node:crypto'
import { addApproverToConfig, configJsonSchema, defaultConfigText, loadAuthority, type AuthoritySource } from '../../core/config'
import { isHarnessError } from '../../core/errors'
import { checkSchema, validateArguments } from '../../core/functions/validate'
import { ollamaUrl } from '../../core/model/ollama-url'
import { evaluate } from '../../core/policy/evaluate'
import type { FunctionEntry } from '../../core/policy/policy'
import { parse } from 'yaml'

const deployment = `d_${'a'.repeat(32)}`
const newKey = (): string => generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
const load = (configText: string, more: Partial<AuthoritySource> = {}) => loadAuthority({ configText, env: {}, deployment, checkSchema, ...more })

function refusal(configText: string, more: Partial<AuthoritySource> = {}): string {
  try {
    load(configText, more)
  } catch (error) {
    if (isHarnessError(error) && error.code === 'bad_config') return error.message
    throw error
  }
  throw new Error('The configuration was taken.')
}

const shop = (settings: string): string => `functions:\n  shop::refund:\n    http: { url: 'http://127.0.0.1:1/refund' }\n${settings}`
const rules = (...given: string[]): string => shop(`policy: { rules: [${given.join(', ')}] }`)
const sampleEntry: FunctionEntry = {
  id: 'sample::order', description: '', schema: { type: 'object' }, risk: 'low', side_effects: 'read', idempotent: true, roles: [],
  approver_roles: ['approver'], approval_ttl_ms: 1000, timeout_ms: 1000, unattended: [], target: { kind: 'sample' },
}

describe('defaults', () => {
  it('[home.nothing-typed] an empty file is a whole configuration', () => {
    const authority = load('')
    expect(authority).toMatchObject({
      deployment, profile: 'personal', four_eyes: false, local_principal: 'local', approvers: [], secrets: [],
      policy: { layer: 'deployment', functions: { allow: ['workflow::*'], deny: [] }, rules: [] },
      models: { default: null, ollama: { url: 'http://127.0.0.1:11434', num_ctx: 16_384, first_byte_ms: 600_000, idle_ms: 600_000 } },
      limits: { turn_ms: 604_800_000, message_bytes: 1_048_576, open_approvals_per_session: 20, live_turns_per_principal: 100 },
    })
    expect(authority.agents.get('assistant')).toMatchObject({ model: null, functions: { allow: ['*'], deny: [] }, max_turns: 16 })
    expect([...authority.grants.keys()]).toEqual(['local'])
    expect(authority.grants.get('local')?.principal).toMatchObject({ type: 'user', roles: ['owner', 'operator'], active: true })
    expect(authority.grants.get('local')?.principal.scopes).toHaveLength(7)
  })

  it('sections whose settings are all commented out are the defaults', () => {
    const empty = 'principals:\napprovers:\npolicy:\nfunctions:\nagents:\nmodels:\nlimits:\n'
    expect(load(empty).fingerprint).toBe(load('').fingerprint)
  })

  it('[write.undeclared-is-write] a function that declares nothing is a write of medium risk, not idempotent, and takes no arguments', () => {
    const entry = load(shop('')).functions.get('shop::refund')
    expect(entry).toMatchObject({
      risk: 'medium', side_effects: 'write', idempotent: false, roles: [], approver_roles: ['approver'],
      approval_ttl_ms: 86_400_000, timeout_ms: 300_000,
      target: { kind: 'http', url: 'http://127.0.0.1:1/refund', method: 'POST', headers: {}, signing: null },
    })
    expect(validateArguments(entry?.schema ?? {}, { amount: 1 }).ok).toBe(false)
    expect(validateArguments(entry?.schema ?? {}, {}).ok).toBe(true)
  })

  it('four eyes is on for a server and off for one person, unless said otherwise', () => {
    expect(load('profile: server').four_eyes).toBe(true)
    expect(load('profile: server\nfour_eyes: false').four_eyes).toBe(false)
    expect(load('four_eyes: true').four_eyes).toBe(true)
  })

  it('OLLAMA_HOST counts only where the file names no address', () => {
    const env = { OLLAMA_HOST: '0.0.0.0' }
    expect(load('', { env }).models.ollama.url).toBe('http://127.0.0.1:11434')
    expect(load('models: { ollama: { url: box:1 } }', { env }).models.ollama.url).toBe('http://box:1')
  })
})

describe('what opens', () => {
  it('without globs the deployment allows the namespaces it declares and workflow, and nothing else', () => {
    expect(load(shop('')).policy.functions).toEqual({ allow: ['shop::*', 'workflow::*'], deny: [] })
    const denied = load(shop('policy: { functions: { deny: ["shop::refund"] } }'))
    expect(denied.policy.functions).toEqual({ allow: ['shop::*', 'workflow::*'], deny: ['shop::refund'] })
    expect(load(shop('policy: { functions: { allow: [] } }')).policy.functions).toEqual({ allow: [], deny: [] })
  })

  it('an overlay adds its own ids alone, and is part of the fingerprint', () => {
    const text = `${shop('')}policy: { functions: { allow: [] } }\nagents: { narrow: { functions: { allow: ['shop::*'] } } }`
    const authority = load(text, { overlay: [sampleEntry] })
    expect(authority.policy.functions).toEqual({ allow: ['sample::order'], deny: [] })
    expect(authority.agents.get('narrow')?.functions.allow).toEqual(['shop::*'])
    expect(authority.functions.get('sample::order')).toBe(sampleEntry)
    expect(authority.fingerprint).not.toBe(load(text).fingerprint)
  })

  it('an overlay never takes the place of a function of the file', () => {
    const text = "functions: { 'sample::order': { http: { url: 'http://x' } } }"
    expect(refusal(text, { overlay: [sampleEntry] })).toContain('functions.sample::order is also a function of the sample')
  })

  it('a declared principal may not decide or administer unless it says so', () => {
    const { principal } = load('principals: { local: {} }').grants.get('local') ?? {}
    expect(principal).toMatchObject({ roles: [], scopes: ['turns:write', 'turns:read', 'identity:read'] })
  })

  it('[authority.from-configuration] rules become what the policy engine obeys', () => {
    const authority = load(rules('{ functions: shop::refund, when: { amount: { at_least: 1, at_most: 20 } }, effect: allow }'))
    const entry = authority.functions.get('shop::refund') ?? null
    const principal = authority.grants.get('local')?.principal
    if (principal === undefined) throw new Error('no principal')
    const effect = (amount: number): string =>
      evaluate({ function_id: 'shop::refund', entry, arguments: { amount }, mode: 'agent', profile: 'personal', earlier: null }, principal, [authority.policy]).effect
    expect([0, 1, 20, 21].map(effect)).toEqual(['hold', 'allow', 'allow', 'hold'])
    expect(authority.policy.rules[0]).toMatchObject({ id: 'rule-1', reason: 'Rule rule-1 of the configuration.' })
  })

  it('the authority cannot be changed after it was loaded', () => {
    const authority = load(shop(''))
    expect(Object.isFrozen(authority)).toBe(true)
    expect(Object.isFrozen(authority.policy.functions?.allow)).toBe(true)
    expect(Object.isFrozen(authority.functions.get('shop::refund')?.target)).toBe(true)
  })
})

describe('what is wrong is named with line, column and what to do', () => {
  const cases: readonly (readonly [title: string, text: string, message: string])[] = [
    [
      'a value that is not one of the known',
      shop('    risk: huge'), 'harness.yaml line 4, column 5: functions.shop::refund.risk must be one of low,',
    ],
    ['an unknown setting', 'limits:\n  turns: 7d', 'harness.yaml line 2, column 3: limits.turns is not a setting. Known here: turn, message,'],
    ['a misspelt section', 'polcy: {}', 'line 1, column 1: polcy is not a setting. Known here: profile, deployment,'],
    ['two names alike', 'profile: server\nprofile: personal', 'line 2, column 1: This name stands twice'],
    ['two names alike in two spellings', 'agents:\n  1: {}\n  "1": {}', 'line 3, column 3: This name stands twice'],
    ['[bad.proto-key] a __proto__ key', 'agents:\n  a: {}\n  __proto__: {}', 'line 3, column 3: The name __proto__ is not allowed'],
    ['a merge key', 'agents: { <<: { a: {} } }', 'Merge keys (<<) are not supported'],
    ['an anchor', 'agents:\n  a: &x {}', 'line 2, column 9: Anchors (&name) are not supported'],
    ['an alias', 'agents:\n  a: &x {}\n  b: *x', 'line 3, column 6: References (*name) are not supported'],
    ['a tag', 'profile: !secret x', 'line 1, column 10: Tags (!name) are not supported'],
    ['a directive', '%YAML 1.1\n---\nprofile: server', 'line 1, column 1: Directives'],
    ['a second document', 'profile: server\n---\nprofile: server', 'line 2, column 1: A second document begins here'],
    ['a tab', 'limits:\n\tturn: 7d', 'line 2, column 1: A tab indents this line'],
    ['an open quote', 'profile: "server', 'Something is missing here'],
    ['a bare list', '- a', 'line 1, column 1: The configuration must be a group of settings'],
    [
      'a number that is not exact',
      rules('{ functions: "*", effect: deny, when: { a: { equals: 9007199254740993 } } }'), 'too large to be held exactly',
    ],
    ['a number that is not finite', 'limits: { open_approvals_per_session: .inf }', 'A number must be finite'],
    ['a list left empty where empty would open', 'policy: { functions: { allow: } }', 'allow is empty: it must be a list; write [] for none'],
    ['a function without an address', 'functions: { shop::a: {} }', 'functions.shop::a.http is missing'],
    ['an id that is none', 'functions:\n  Shop::a: {}', 'line 2, column 3: functions.Shop::a is no function id'],
    ['[bad.glob] a bad glob', 'policy: { functions: { allow: ["shop.*"] } }', 'policy.functions.allow[0] must be a function id or a glob'],
    ['an id in the namespace of the harness', "functions: { 'harness::a': { http: { url: 'http://x' } } }", 'belongs to this program'],
    ['an address with a password', "functions: { 'a::b': { http: { url: 'http://u:hunter2@x' } } }", 'http.url must be a whole'],
    ['a rule without a test', rules('{ functions: shop::refund, effect: deny, when: { a: {} } }'), 'must hold one of equals, one_of'],
    [
      'a rule for a misspelt function',
      rules('{ functions: shop::refnd, effect: deny }'), 'policy.rules[0].functions names shop::refnd, which is not among',
    ],
    [
      'two rules of one id',
      rules('{ id: rule-2, functions: "*", effect: deny }', '{ functions: "*", effect: deny }'), 'has the id rule-2 of an earlier rule',
    ],
    ['a duration without sense', 'limits: { turn: soon }', 'limits.turn must be between 1m and 365d, written like 7d'],
    ['a duration too long for a timer', shop('    timeout: 30d'), 'functions.shop::refund.timeout must be between 100ms and 24h'],
    ['a local principal that is not there', 'principals: { anna: {} }', 'local_principal must name one of the principals: anna'],
    ['an approver without a key', 'approvers: [{ name: anna, public_key: AAAA }]', 'approvers[0].public_key must be an Ed25519 public key'],
    ['a schema whose root is no object', shop('    schema: { type: string }'), 'functions.shop::refund.schema.type must be object'],
    [
      '[bad.hostile-pattern] a schema that cannot be checked',
      shop('    schema: { type: object, properties: { a: { pattern: "(?=a)b" } } }'), 'schema cannot be used',
    ],
    ['a header that the harness sets', "functions: { 'a::b': { http: { url: 'http://x', headers: { Host: x } } } }", 'Host is set by the harness'],
    ['a GET that changes something', "functions: { 'a::b': { http: { url: 'http://x', method: GET } } }", 'is GET, which must change nothing'],
  ]
  it.each(cases)('[bad.broken-configuration] %s is refused', (_title, text, message) => {
    expect(refusal(text)).toContain(message)
  })

  it('two approvers never share a name or a key', () => {
    const key = newKey()
    const two = (name: string, publicKey: string): string =>
      `approvers: [{ name: a, public_key: ${key} }, { name: ${name}, public_key: ${publicKey} }]`
    expect(refusal(two('b', key))).toContain('approvers[1].public_key is already that of another')
    expect(refusal(two('a', newKey()))).toContain('approvers[1].name is already that of another')
  })

  it('a file over 1 MiB is refused unread', () => {
    expect(refusal(`# ${'x'.repeat(1 << 20)}`)).toContain('larger than 1048576 bytes')
  })

  it.each([['[', 400_000], ['{a: ', 100_000], ['- ', 50_000]] as const)('nesting %s without end is refused', (piece, count) => {
    expect(refusal(`agents: ${piece.repeat(count)}`)).toMatch(/line 1, column \d+: |nested too deeply/)
  })

  it('several things wrong are told together, in the order of the file', () => {
    const message = refusal(`${shop('    risk: huge')}\nlimits: { turn: x }\nprofile: y`)
    expect(message.split('\n').map((line) => /line (\d+)/.exec(line)?.[1])).toEqual(['4', '5', '6'])
  })

  it('no value of the file is repeated in an error', () => {
    const secret = 'hunter2hunter2'
    const texts = [
      shop(`    risk: ${secret}`), `models: { ollama: { url: "u:${secret}@x" } }`, `approvers: [{ name: a, public_key: "${secret}!" }]`,
      `profile: "${secret}`, `limits: { turn: ${secret} }`, `agents: [${secret}]`, `? [${secret}]\n: 1`, `a: *${secret}`,
      `a: ${secret}: b`, `[${secret}]]`, `profile: !${secret} x`, `local_principal: ${secret}`,
    ]
    for (const text of texts) expect(refusal(text)).not.toContain(secret)
  })
})

describe('secrets', () => {
  const secretText = (http: string): string => `functions:\n  shop::refund:\n    http:\n      url: http://127.0.0.1:1\n${http}`
  const full = secretText("      headers: { Authorization: 'Bearer ${SHOP_TOKEN}', X-Kind: plain }\n      signing: { secret: '${SHOP_SIGNING}' }\n")
  const env = { SHOP_TOKEN: 'token-one-of-many', SHOP_SIGNING: 'signing-secret-16', OTHER: 'x' }

  it('[home.secrets-not-stored] targets and fingerprint hold references, never values', () => {
    const authority = load(full, { env })
    const target = { headers: { Authorization: 'Bearer ${SHOP_TOKEN}' }, signing: 'SHOP_SIGNING' }
    expect(authority.functions.get('shop::refund')?.target).toMatchObject(target)
    expect(authority.fingerprint).toBe(load(full, { env: { SHOP_TOKEN: 'another token', SHOP_SIGNING: 'another signing secret' } }).fingerprint)
    expect([...authority.secrets].sort()).toEqual(['signing-secret-16', 'token-one-of-many'])
  })

  it('only the variables that the file refers to can be read, as they were at load', () => {
    const authority = load(full, { env })
    expect(authority.secret('SHOP_TOKEN')).toBe('token-one-of-many')
    expect(() => authority.secret('OTHER')).toThrow('does not refer to ${OTHER}')
    expect(() => authority.secret('__proto__')).toThrow('does not refer')
  })

  it.each([
    [
      'a variable that is not set',
      full, {}, 'line 5, column 18: functions.shop::refund.http.headers.Authorization needs the environment variable SHOP_TOKEN,',
    ],
    ['an empty variable', full, { ...env, SHOP_TOKEN: '' }, 'SHOP_TOKEN, which is not set'],
    ['a line break in a variable', full, { ...env, SHOP_TOKEN: 'token\n' }, 'it holds a line break'],
    ['a signing secret too short', full, { ...env, SHOP_SIGNING: 'short' }, 'needs at least 16 characters'],
    ['a secret in the file', secretText('      headers: { X-Api-Key: abcdef }\n'), {}, 'must take its secret from the environment'],
    ['a signing secret in the file', secretText('      signing: { secret: abcdefabcdefabcdef }\n'), {}, 'must be one reference to the environment'],
    ['a reference in lower case', secretText("      headers: { X-A: '${abc}' }\n"), {}, 'holds a ${…} that is no reference'],
    ['a reference in an address', "functions: { 'a::b': { http: { url: 'http://${HOST}/' } } }", { HOST: 'x' }, 'http.url must be'],
  ])('[bad.broken-configuration] %s is refused', (_title, text, given, message) => {
    expect(refusal(text, { env: given })).toContain(message)
  })
})

describe('the fingerprint', () => {
  it('[authority.fingerprint-guards] changes with what gives rights, not with comments, order or written-out defaults', () => {
    const one = load('profile: personal\nlimits: { turn: 7d }\n# comment').fingerprint
    expect(load('limits:\n  turn: 604800000\n').fingerprint).toBe(one)
    expect(load('limits: { turn: 8d }').fingerprint).not.toBe(one)
    expect(load('', { deployment: `d_${'b'.repeat(32)}` }).fingerprint).not.toBe(one)
  })

  it('the deployment id of the file counts before the given one', () => {
    expect(load(`deployment: d_${'c'.repeat(32)}`).deployment).toBe(`d_${'c'.repeat(32)}`)
  })
})

describe('the generated file', () => {
  const uncommented = (text: string): string => text.replaceAll(/^#(?=\S| {2})/gm, '')

  it('is a valid configuration of at most 90 lines that equals the defaults', () => {
    const text = defaultConfigText({ deployment })
    expect(text.split('\n').length).toBeLessThanOrEqual(90)
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(150)
    expect(load(text).fingerprint).toBe(load('').fingerprint)
  })

  it('shows true defaults: with every # removed only the example is more', () => {
    const text = uncommented(defaultConfigText({ deployment }))
    const config = parse(text) as Record<string, unknown>
    const { functions, policy, ...rest } = config
    expect(functions).toHaveProperty(['shop::refund', 'http', 'signing'])
    expect(load(JSON.stringify(rest)).fingerprint).not.toBe(load('').fingerprint) // four_eyes written out
    expect(load(JSON.stringify({ ...rest, four_eyes: undefined, agents: undefined })).fingerprint).toBe(load('').fingerprint)
    expect(load(JSON.stringify(rest)).agents).toEqual(load('').agents)
    const env = { SHOP_TOKEN: 'x'.repeat(20), SHOP_SIGNING_SECRET: 'y'.repeat(20) }
    expect(load(text, { env }).policy.functions).toEqual(load(`functions: ${JSON.stringify(functions)}`, { env }).policy.functions)
    expect(policy).toHaveProperty('rules')
  })

  it('with the sample the example is live and needs no environment', () => {
    const authority = load(defaultConfigText({ deployment, sample: true }))
    expect([...authority.functions.keys()]).toEqual(['shop::refund'])
    expect(authority.policy.rules).toHaveLength(1)
  })

  it('gets an approver without losing a comment', () => {
    for (const sample of [false, true]) {
      const text = defaultConfigText({ deployment, sample })
      const edited = addApproverToConfig(text, { name: 'anna', public_key: newKey(), roles: ['approver'], active: true })
      const comments = (of: string): string[] => of.split('\n').filter((line) => line.trimStart().startsWith('#'))
      expect(comments(edited)).toEqual(comments(text))
      expect(load(edited).approvers).toMatchObject([{ name: 'anna', roles: ['approver'], active: true }])
      const twice = addApproverToConfig(edited, { name: 'bert', public_key: newKey(), roles: ['approver', 'lead'], active: false })
      expect(load(twice).approvers).toMatchObject([{ name: 'anna' }, { name: 'bert', roles: ['approver', 'lead'], active: false }])
      expect(load(twice).functions).toEqual(load(text).functions)
    }
  })

  it.each(['', '# only a comment\n', 'approvers:\n', 'approvers: []\n', '{profile: server}\n'])('gets an approver into %j', (text) => {
    const edited = addApproverToConfig(text, { name: 'anna', public_key: newKey(), roles: ['approver'], active: true })
    expect(load(edited).approvers).toHaveLength(1)
    for (const comment of text.match(/#.*/g) ?? []) expect(edited).toContain(comment)
  })

  it('never gets a second approver of a name, nor a broken one', () => {
    const add = (text: string, name: string): string => addApproverToConfig(text, { name, public_key: newKey(), roles: ['approver'], active: true })
    expect(() => add(add('', 'anna'), 'anna')).toThrow('already has an approver anna')
    expect(() => add('', '../x')).toThrow('cannot be added: name')
    expect(() => add('a: [', 'x')).toThrow('harness.yaml line 1')
  })
})

describe('the published schema', () => {
  it('is a usable JSON Schema that takes the generated file and refuses unknown settings', () => {
    const schema = configJsonSchema()
    expect(() => { checkSchema(schema, 'schema') }).not.toThrow()
    expect(validateArguments(schema, parse(defaultConfigText({ deployment, sample: true })))).toEqual({ ok: true })
    expect(validateArguments(schema, { limits: { turn: '7d' }, functions: null })).toEqual({ ok: true })
    expect(validateArguments(schema, { polcy: {} }).ok).toBe(false)
  })
})

describe('the address of Ollama', () => {
  it.each([
    ['', 'http://127.0.0.1:11434'], ['box', 'http://box:11434'], ['box:80', 'http://box:80'], ['http://box:80', 'http://box:80'],
    ['https://box:8443/', 'https://box:8443'], ['0.0.0.0', 'http://127.0.0.1:11434'], ['http://0.0.0.0:1', 'http://127.0.0.1:1'],
    ['[::]:5', 'http://127.0.0.1:5'], ['::1', 'http://[::1]:11434'], [':1234', 'http://127.0.0.1:1234'], ['box/a', 'http://box:11434/a'],
  ])('%j is %s, and stays so', (text, url) => {
    expect(ollamaUrl(text)).toBe(url)
    expect(ollamaUrl(url)).toBe(url)
  })

  it.each(['http://u:hunter2@box', 'u@box', 'ftp://box', 'http://a b', 'http://box:99999', 'a:b:c!', 'file:///x'])('%j is refused', (text) => {
    expect(() => ollamaUrl(text)).toThrow(/address of Ollama/)
    expect(() => ollamaUrl(text)).not.toThrow(/hunter2/)
  })
})
