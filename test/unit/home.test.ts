import { createPrivateKey, createPublicKey } from 'node:crypto'
import { appendFileSync, chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { statSync, symlinkSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadAuthority } from '../../core/config'
import { homeFolder, openHome, openHomeReadOnly, type Home } from '../../core/home'

const temporary: string[] = []
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'home-test-'))
  temporary.push(folder)
  return join(folder, 'home')
}
afterAll(() => {
  for (const folder of temporary) rmSync(folder, { recursive: true, force: true })
})

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8)
const linesOf = async (home: Pick<Home, 'readCheckpointLines'>): Promise<string[]> => {
  const lines: string[] = []
  for await (const line of home.readCheckpointLines()) lines.push(line)
  return lines
}
const keysOf = ({ sealKey, callSigningKey, checkpointPrivateKey, checkpointPublicKey, defaultDeployment }: Home): unknown => ({
  sealKey: sealKey.toString('hex'), callSigningKey: callSigningKey.toString('hex'), checkpointPrivateKey, checkpointPublicKey, defaultDeployment,
})

describe('where the home is', () => {
  it('[home.precedence] --home counts before AGENT_HARNESS_HOME, and that before the default', () => {
    const env = { AGENT_HARNESS_HOME: '/from/env' }
    expect(homeFolder('/given', env)).toBe('/given')
    expect(homeFolder(undefined, env)).toBe('/from/env')
    expect(homeFolder(undefined, { AGENT_HARNESS_HOME: '' })).toBe(join(homedir(), '.agent-harness'))
    expect(homeFolder(undefined, {})).toBe(join(homedir(), '.agent-harness'))
    expect(homeFolder('~/x', {})).toBe(join(homedir(), 'x'))
    expect(() => homeFolder('', env)).toThrow('--home is empty')
  })

  it('a database elsewhere takes its home with it', async () => {
    const folder = newFolder()
    const home = await openHome('/not/used', { databasePath: join(folder, 'other.db') })
    expect(home).toMatchObject({ folder, databasePath: join(folder, 'other.db'), configPath: join(folder, 'harness.yaml') })
  })
})

