/*
 * The home: one folder with the database, the configuration and the keys that are kept outside the database. Made at first use, whole or
 * not at all. A key that is lost is never replaced in silence: what was sealed or signed under it would count as forged.
 */
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, hkdfSync, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { appendLine, readLines } from './checkpoint-file'
import { approverName } from './config-schema'
import { defaultConfigText, namesChannels } from './config-text'
import { HarnessError } from './errors'
import { checkTrusted, ensureFolder, makeOnce, readPrivate, replaceFile, sizeOf } from './home-files'

export interface Home {
  readonly folder: string
  readonly configPath: string
  readonly databasePath: string
  readonly checkpointsPath: string
  readonly sentLogPath: string
  /** The seal of what each workflow function was last registered as, outside the database. */
  readonly registeredPath: string
  /** Deployment id made from the checkpoint key; in the generated harness.yaml, and in force where the file names none. */
  readonly defaultDeployment: string
  /** 32 bytes, for the seals on rows. */
  readonly sealKey: Buffer
  /** 32 bytes, for signing function calls. Does not tell the seal key. */
  readonly callSigningKey: Buffer
  /** Ed25519, PKCS8 PEM. */
  readonly checkpointPrivateKey: string
  /** SPKI PEM. */
  readonly checkpointPublicKey: string
  /** Ed25519, PKCS8 PEM: what the approval page signs with where it may take a name. */
  readonly pagePrivateKey: string
  /** SPKI DER in base64, as it stands in harness.yaml under `channels`. */
  readonly pagePublicKey: string
  /** Throws `invalid_input` unless the name is one of `[a-z0-9._-]{1,64}`. */
  approverKeyPath(name: string): string
  /** The key file's text, null when there is none. Throws `bad_config` when others may read it. */
  readApproverKey(name: string): Promise<string | null>
  /** Throws `conflict` when the approver has one: a key is never overwritten. */
  writeApproverKey(name: string, file: string): Promise<void>
  /** The text of harness.yaml as it is now. Throws `bad_config` when others may write it. */
  readConfig(): Promise<string>
  /** Replaces harness.yaml in one step. Throws `conflict` when its text is no longer `before`. */
  replaceConfig(before: string, after: string): Promise<void>
  /** Contract: on disk when it resolves. */
  appendCheckpointLine(line: string): Promise<void>
  /** Whole lines in order; passes over a line torn by a crash. */
  readCheckpointLines(): AsyncIterable<string>
}

/** What verifying needs. Opening makes nothing and reads no private key. */
export interface ReadOnlyHome {
  readonly folder: string
  readonly databasePath: string
  readonly checkpointsPath: string
  /** SPKI PEM, null when it is missing. */
  readonly checkpointPublicKey: string | null
  readCheckpointLines(): AsyncIterable<string>
  /** Names of the files that are not there. */
  readonly missing: readonly ('checkpoint.pub' | 'checkpoints.jsonl')[]
}

export interface HomeOptions {
  /** `--database FILE`: the home is then the file's folder, whatever folder is given. */
  readonly databasePath?: string
  /** A new harness.yaml shows the example function live. */
  readonly sample?: boolean
  /** A new harness.yaml lets the approval page take a name: for a home inside n8n, where nobody types a command. */
  readonly embedded?: boolean
}

/** The home's absolute path: `--home`, else `$AGENT_HARNESS_HOME`, else `~/.agent-harness`. Throws `invalid_input` if `--home` is empty. */
export function homeFolder(given: string | undefined, env: Readonly<Record<string, string | undefined>>): string {
  if (given === '') throw new HarnessError('invalid_input', '--home is empty. Name a folder, or leave it out.')
  const chosen = given ?? (env['AGENT_HARNESS_HOME'] || join('~', '.agent-harness'))
  return resolve(chosen === '~' || /^~[/\\]/.test(chosen) ? join(homedir(), chosen.slice(1)) : chosen)
}

type Paths = Pick<Home, 'folder' | 'databasePath' | 'configPath' | 'checkpointsPath' | 'sentLogPath' | 'registeredPath'>

