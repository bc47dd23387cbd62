/*
 * tokens: who may ask over HTTP. A token is shown once, when it is made; harness.yaml keeps its hash. Processes that run on the home
 * take a change up at the next request.
 */
import { randomBytes } from 'node:crypto'
import {
  addTokenToConfig, configName, HarnessError, n8nCallbacks, n8nPrincipal, removeTokenFromConfig, scopes as allScopes, tokenHash, tokenOf, type Scope, type TokenEntry,
} from '../../core/index'
import type { CommandContext } from '../context'
import { editConfig } from '../edit-config'
import { exitCodes, type ExitCode } from '../exit-codes'
import { instant } from '../guidance'
import { usualPort } from '../http'
import { tilde } from '../invocation'
import { columns, print, tell } from '../screen'

export interface AddTokenOptions {
  readonly principal?: string
  readonly callback?: readonly string[]
  readonly scopes?: readonly string[]
  readonly expires?: string
}

export async function addTokenCommand(context: CommandContext, name: string, options: AddTokenOptions): Promise<ExitCode> {
  const home = await context.openHome()
  const token = tokenOf(randomBytes(32))
  const entry: TokenEntry = {
    name,
    principal: options.principal ?? n8nPrincipal,
    sha256: tokenHash(token),
    ...(options.scopes === undefined ? {} : { scopes: options.scopes.map(scopeOf) }),
    // n8n on this machine may be called back; any other program only where somebody said so
    callbacks: [...(options.callback ?? (options.principal === undefined ? n8nCallbacks : []))],
    ...(options.expires === undefined ? {} : { expires: options.expires }),
  }
  await editConfig(home, (text) => addTokenToConfig(text, entry))
  print(token)
  tell(
    '',
    `This is the token ${name}. It is shown this once and kept nowhere: put it where the program that uses it keeps its secrets.`,
    ...columns([
      ['Speaks for', entry.principal],
      ['Scopes', entry.scopes === undefined ? `all of ${entry.principal}` : entry.scopes.join(', ')],
      ['Called back at', entry.callbacks === undefined || entry.callbacks.length === 0 ? 'no address' : entry.callbacks.join('\n')],
      ['Expires', options.expires ?? 'never'],
      ['Used as', `Authorization: Bearer …, at the address that ${context.command('serve')} shows (usually http://127.0.0.1:${String(usualPort)})`],
      ['Removed by', context.command(`tokens remove ${name}`)],
      ['Kept as a hash', tilde(home.configPath)],
    ]),
  )
  return exitCodes.done
}

export async function listTokensCommand(context: CommandContext): Promise<ExitCode> {
  const harness = await context.open({ program: 'command', worker: false })
  try {
    const { tokens } = harness.authority()
    if (tokens.length === 0) tell(`There are no tokens. Make one with: ${context.command('tokens add n8n')}`)
    for (const { name, principal, scopes, callbacks, expires_at } of tokens) {
      const end = expires_at === null ? 'never expires' : `${expires_at <= Date.now() ? 'expired' : 'expires'} ${instant(expires_at)}`
      print(`${name}  (speaks for ${principal}; ${scopes === null ? 'all its scopes' : scopes.join(', ')}; ${end})`)
      if (callbacks.length > 0) print(`  called back at ${callbacks.join(', ')}`)
    }
    return exitCodes.done
  } finally {
    await harness.close()
  }
}

/** Whoever has it can make calls that functions take for ours; a workflow that is a function needs it to know them. */
export async function signingSecretCommand(context: CommandContext): Promise<ExitCode> {
  const home = await context.openHome()
  print(home.callSigningKey.toString('hex'))
  tell('', 'This is the Call Signing Secret of this home: workflows that are functions know by it that a call comes from here. Put it into the credential in n8n.')
  return exitCodes.done
}

export async function removeTokenCommand(context: CommandContext, name: string): Promise<ExitCode> {
  const home = await context.openHome()
  await editConfig(home, (text) => removeTokenFromConfig(text, name))
  print(`Token ${name} counts no more. ${configName} keeps nothing of it; its principal stays.`)
  return exitCodes.done
}

function scopeOf(text: string): Scope {
  const scope = allScopes.find((candidate) => candidate === text)
  if (scope === undefined) throw new HarnessError('invalid_input', `There is no scope ${JSON.stringify(text.slice(0, 64))}. There are: ${allScopes.join(', ')}.`)
  return scope
}
