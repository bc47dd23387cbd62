/* Tokens: what one is, who is found by it, what configuration takes, and edits of harness.yaml that lose nothing. */
import { randomBytes } from 'node:crypto'
import { addTokenToConfig, configJsonSchema, defaultConfigText, loadAuthority, removeTokenFromConfig } from '../../core/config'
import { n8nCallbacks, n8nPrincipal, n8nScopes } from '../../core/config-tokens'
import { isHarnessError } from '../../core/errors'
import { validateArguments } from '../../core/functions/validate'
import { callerOfToken, findToken, tokenHash, tokenOf, tokenPattern, type Token } from '../../core/identity/tokens'
import { scopes, type Principal } from '../../core/identity/principal'
import { operations } from '../../core/protocol/operations'

const deployment = `d_${'a'.repeat(32)}`
const load = (configText: string) => loadAuthority({ configText, env: {}, deployment })
const newToken = (): string => tokenOf(randomBytes(32))
const sha256 = tokenHash(newToken())

function refusal(work: () => unknown): { code: string; message: string } {
  try {
    work()
  } catch (error) {
    if (isHarnessError(error)) return { code: error.code, message: error.message }
    throw error
  }
  throw new Error('It was taken.')
}

const token = (facts: Partial<Token> = {}): Token => ({ name: 't', principal: 'ann', sha256, scopes: null, callbacks: [], expires_at: null, ...facts })

describe('a token', () => {
  it('is ahk_ and 256 bits, each its own', () => {
    const made = Array.from({ length: 50 }, newToken)
    expect(new Set(made).size).toBe(50)
    for (const one of made) expect(one).toMatch(tokenPattern)
    expect(tokenOf(new Uint8Array(32))).toBe(`ahk_${'A'.repeat(43)}`)
    expect(() => tokenOf(new Uint8Array(16))).toThrow(RangeError)
  })

  it('[http.token-only] is found by itself alone, until it expires', () => {
    const [mine, other] = [newToken(), newToken()]
    const listed = [token({ name: 'other', sha256: tokenHash(other) }), token({ name: 'mine', sha256: tokenHash(mine), expires_at: 1_000 }), token({ name: 'last' })]
    expect(findToken(listed, mine, 999)?.name).toBe('mine')
    expect(findToken(listed, mine, 1_000)).toBeNull()
    expect(findToken(listed, other, 5_000)?.name).toBe('other')
    for (const wrong of ['', mine.slice(0, -1), `${mine}A`, mine.toLowerCase(), tokenHash(mine), newToken()]) expect(findToken(listed, wrong, 0)).toBeNull()
    expect(findToken([], mine, 0)).toBeNull()
  })

  it('a text that is no token is none, even where configuration holds its hash', () => {
    for (const text of ['', 'hunter2', 'ahk_short']) expect(findToken([token({ sha256: tokenHash(text) })], text, 0)).toBeNull()
  })

  it('[http.narrowed] narrows the scopes of its principal and never widens them', () => {
    const ann: Principal = { id: 'ann', type: 'user', name: 'Ann', roles: ['owner'], scopes: ['turns:read', 'turns:write'], active: true }
    expect(callerOfToken(token(), ann).principal).toEqual(ann)
    expect(callerOfToken(token({ scopes: ['turns:read', 'admin'] }), ann).principal).toEqual({ ...ann, scopes: ['turns:read'] })
    expect(callerOfToken(token({ scopes: ['admin'] }), ann).principal.scopes).toEqual([])
  })
})

describe('in configuration', () => {
  const line = (name: string, more = ''): string => `  - { name: ${name}, principal: local, sha256: ${tokenHash(name)}${more} }\n`

  it('is read with its scopes, its addresses and its end', () => {
    const { tokens } = load(`tokens:\n${line('a')}${line('b', ', scopes: ["turns:read"], callbacks: ["HTTP://Box:80/x/../n8n"], expires: 2027-01-31')}`)
    expect(tokens).toEqual([
      { name: 'a', principal: 'local', sha256: tokenHash('a'), scopes: null, callbacks: [], expires_at: null },
      { name: 'b', principal: 'local', sha256: tokenHash('b'), scopes: ['turns:read'], callbacks: ['http://box/n8n/'], expires_at: Date.UTC(2027, 0, 31) },
    ])
    expect(load('').tokens).toEqual([])
    expect(load('tokens:\n').tokens).toEqual([])
    expect(load(`tokens:\n${line('a', ', expires: 2027-01-31T18:00:00+02:00')}`).tokens[0]?.expires_at).toBe(Date.UTC(2027, 0, 31, 16))
  })

  it.each([
    ['an unknown principal', `  - { name: a, principal: nobody, sha256: ${sha256} }\n`, 'line 2, column 16: tokens[0].principal must name one of the principals: local.'],
    ['a name twice', line('a') + line('a').replace(tokenHash('a'), sha256), 'line 3, column 7: tokens[1].name is already that of another token'],
    ['a hash twice', line('a') + line('b').replace(tokenHash('b'), tokenHash('a')), 'tokens[1].sha256 is already that of another token'],
    ['a token in place of its hash', `  - { name: a, principal: local, sha256: ahk_${'A'.repeat(43)} }\n`, 'tokens[0].sha256 must be the SHA-256'],
    ['an address with a password', line('a', ', callbacks: ["http://u:hunter2@box/"]'), 'tokens[0].callbacks[0] must be a whole'],
    ['an address with a query', line('a', ', callbacks: ["http://box/?a=1"]'), 'tokens[0].callbacks[0] must be a whole'],
    ['an address of a file', line('a', ', callbacks: ["file:///etc"]'), 'tokens[0].callbacks[0] must be a whole'],
    ['no scope at all', line('a', ', scopes: []'), 'tokens[0].scopes must name at least one scope'],
    ['an unknown scope', line('a', ', scopes: [all]'), 'tokens[0].scopes[0] must be one of turns:write'],
    ['a date that is none', line('a', ', expires: soon'), 'tokens[0].expires must be a date like 2027-01-31'],
    ['a day that is none', line('a', ', expires: 2027-02-30'), 'tokens[0].expires must be a date'],
    ['another setting', line('a', ', admin: true'), 'tokens[0].admin is not a setting. Known here: name, principal, sha256, scopes, callbacks, expires.'],
  ])('[tokens.strict] %s is refused with its line', (_what, lines, says) => {
    const { code, message } = refusal(() => load(`tokens:\n${lines}`))
    expect([code, message]).toEqual(['bad_config', expect.stringContaining(says)])
    expect(message).toMatch(/^harness\.yaml line [23], column \d+: /)
    expect(message).not.toMatch(/hunter2|ahk_/)
  })

  it('changes the fingerprint, and stands in the published schema', () => {
    expect(load(`tokens:\n${line('a')}`).fingerprint).not.toBe(load('').fingerprint)
    expect(validateArguments(configJsonSchema(), { tokens: [{ name: 'a', principal: 'local', sha256, callbacks: ['http://box/'] }] })).toEqual({ ok: true })
    expect(validateArguments(configJsonSchema(), { tokens: [{ name: 'a' }] }).ok).toBe(false)
  })
})