function pathsOf(folder: string, options: HomeOptions): Paths & Record<'keys' | 'publicKeyPath' | 'approvers', string> {
  const root = options.databasePath === undefined ? resolve(folder) : dirname(resolve(options.databasePath))
  return {
    folder: root,
    databasePath: options.databasePath === undefined ? join(root, 'harness.db') : resolve(options.databasePath),
    configPath: join(root, 'harness.yaml'),
    checkpointsPath: join(root, 'checkpoints.jsonl'),
    sentLogPath: join(root, 'sent.log'),
    registeredPath: join(root, 'registered.jsonl'),
    publicKeyPath: join(root, 'checkpoint.pub'),
    keys: join(root, 'keys'),
    approvers: join(root, 'approvers'),
  }
}

/**
 * Opens the home, making what is not there yet; of processes that do so at once all get the same keys. Throws `bad_config` with the
 * command to run when others may write the folder or a file, or read a key, and when a key is missing or does not belong to the rest.
 */
export async function openHome(folder: string, options: HomeOptions = {}): Promise<Home> {
  const { keys, approvers, publicKeyPath, ...paths } = pathsOf(folder, options)
  for (const place of [paths.folder, keys, approvers]) await ensureFolder(place)
  for (const file of [paths.checkpointsPath, paths.sentLogPath, paths.registeredPath]) await checkTrusted(file)

  // the evidence is read before the keys: who makes keys makes them first, so a race never looks like a loss
  const hasData = (await sizeOf(paths.databasePath)) > 0
  const hasSigned = (await sizeOf(publicKeyPath)) > 0 || (await sizeOf(paths.checkpointsPath)) > 0
  const hasChannel = namesChannels((await readPrivate(paths.configPath, 'trusted')) ?? '')
  const master = await readOrMake(join(keys, 'seal.key'), hasData, () => `${randomBytes(32).toString('hex')}\n`, paths.folder)
  if (!/^[0-9a-f]{64}\n?$/.test(master)) throw broken(join('keys', 'seal.key'), paths.folder)
  const checkpointPrivateKey = await readOrMake(join(keys, 'checkpoint.key'), hasData || hasSigned, newSigningKey, paths.folder)
  const checkpointPublicKey = publicKeyOf(checkpointPrivateKey, 'checkpoint.key', paths.folder)
  await makeOnce(publicKeyPath, checkpointPublicKey)
  if ((await readPrivate(publicKeyPath, 'trusted')) !== checkpointPublicKey) {
    throw new HarnessError('bad_config', `checkpoint.pub is not of keys/checkpoint.key in ${paths.folder}. Restore both from the same backup.`)
  }
  // nothing stored hangs on this one but the configuration that names it: an older home gets one
  const pagePrivateKey = await readOrMake(join(keys, 'page.key'), hasChannel, newSigningKey, paths.folder)
  const pagePublicKey = derOf(publicKeyOf(pagePrivateKey, 'page.key', paths.folder))
  const defaultDeployment = `d_${createHash('sha256').update(`deployment\0${checkpointPublicKey}`).digest('hex').slice(0, 32)}`
  await makeOnce(paths.configPath, defaultConfigText({
    deployment: defaultDeployment, sample: options.sample ?? false, page: { publicKey: pagePublicKey, live: options.embedded ?? false },
  }))
  await checkTrusted(paths.configPath)
  if (hasData && !existsSync(paths.sentLogPath)) {
    throw new HarnessError('bad_config', `sent.log is missing in ${paths.folder}, beside a database. Without it a write could be sent twice. Restore it, or make it empty if you know that no write was ever sent.`)
  }
  await makeOnce(paths.sentLogPath, '')
  // an empty file is a new database, and its mode is what the files beside it get
  await makeOnce(paths.databasePath, '')

  const subkey = (use: string): Buffer => Buffer.from(hkdfSync('sha256', Buffer.from(master.trim(), 'hex'), '', `agent-harness ${use}`, 32))
  const readConfig = async (): Promise<string> => {
    const text = await readPrivate(paths.configPath, 'trusted')
    if (text === null) throw new HarnessError('bad_config', `harness.yaml is missing in ${paths.folder}. Restore it, or start again for a new one.`)
    return text
  }
  const approverKeyPath = (name: string): string => {
    if (!approverName.safeParse(name).success) {
      throw new HarnessError('invalid_input', 'The name of an approver is of a-z, 0-9, dot, _ and -, at most 64 characters.')
    }
    return join(approvers, `${name}.key`)
  }
  return {
    ...paths,
    defaultDeployment,
    sealKey: subkey('seal'),
    callSigningKey: subkey('call signing'),
    checkpointPrivateKey,
    checkpointPublicKey,
    pagePrivateKey,
    pagePublicKey,
    approverKeyPath,
    readApproverKey: async (name) => readPrivate(approverKeyPath(name), 'secret'),
    async writeApproverKey(name, file) {
      if (await makeOnce(approverKeyPath(name), file)) return
      throw new HarnessError('conflict', `Approver ${name} already has a key here. Choose another name.`)
    },
    readConfig,
    async replaceConfig(before, after) {
      if ((await readConfig()) !== before) throw new HarnessError('conflict', 'harness.yaml was changed meanwhile; nothing was written. Try again.')
      await replaceFile(paths.configPath, after)
    },
    appendCheckpointLine: (line) => appendLine(paths.checkpointsPath, line),
    readCheckpointLines: () => readLines(paths.checkpointsPath),
  }
}

