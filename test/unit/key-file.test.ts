import { createPublicKey, sign, verify } from 'node:crypto'
import { makeApproverKey, openApproverKey, publicKeyOfFile } from '../../core/approvals/key-file'

const passphrase = 'correct horse battery'
let made: { publicKey: string; file: string }
beforeAll(async () => {
  made = await makeApproverKey(passphrase)
})

type AnyFile = Record<string, any>
const altered = (change: (file: AnyFile) => void): string => {
  const file = JSON.parse(made.file) as AnyFile
  change(file)
  return JSON.stringify(file)
}

it('a key opened with its passphrase signs what its public key verifies', async () => {
  const key = await openApproverKey(made.file, passphrase)
  const publicKey = createPublicKey({ key: Buffer.from(made.publicKey, 'base64'), format: 'der', type: 'spki' })
  expect(publicKey.asymmetricKeyType).toBe('ed25519')
  expect(verify(null, Buffer.from('x'), publicKey, sign(null, Buffer.from('x'), key))).toBe(true)
  expect(publicKeyOfFile(made.file)).toBe(made.publicKey)
})

it('[bad.wrong-passphrase] another passphrase opens nothing', async () => {
  await expect(openApproverKey(made.file, 'correct horse batterY')).rejects.toMatchObject({ code: 'wrong_passphrase' })
  await expect(openApproverKey(made.file, '')).rejects.toMatchObject({ code: 'wrong_passphrase' })
})

it('two spellings of the same characters are the same passphrase', async () => {
  const { file } = await makeApproverKey('Zürich ﬁve elf')
  expect((await openApproverKey(file, 'Zu\u0308rich five elf')).type).toBe('private')
})

it('a passphrase of fewer than 12 characters is refused', async () => {
  await expect(makeApproverKey('elevenchars')).rejects.toMatchObject({ code: 'invalid_input' })
  await expect(makeApproverKey('😀'.repeat(11))).rejects.toMatchObject({ code: 'invalid_input' })
})

it('the file holds neither passphrase nor key in the clear, and two of them share nothing', async () => {
  const other = await makeApproverKey(passphrase)
  const key = (await openApproverKey(made.file, passphrase)).export({ format: 'der', type: 'pkcs8' })
  for (const form of [passphrase, key.toString('base64'), key.subarray(-32).toString('base64')]) expect(made.file).not.toContain(form)
  const secretParts = (file: string): string[] => file.match(/[A-Za-z0-9+/]{16,}=*/g) ?? []
  expect(secretParts(made.file).filter((part) => other.file.includes(part))).toEqual([])
})

it('any altered part of the file keeps it shut', async () => {
  const other = JSON.parse((await makeApproverKey(passphrase)).file) as AnyFile
  const changes: ((file: AnyFile) => void)[] = [
    (file) => { file['public_key'] = other['public_key'] },
    (file) => { file['ciphertext'] = other['ciphertext'] },
    (file) => { file['tag'] = other['tag'] },
    (file) => { file['kdf'] = { ...file['kdf'], salt: (other['kdf'] as AnyFile)['salt'] } },
    (file) => { file['kdf'] = { ...file['kdf'], n: 2 ** 16 } },
    (file) => { file['kdf'] = { ...file['kdf'], p: 2 } },
    (file) => { file['cipher'] = other['cipher'] },
  ]
  for (const change of changes) await expect(openApproverKey(altered(change), passphrase)).rejects.toMatchObject({ code: 'wrong_passphrase' })
})

it.each<readonly [string, (file: AnyFile) => void]>([
  ['weak parameters', (file) => { file['kdf'] = { ...file['kdf'], n: 2 ** 14 } }],
  ['parameters that would use up the memory', (file) => { file['kdf'] = { ...file['kdf'], n: 2 ** 24 } }],
  ['a parameter that is no power of two', (file) => { file['kdf'] = { ...file['kdf'], n: 2 ** 17 + 1 } }],
  ['a parameter that is no number', (file) => { file['kdf'] = { ...file['kdf'], r: '8' } }],
  ['another cipher', (file) => { file['cipher'] = { ...file['cipher'], name: 'none' } }],
  ['a short tag', (file) => { file['tag'] = 'AAAA' }],
  ['a newer version', (file) => { file['version'] = 2 }],
  ['another kind', (file) => { file['kind'] = 'x' }],
  ['no contents', (file) => { delete file['ciphertext'] }],
])('a file with %s is refused before the passphrase is used', async (_title, change) => {
  await expect(openApproverKey(altered(change), passphrase)).rejects.toMatchObject({ code: 'bad_config' })
  expect(() => publicKeyOfFile(altered(change))).toThrow('not usable')
})

it.each(['', '{', 'null', '[]', '{"kind":"agent-harness approver key","version":1}'])('%j is no key file', async (file) => {
  await expect(openApproverKey(file, passphrase)).rejects.toMatchObject({ code: 'bad_config' })
})
