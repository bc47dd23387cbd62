/* Secrets are masked wherever they stand in a text, nothing else is, and no text makes it slow. */
import fc from 'fast-check'
import { mask, maskSecrets } from '../../core/audit/redact'

describe('known secrets', () => {
  it.each<[string, string, readonly string[], string]>([
    ['once', 'key=hunter22!', ['hunter22'], 'key=[masked]!'],
    ['each time', 'hunter22 hunter22', ['hunter22'], '[masked] [masked]'],
    ['several', 'a hunter22 b swordfish', ['hunter22', 'swordfish'], 'a [masked] b [masked]'],
    ['one within another', 'xx-swordfish-xx', ['swordfish', 'xx-swordfish-xx'], '[masked]'],
    ['overlapping', 'abcdefghi', ['abcdef', 'defghi'], '[masked]'],
    ['side by side', 'secretsecret', ['secret'], '[masked]'],
    ['as JSON writes them', '{"key":"a\\"b\\\\c\\nd"}', ['a"b\\c\nd'], '{"key":"[masked]"}'],
    ['as URLs write them', 'https://x/?k=p%40ss%2Fword', ['p@ss/word'], 'https://x/?k=[masked]'],
    ['with half a character', 'a\ud800bcdef!', ['a\ud800bcdef'], '[masked]!'],
    ['with signs that patterns use', 'is $&.*+?^${}()|[] here', ['$&.*+?^${}()|[]'], 'is [masked] here'],
    ['too short to be one', 'abc12', ['abc12', ''], 'abc12'],
  ])('%s', (_what, text, secrets, masked) => {
    expect(maskSecrets(text, secrets)).toBe(masked)
  })

  it('[audit.texts-masked] no secret is left in any text', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 6, maxLength: 12 }), { minLength: 1, maxLength: 4 }), fc.array(fc.string()), (secrets, between) => {
        const text = between.flatMap((part, index) => [part, secrets[index % secrets.length]!]).join('')
        const masked = maskSecrets(text, secrets)
        // what a mask and its surroundings happen to spell was in no text
        fc.pre(secrets.every((secret) => !`${mask}${mask}`.includes(secret)))
        for (const part of masked.split(mask)) for (const secret of secrets) expect(part).not.toContain(secret)
      }),
    )
  })
})

describe('what looks like a secret', () => {
  const letters = 'Abcdefghij0123456789Klmnopqrst'
  const begin = (kind = ''): string => `-----BEGIN ${kind}PRIVATE KEY-----`
  const end = (kind = ''): string => `-----END ${kind}PRIVATE KEY-----`
  it.each<[string, string, string]>([
    ['a bearer token', `Bearer ${letters}==, next`, 'Bearer [masked], next'],
    ['a header', `authorization: Basic ${letters}`, 'authorization: Basic [masked]'],
    ['a header in JSON', `{"Authorization":"Bearer short1"}`, '{"Authorization":"Bearer [masked]"}'],
    ['a header in JSON in JSON', `{\\"authorization\\": \\"token ${letters}\\"}`, '{\\"authorization\\": \\"token [masked]\\"}'],
    ['an API key', `key sk-proj-${letters}.`, 'key [masked].'],
    ['a GitHub token', `ghp_${letters} gho_${letters} github_pat_11ABC_${letters}`, '[masked] [masked] [masked]'],
    ['a GitLab token', `glpat-${letters}`, '[masked]'],
    ['a Slack token', `xoxb-1234-5678-${letters}`, '[masked]'],
    ['an npm token', `//registry/:_authToken=npm_${letters}abcdef`, '//registry/:_authToken=[masked]'],
    ['a Google key', `AIza${letters}abcde`, '[masked]'],
    ['an AWS key id', 'AKIAABCDEFGHIJKLMNOP and ASIAABCDEFGHIJKLMNOP', '[masked] and [masked]'],
    ['a signed web token', 'token=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl;', 'token=[masked];'],
    ['a password in an address', 'postgres://ann:p@ss:w0rd@db:5432/x', 'postgres://ann:[masked]@db:5432/x'],
    ['a password without a user', 'redis://:p4ss@host', 'redis://:[masked]@host'],
    ['a private key', `a\n${begin()}\n${letters}\n${end()}\nb`, 'a\n[masked]\nb'],
    ['a private key in JSON', `{"key":"${begin('OPENSSH ')}\\n${letters}\\n${end('OPENSSH ')}\\n","b":1}`, '{"key":"[masked]\\n","b":1}'],
    ['a private key with headers', `${begin('RSA ')}\nProc-Type: 4,ENCRYPTED\n\n${letters}\n${end('RSA ')}`, '[masked]'],
    ['a private key cut off', `{"key":"${begin('EC ')}\\n${letters}","b":1}`, '{"key":"[masked]","b":1}'],
    ['two private keys', `${begin()}A${end()} b ${begin()}C${end()}`, '[masked] b [masked]'],
  ])('[audit.texts-masked] %s', (_what, text, masked) => {
    expect(maskSecrets(text, [])).toBe(masked)
    expect(maskSecrets(masked, [])).toBe(masked)
  })

  it.each([
    'Bearer tokens are explained here.', 'the task-management-of-a-whole-company', 'sk-learn', 'AKIA', 'https://example.org/a:b@c',
    'mailto:ann@example.org', 'https://example.org:8080/x', 'see http://a.example and ann@b.example', 'eyJust a word. And more.', '12:30:45 @ home',
    '', '-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----',
  ])('not %j', (text) => {
    expect(maskSecrets(text, [])).toBe(text)
  })
})

it('time is linear: five million characters of any hostile kind take seconds at most', () => {
  const length = 5_000_000
  const fill = (part: string): string => part.repeat(Math.ceil(length / part.length))
  const hostile = [
    'eyJ', '-eyJaaaaaaaa', 'eyJaaaaaaaa.', '.eyJaaaaaaaa.aaa', '-----BEGIN PRIVATE KEY-----', '-----BEGIN ', '-----', 'Bearer ', 'Bearer\t \t',
    'authorization: ', 'authorization:"\\\\"', '://', '://a:', 'a://b:c', '://:@', 'sk-', 'sk-aaaaaaaaaaaaaa ', 'ghp_', 'xoxb-', 'AKIA', 'AIza',
    'npm_', '@', ':', ' ', 'a', 'a.', 'aaaaab',
  ]
  for (const part of [...hostile, `://${'a'.repeat(1_000)}`, `://a:${'b'.repeat(5_000)}`]) {
    const text = fill(part)
    const started = process.cpuUsage()
    maskSecrets(text, ['aaaaaaaaaaaab', 'swordfish'])
    const { user } = process.cpuUsage(started)
    expect([part.slice(0, 20), user / 1_000 < 5_000]).toEqual([part.slice(0, 20), true])
  }
}, 240_000)