/** For verifying, also a copy of a home without its private keys. Throws `bad_config` when checkpoint.pub is no public key. */
export async function openHomeReadOnly(folder: string, options: Pick<HomeOptions, 'databasePath'> = {}): Promise<ReadOnlyHome> {
  const { publicKeyPath, checkpointsPath, databasePath, folder: root } = pathsOf(folder, options)
  const checkpointPublicKey = await readPrivate(publicKeyPath, 'trusted')
  if (checkpointPublicKey !== null) checkPublicKey(checkpointPublicKey, root)
  const missing: ReadOnlyHome['missing'][number][] = []
  if (checkpointPublicKey === null) missing.push('checkpoint.pub')
  if ((await sizeOf(checkpointsPath)) === 0) missing.push('checkpoints.jsonl')
  return { folder: root, databasePath, checkpointsPath, checkpointPublicKey, missing, readCheckpointLines: () => readLines(checkpointsPath) }
}

/** The key in force: of several makers the first one's. */
async function readOrMake(path: string, mustExist: boolean, make: () => string, folder: string): Promise<string> {
  const found = await readPrivate(path, 'secret')
  if (found !== null) return found
  if (mustExist) {
    throw new HarnessError(
      'bad_config',
      `${path} is missing, but what stands in ${folder} was made under it: with a new key it would count as forged. ` +
        (path.endsWith('page.key')
          ? 'Restore the key from a backup, or take channels out of harness.yaml.'
          : 'Restore the key from a backup, or move database, checkpoint.pub and checkpoints.jsonl away to begin anew.'),
    )
  }
  await makeOnce(path, make())
  const made = await readPrivate(path, 'secret')
  if (made === null) throw new HarnessError('bad_config', `${path} was removed while it was being made. Start again.`)
  return made
}

function newSigningKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
}

function publicKeyOf(privateKey: string, name: string, folder: string): string {
  try {
    const key = createPrivateKey(privateKey)
    if (key.asymmetricKeyType === 'ed25519') return createPublicKey(key).export({ format: 'pem', type: 'spki' }).toString()
  } catch {
    // told below: what a key parser says could repeat the key
  }
  throw broken(join('keys', name), folder)
}

function derOf(publicKey: string): string {
  return createPublicKey(publicKey).export({ format: 'der', type: 'spki' }).toString('base64')
}

function checkPublicKey(text: string, folder: string): void {
  try {
    if (createPublicKey(text).asymmetricKeyType === 'ed25519') return
  } catch {
    // told below
  }
  throw broken('checkpoint.pub', folder)
}

function broken(name: string, folder: string): HarnessError {
  return new HarnessError('bad_config', `${name} in ${folder} is not a whole key. Restore it from a backup.`)
}