describe('first use', () => {
  it('[home.nothing-typed] makes a home that a second opening finds unchanged', async () => {
    const folder = newFolder()
    const first = await openHome(folder)
    const text = await first.readConfig()
    const second = await openHome(folder)
    expect(keysOf(second)).toEqual(keysOf(first))
    expect(await second.readConfig()).toBe(text)
    expect(loadAuthority({ configText: text, env: {}, deployment: 'd_unused' }).deployment).toBe(first.defaultDeployment)
    expect(readdirSync(folder).sort()).toEqual(['approvers', 'checkpoint.pub', 'harness.db', 'harness.yaml', 'keys', 'sent.log'])
  })

  it('a sent.log that is missing beside a database is refused, not made anew', async () => {
    const folder = newFolder()
    const home = await openHome(folder)
    writeFileSync(home.databasePath, 'data')
    rmSync(home.sentLogPath)
    await expect(openHome(folder)).rejects.toMatchObject({ code: 'bad_config', message: expect.stringContaining('sent.log is missing') as string })
  })

  it('[home.private] folders and files are for their owner alone', async () => {
    const home = await openHome(newFolder())
    await home.writeApproverKey('anna', '{}')
    await home.appendCheckpointLine('{}')
    expect([home.folder, join(home.folder, 'keys'), join(home.folder, 'approvers')].map(modeOf)).toEqual(['700', '700', '700'])
    const files = ['keys/seal.key', 'keys/checkpoint.key', 'checkpoint.pub', 'harness.yaml', 'harness.db', 'checkpoints.jsonl', 'approvers/anna.key']
    for (const file of files) expect([file, modeOf(join(home.folder, file))]).toEqual([file, '600'])
  })

  it('[page.key] the key of the page is private, stands in harness.yaml, and is in force there only in a home inside n8n', async () => {
    const [plain, embedded] = [await openHome(newFolder()), await openHome(newFolder(), { embedded: true })]
    for (const home of [plain, embedded]) {
      expect(modeOf(join(home.folder, 'keys', 'page.key'))).toBe('600')
      expect(await home.readConfig()).toContain(home.pagePublicKey)
      expect((await openHome(home.folder)).pagePublicKey).toBe(home.pagePublicKey)
    }
    const channelsOf = async (home: Home): Promise<unknown> => loadAuthority({ configText: await home.readConfig(), env: {}, deployment: 'd' }).channels
    expect(await channelsOf(plain)).toEqual([])
    expect(await channelsOf(embedded)).toEqual([{ name: 'page', public_key: embedded.pagePublicKey, roles: ['approver'], active: true }])
    const text = await plain.readConfig()
    const turnedOn = text.replace('#channels:', 'channels:').replace('#  page:', '  page:')
    expect(loadAuthority({ configText: turnedOn, env: {}, deployment: 'd' }).channels).toMatchObject([{ public_key: plain.pagePublicKey }])
  })

  it('[page.key] lost, it is made anew only while no configuration names it', async () => {
    const [plain, embedded] = [await openHome(newFolder()), await openHome(newFolder(), { embedded: true })]
    for (const { folder } of [plain, embedded]) rmSync(join(folder, 'keys', 'page.key'))
    expect((await openHome(plain.folder)).pagePublicKey).not.toBe(plain.pagePublicKey)
    await expect(openHome(embedded.folder)).rejects.toMatchObject({ code: 'bad_config', message: expect.stringContaining('page.key is missing') as string })
  })

  it('processes that start at once end with one set of keys', async () => {
    for (let round = 0; round < 5; round++) {
      const folder = newFolder()
      const homes = await Promise.all(Array.from({ length: 16 }, () => openHome(folder)))
      const again = await openHome(folder)
      for (const home of homes) expect(keysOf(home)).toEqual(keysOf(again))
      expect(readdirSync(folder, { recursive: true }).filter((name) => String(name).includes('draft'))).toEqual([])
    }
  })

  it('a crash at any point leaves a home that the next start completes', async () => {
    const folder = newFolder()
    const whole = await openHome(folder)
    for (const lost of ['harness.db', 'harness.yaml', 'checkpoint.pub']) {
      rmSync(join(folder, lost))
      writeFileSync(join(folder, `.${lost}.0011223344556677.draft`), 'half')
      expect(keysOf(await openHome(folder))).toEqual(keysOf(whole))
    }
    const bare = newFolder()
    mkdirSync(join(bare, 'keys'), { recursive: true, mode: 0o700 })
    chmodSync(bare, 0o700)
    writeFileSync(join(bare, 'keys', 'seal.key'), readFileSync(join(folder, 'keys', 'seal.key')), { mode: 0o600 })
    expect((await openHome(bare)).sealKey).toEqual(whole.sealKey)
  })

  it('the seal key and the key for signing calls do not tell each other, and the checkpoint keys are a pair', async () => {
    const home = await openHome(newFolder())
    expect(home.sealKey).toHaveLength(32)
    expect(home.callSigningKey).toHaveLength(32)
    expect(home.sealKey.equals(home.callSigningKey)).toBe(false)
    expect(readFileSync(join(home.folder, 'keys', 'seal.key'), 'utf8')).not.toContain(home.sealKey.toString('hex'))
    const key = createPrivateKey(home.checkpointPrivateKey)
    expect(key.asymmetricKeyType).toBe('ed25519')
    expect(createPublicKey(key).export({ format: 'pem', type: 'spki' })).toBe(home.checkpointPublicKey)
    expect(readFileSync(join(home.folder, 'checkpoint.pub'), 'utf8')).toBe(home.checkpointPublicKey)
  })
})

describe('what is refused', () => {
  const openAfter = async (change: (folder: string) => void): Promise<string> => {
    const folder = newFolder()
    await openHome(folder)
    change(folder)
    const error: unknown = await openHome(folder).then(() => null, (thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'bad_config' })
    return (error as Error).message.replaceAll(folder, '~home')
  }

  it.each([
    ['a folder that others may write', '', 0o770, "chmod 700 '~home'"],
    ['a folder of keys that others may write', 'keys', 0o720, "chmod 700 '~home/keys'"],
    ['a key that others may write', 'keys/seal.key', 0o602, "chmod 600 '~home/keys/seal.key'"],
    ['a key that the group may read', 'keys/seal.key', 0o640, "chmod 600 '~home/keys/seal.key'"],
    ['a checkpoint key that others may read', 'keys/checkpoint.key', 0o604, "chmod 600 '~home/keys/checkpoint.key'"],
    ['a configuration that others may write', 'harness.yaml', 0o666, "chmod 600 '~home/harness.yaml'"],
    ['a public key that others may write', 'checkpoint.pub', 0o622, "chmod 600 '~home/checkpoint.pub'"],
  ])('[home.private] %s, with the command to run', async (_title, file, mode, command) => {
    expect(await openAfter((folder) => { chmodSync(join(folder, file), mode) })).toContain(command)
  })

  it('a configuration that became writable by others is not read again', async () => {
    const home = await openHome(newFolder())
    chmodSync(home.configPath, 0o646)
    await expect(home.readConfig()).rejects.toThrow('may be written by others')
  })

  it('a lost key is never replaced where something was made under it', async () => {
    const lose = (file: string, data: string) => (folder: string): void => {
      if (data !== '') writeFileSync(join(folder, data), 'x', { mode: 0o600 })
      rmSync(join(folder, file))
    }
    expect(await openAfter(lose('keys/seal.key', 'harness.db'))).toContain('~home/keys/seal.key is missing')
    expect(await openAfter(lose('keys/checkpoint.key', ''))).toContain('~home/keys/checkpoint.key is missing')
  })

  it.each([
    ['keys/seal.key', 'abc'], ['keys/seal.key', ''], ['keys/checkpoint.key', 'abc'], ['checkpoint.pub', 'abc'],
  ])('%s with other contents', async (file, text) => {
    const message = await openAfter((folder) => { writeFileSync(join(folder, file), text) })
    expect(message).toContain(file)
    expect(message).toContain('Restore')
  })

  it('a home where a file stands', async () => {
    const folder = newFolder()
    writeFileSync(folder, '')
    await expect(openHome(folder)).rejects.toMatchObject({ code: 'bad_config' })
  })

  it('names of approvers that would leave the folder', async () => {
    const home = await openHome(newFolder())
    for (const name of ['../x', 'a/b', '', 'A', 'x'.repeat(65)]) expect(() => home.approverKeyPath(name)).toThrow('name of an approver')
    await expect(home.readApproverKey('../keys/seal')).rejects.toMatchObject({ code: 'invalid_input' })
  })
})

