/* init: writes a commented harness.yaml where there is none, and makes an approver's key under a passphrase. Never touches an existing key. */
import { generateKeyPairSync } from 'node:crypto'
import { userInfo } from 'node:os'
import { addApproverToConfig, configName, makeApproverKey, minPassphraseLength, publicKeyOfFile } from '../../core/index'
import type { CommandContext } from '../context'
import { editConfig } from '../edit-config'
import { exitCodes, type ExitCode } from '../exit-codes'
import { tilde } from '../invocation'
import { askNewPassphrase } from '../passphrase'
import { columns, print, tell } from '../screen'

export async function initCommand(context: CommandContext, { approver }: { readonly approver?: string }): Promise<ExitCode> {
  const name = approver ?? ownName()
  const home = await context.openHome()
  const existing = await home.readApproverKey(name)
  // all that can be refused is refused before anybody types a passphrase
  const publicKey = existing === null ? null : publicKeyOfFile(existing)
  addApproverToConfig(await home.readConfig(), entryOf(name, publicKey ?? anyPublicKey()))

  if (publicKey !== null) {
    tell(`Approver ${name} has a key here already, but no entry in ${configName}. Its entry is added; its passphrase stays as it is.`)
    await editConfig(home, (text) => addApproverToConfig(text, entryOf(name, publicKey)))
  } else {
    tell(
      `Making a key for approver ${name}. Its passphrase is needed for every decision and is kept nowhere. ` +
        `It has at least ${String(minPassphraseLength)} characters; several unrelated words are good.`,
    )
    const made = await makeApproverKey(await askNewPassphrase('Passphrase: '))
    await home.writeApproverKey(name, made.file)
    await editConfig(home, (text) => addApproverToConfig(text, entryOf(name, made.publicKey)))
  }
  print(
    `Approver ${name} can decide now.`,
    ...columns([
      ['Key', `${tilde(home.approverKeyPath(name))} (keep a copy; without it and its passphrase ${name} decides nothing)`],
      ['Configuration', `${tilde(home.configPath)} (${configName}: functions, policy, agents and approvers; every setting is explained there)`],
    ]),
    'Harness processes that run on this home pick it up by themselves.',
    '',
    'Next',
    ...columns([
      ['  See what waits', context.command('approvals list')],
      ['  Start a harness', context.command('serve')],
      ['  Try a held call', context.command('serve --sample')],
    ]),
  )
  return exitCodes.done
}

function entryOf(name: string, publicKey: string): Parameters<typeof addApproverToConfig>[1] {
  return { name, roles: ['approver'], public_key: publicKey, active: true }
}

function anyPublicKey(): string {
  return generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
}

/** The name of the user of this system, as far as it can be an approver's. */
function ownName(): string {
  const name = userInfo()
    .username.toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .slice(0, 64)
  return /^[a-z0-9._-]+$/.test(name) ? name : 'owner'
}
