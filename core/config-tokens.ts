/*
 * Tokens in harness.yaml: what can be wrong with them, and the edits that `agent-harness tokens` makes. An edit keeps comments and order,
 * and is refused when the file would not be taken afterwards.
 */
import { isMap, isSeq, YAMLSeq, type Document } from 'yaml'
import type { z } from 'zod'
import { problemsOf } from './config-issues'
import { configSchema, localPrincipal, tokenSettings, type Config } from './config-schema'
import { configName, editableDocument, readConfigDocument, type Problem } from './config-yaml'
import { HarnessError } from './errors'
import type { Scope } from './identity/principal'
import type { Token } from './identity/tokens'

/** As it stands in the file. */
export type TokenEntry = z.input<typeof tokenSettings>

/** The principal that a token speaks for when nobody says otherwise. */
export const n8nPrincipal = 'n8n'

/**
 * What the nodes need and no more: Send and status, waiting to be called back, showing and answering an approval's page, offering a
 * workflow as a function. It holds no role: it sees its own turns only, and what it decides needs the key of the link and what the page
 * asks for besides. Not `admin`.
 */
export const n8nScopes: readonly Scope[] = ['turns:write', 'turns:read', 'identity:read', 'awaits', 'approvals:decide', 'functions:register']

/** Where n8n listens on the same machine when nobody says otherwise. */
export const n8nCallbacks: readonly string[] = ['http://127.0.0.1:5678/', 'http://localhost:5678/']

export function tokenOfSettings({ scopes, expires, ...rest }: Config['tokens'][number]): Token {
  return { ...rest, scopes: scopes ?? null, expires_at: expires ?? null }
}

/** What needs more than one setting to be seen. */
export function tokenProblems(config: Config): Problem[] {
  return config.tokens.flatMap((token, index): Problem[] => {
    const earlier = config.tokens.slice(0, index)
    const at = (key: string): Problem['at'] => ['tokens', index, key]
    const found: Problem[] = []
    if (!Object.hasOwn(config.principals, token.principal)) {
      found.push({ at: at('principal'), text: `must name one of the principals: ${Object.keys(config.principals).join(', ') || 'there are none'}.` })
    }
    for (const key of ['name', 'sha256'] as const) {
      if (earlier.some((other) => other[key] === token[key])) found.push({ at: at(key), text: 'is already that of another token. Each needs its own.' })
    }
    return found
  })
}

/**
 * The text with one more token. Makes the principal `n8n` when it is named and not there. Throws `conflict` when the name is taken,
 * `invalid_input` for an entry that the configuration would refuse or for scopes that the principal does not have, `bad_config` when the
 * text is broken.
 */
export function addTokenToConfig(text: string, entry: TokenEntry): string {
  const checked = tokenSettings.safeParse(entry)
  if (!checked.success) {
    const wrong = checked.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`)
    throw new HarnessError('invalid_input', `The token cannot be added: ${wrong.join('; ')}.`)
  }
  const before = readConfig(text)
  if (before.tokens.some((token) => token.name === entry.name)) {
    throw new HarnessError('conflict', `${configName} already has a token ${entry.name}. Choose another name, or remove that one first.`)
  }
  const document = editableDocument(text)
  const principal = before.principals[entry.principal]
  if (principal === undefined && entry.principal !== n8nPrincipal) {
    throw new HarnessError('invalid_input', `There is no principal ${entry.principal} in ${configName}. There are: ${Object.keys(before.principals).join(', ')}.`)
  }
  if (principal === undefined) addN8nPrincipal(document)
  const granted = principal?.scopes ?? n8nScopes
  const missing = (entry.scopes ?? []).filter((scope) => !granted.includes(scope))
  if (missing.length > 0) {
    throw new HarnessError('invalid_input', `Principal ${entry.principal} does not have ${missing.join(', ')}: a token only narrows. It has ${granted.join(', ')}.`)
  }
  const tokens = listAt(document, 'tokens')
  tokens.add(document.createNode(entry))
  document.set('tokens', tokens)
  return checkedText(document)
}

/** The text without that token. Throws `not_found` when there is none of that name. */
export function removeTokenFromConfig(text: string, tokenName: string): string {
  const names = readConfig(text).tokens.map((token) => token.name)
  const index = names.indexOf(tokenName)
  if (index < 0) throw new HarnessError('not_found', `${configName} has no token of that name. ${names.length === 0 ? 'It has none.' : `It has: ${names.join(', ')}.`}`)
  const document = editableDocument(text)
  const tokens = listAt(document, 'tokens')
  tokens.delete(index)
  if (tokens.items.length === 0) tokens.flow = true
  return checkedText(document)
}

/** Writes out the principal that is there when none is declared, for once one is declared only those count. */
function addN8nPrincipal(document: Document): void {
  const declared = document.get('principals')
  if (!isMap(declared)) document.set('principals', document.createNode(localPrincipal))
  document.setIn(['principals', n8nPrincipal], document.createNode({ name: 'n8n', scopes: [...n8nScopes] }))
}

function listAt(document: Document, key: string): YAMLSeq {
  const listed = document.get(key)
  const list: YAMLSeq = isSeq(listed) ? listed : new YAMLSeq(document.schema)
  list.flow = false
  return list
}

function checkedText(document: Document): string {
  const edited = document.toString({ lineWidth: 0, flowCollectionPadding: true })
  readConfig(edited)
  return edited
}

/** Reads the shape and the tokens; what else two settings can have against each other is not for an edit of tokens to find. */
function readConfig(text: string): Config {
  const document = readConfigDocument(text)
  const parsed = configSchema.safeParse(document.value)
  if (!parsed.success) return document.refuse(problemsOf(parsed.error.issues, document.value, {}))
  const problems = tokenProblems(parsed.data)
  if (problems.length > 0) document.refuse(problems)
  return parsed.data
}