describe('files of approvers and configuration', () => {
  it('an approver key is never overwritten, and null when there is none', async () => {
    const home = await openHome(newFolder())
    expect(await home.readApproverKey('anna')).toBeNull()
    await home.writeApproverKey('anna', 'one')
    await expect(home.writeApproverKey('anna', 'two')).rejects.toMatchObject({ code: 'conflict' })
    expect(await home.readApproverKey('anna')).toBe('one')
  })

  it('the configuration is replaced in one step, and only as it was read', async () => {
    const home = await openHome(newFolder())
    const before = await home.readConfig()
    await home.replaceConfig(before, 'profile: server\n')
    expect(await home.readConfig()).toBe('profile: server\n')
    expect(modeOf(home.configPath)).toBe('600')
    await expect(home.replaceConfig(before, 'x')).rejects.toMatchObject({ code: 'conflict' })
    expect(await home.readConfig()).toBe('profile: server\n')
  })
})

describe('the file of checkpoints', () => {
  it('[audit.checkpoint-in-file] holds appended lines in order, also from several processes at once', async () => {
    const home = await openHome(newFolder())
    const lines = Array.from({ length: 40 }, (_, number) => JSON.stringify({ number, pad: 'x'.repeat(5000) }))
    for (const line of lines.slice(0, 20)) await home.appendCheckpointLine(line)
    expect(await linesOf(home)).toEqual(lines.slice(0, 20))
    const other = await openHome(home.folder)
    await Promise.all(lines.slice(20).map((line, index) => (index % 2 === 0 ? home : other).appendCheckpointLine(line)))
    expect((await linesOf(home)).sort()).toEqual([...lines].sort())
  })

  it('a line torn by a crash is passed over, and never runs together with the next', async () => {
    const home = await openHome(newFolder())
    await home.appendCheckpointLine('{"number":1}')
    appendFileSync(home.checkpointsPath, '{"number":2,"hea')
    expect(await linesOf(home)).toEqual(['{"number":1}'])
    await home.appendCheckpointLine('{"number":2}')
    expect(await linesOf(home)).toEqual(['{"number":1}', '{"number":2}'])
  })
})

describe('opening for verification', () => {
  it('needs no private key, makes nothing and says what is missing', async () => {
    const home = await openHome(newFolder())
    rmSync(join(home.folder, 'keys'), { recursive: true })
    expect(await openHomeReadOnly(home.folder)).toMatchObject({ checkpointPublicKey: home.checkpointPublicKey, missing: ['checkpoints.jsonl'] })
    await home.appendCheckpointLine('{"number":1}')
    const readOnly = await openHomeReadOnly('/not/used', { databasePath: join(home.folder, 'copy.db') })
    expect(readOnly).toMatchObject({ databasePath: join(home.folder, 'copy.db'), missing: [] })
    expect(await linesOf(readOnly)).toEqual(['{"number":1}'])
    const nowhere = newFolder()
    expect(await openHomeReadOnly(nowhere)).toMatchObject({ checkpointPublicKey: null, missing: ['checkpoint.pub', 'checkpoints.jsonl'] })
    expect(existsSync(nowhere)).toBe(false)
  })

  it('follows links, as mounted secrets are', async () => {
    const home = await openHome(newFolder())
    const elsewhere = newFolder()
    symlinkSync(home.folder, elsewhere)
    expect(keysOf(await openHome(elsewhere))).toEqual(keysOf(home))
  })
})