describe('an edit', () => {
  const entry = (name: string, more: object = {}) => ({ name, principal: n8nPrincipal, sha256: tokenHash(name), ...more })

  it('[tokens.edit-keeps] puts a token into the generated file, makes its principal, keeps every comment, and takes it out again', () => {
    const before = defaultConfigText({ deployment, sample: true })
    const added = addTokenToConfig(before, entry('n8n', { callbacks: [...n8nCallbacks], expires: '2027-01-31' }))
    for (const kept of before.split('\n').filter((text) => text.startsWith('#'))) expect(added.split('\n')).toContain(kept)
    const [was, is] = [load(before), load(added)]
    expect(is.tokens).toEqual([{ name: 'n8n', principal: 'n8n', sha256: tokenHash('n8n'), scopes: null, callbacks: n8nCallbacks, expires_at: Date.UTC(2027, 0, 31) }])
    expect(is.grants.get('local')).toEqual(was.grants.get('local'))
    expect(is.grants.get('n8n')?.principal).toEqual({ id: 'n8n', type: 'user', name: 'n8n', roles: [], scopes: n8nScopes, active: true })
    expect([...is.grants.keys()]).toEqual(['local', 'n8n'])
    const second = addTokenToConfig(added, entry('second'))
    expect(load(second).tokens.map(({ name }) => name)).toEqual(['n8n', 'second'])
    const removed = removeTokenFromConfig(second, 'n8n')
    expect(load(removed).tokens.map(({ name }) => name)).toEqual(['second'])
    expect(load(removeTokenFromConfig(removed, 'second')).tokens).toEqual([])
    expect(removeTokenFromConfig(second, 'second')).toBe(added)
  })

  it.each(['', 'tokens:\n', 'tokens: []\n', 'principals:\n', '{profile: server}\n', 'principals: { local: { roles: [owner] } }\n', '# only this\n'])('[tokens.edit-keeps] fits into %j', (before) => {
    const after = load(addTokenToConfig(before, entry('n8n')))
    expect(after.tokens).toHaveLength(1)
    expect(after.grants.get('local')).toEqual(load(before).grants.get('local'))
  })

  it('[tokens.strict] is refused where the file, or the principal, does not allow it', () => {
    const one = addTokenToConfig('', entry('n8n'))
    expect(refusal(() => addTokenToConfig(one, entry('n8n')))).toMatchObject({ code: 'conflict', message: expect.stringContaining('already has a token n8n') })
    expect(refusal(() => addTokenToConfig(one, { ...entry('other'), sha256: tokenHash('n8n') }))).toMatchObject({ code: 'bad_config' })
    expect(refusal(() => addTokenToConfig('', entry('../x')))).toMatchObject({ code: 'invalid_input', message: expect.stringContaining('cannot be added: name') })
    expect(refusal(() => addTokenToConfig('', { ...entry('x'), principal: 'ann' }))).toMatchObject({ code: 'invalid_input', message: expect.stringContaining('no principal ann') })
    expect(refusal(() => addTokenToConfig('', entry('x', { scopes: ['admin'] })))).toMatchObject({ code: 'invalid_input', message: expect.stringContaining('n8n does not have admin') })
    expect(refusal(() => addTokenToConfig('', entry('x', { callbacks: ['ftp://box'] })))).toMatchObject({ code: 'invalid_input', message: expect.stringContaining('callbacks.0 must be a whole') })
    expect(refusal(() => removeTokenFromConfig(one, 'other'))).toMatchObject({ code: 'not_found', message: expect.stringContaining('It has: n8n.') })
    expect(refusal(() => addTokenToConfig('a: [', entry('x')))).toMatchObject({ code: 'bad_config' })
  })
})

it('[http.decisions-by-scope] n8n gets what its nodes need, not admin; what decides is no tool of a model', () => {
  expect([...n8nScopes].sort()).toEqual(scopes.filter((scope) => scope !== 'admin').sort())
  for (const { scope, mcp } of Object.values(operations)) if (scope === 'approvals:decide') expect(mcp).toBeNull()
})
