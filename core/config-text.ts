/*
 * The text of harness.yaml: the commented file that a new home begins with, and edits that keep what people wrote. Prose begins with
 * `# `, a setting that is commented out with `#` alone, and shows its default.
 */
import { isMap, isSeq, YAMLSeq } from 'yaml'
import type { Approver } from './approvals/decide'
import { approverSettings } from './config-schema'
import { configName, editableDocument, readConfigDocument } from './config-yaml'
import { HarnessError } from './errors'

const head = (deployment: string): string => `# Everything that gives rights. The database is never asked for any of it.
# Read at start. A setting behind a # shows its default (functions and policy: an example); remove the # to change it.
# Durations: 250ms, 30s, 10m, 24h, 7d. Secrets stay in the environment: headers and signing refer to them as \${NAME}.

# Names this installation in every approval. Never change it.
deployment: ${deployment}
# personal: one person on one machine. server: several; then nobody decides what they asked for themselves (four_eyes).
#profile: personal
#four_eyes: false

# Functions (tools) that agents and callers may use. An id is namespace::name. What is not declared here does not exist.
# Left out: risk medium, side_effects write, idempotent false, and a schema that takes no arguments.
`

const exampleFunctions = `functions:
  shop::refund:
    description: Refunds an order in whole or in part.
    # low, medium or high. High always waits for a person.
    risk: medium
    # none, read or write. A write waits for a person unless a rule of the policy lets it pass.
    side_effects: write
    # true only if the server does a repeated call with the same Idempotency-Key once.
    idempotent: false
    approver_roles: [approver]
    approval_ttl: 24h
    timeout: 300s
    schema:
      type: object
      properties:
        order: { type: string, maxLength: 40 }
        amount: { type: number, minimum: 0.01 }
      required: [order, amount]
      additionalProperties: false
    http:
      url: http://127.0.0.1:8080/refund
      method: POST
`
const exampleSecrets = `      headers: { Authorization: 'Bearer \${SHOP_TOKEN}' }
      signing: { secret: '\${SHOP_SIGNING_SECRET}' }
`
const policyHead = `
# The policy of this installation. Globs open, here and nowhere else; deny wins; allow [] allows nothing.
# Default of allow: the namespaces of the functions declared above, and workflow::*.
# Rules: the first that matches counts. allow lets a write below high risk pass without a person.
`
const examplePolicy = `policy:
  functions: { allow: ['shop::*', 'workflow::*'], deny: [] }
  rules:
    - id: small-refunds
      functions: shop::refund
      when: { amount: { at_most: 20 } }
      effect: allow
      reason: Refunds up to 20 pass.
`
const channelHead = (live: boolean): string => `
# Where a person may answer by name alone, without a passphrase: whoever has the link of an approval says who they are, and the
# record says that nobody verified it. ${live ? 'Take it out, or say active: false, to ask for an approver\'s passphrase there.' : 'Remove the # of both lines to turn it on. On a server it never counts for high risk.'}
`
const channel = (publicKey: string): string => `channels:
  page: { public_key: '${publicKey}', roles: [approver] }
`
const tail = `
# People who may decide, by a key under a passphrase. agent-harness init makes the key and writes the entry.
#approvers: []

# Functions that n8n workflows bring: under this namespace, at this risk or above. own_limits: a workflow may say up to which
# arguments its write passes without a person, below high risk. false: only rules of the policy let a write pass.
#workflows: { namespace: workflow, risk_floor: medium, own_limits: true, approval_ttl: 24h }

# Agents. assistant is always there and may use what the policy allows; allow and deny here only narrow that.
#agents:
#  assistant:
#    description: ''
#    model: null
#    system_prompt: ''
#    functions: { allow: ['*'], deny: [] }
#    rules: []
#    max_turns: 16
#    thinking_level: null

# Who may ask, and as whom the command line and stdio speak.
#principals:
#  local:
#    name: Local user
#    roles: [owner, operator]
#    scopes: ['turns:write', 'turns:read', 'identity:read', awaits, 'approvals:decide', 'functions:register', admin]
#local_principal: local

# Who may ask over HTTP. agent-harness tokens add NAME makes a token, shows it once and writes its entry here.
#tokens: []

# default null: the first model by name that is local and can call functions. url null: OLLAMA_HOST, else http://127.0.0.1:11434.
#models:
#  default: null
#  ollama: { url: null, num_ctx: 16384, first_byte: 10m, idle: 10m }

#limits: { turn: 7d, message: 1MiB, open_approvals_per_session: 20, live_turns_per_principal: 100 }
`

const commentedOut = (text: string): string => text.replaceAll(/^(?=.)/gm, '#').replaceAll(/^#( *)# /gm, '#$1# ')

export interface DefaultConfig {
  readonly deployment: string
  readonly sample?: boolean
  /** The key of the home's approval page, and whether answers by name count there. */
  readonly page?: { readonly publicKey: string; readonly live: boolean }
}

/**
 * The file a new home begins with: all settings commented out at their defaults, but for the deployment id. With `sample` the example
 * function and its policy are live, without their secrets.
 */
export function defaultConfigText({ deployment, sample = false, page }: DefaultConfig): string {
  const show = sample ? (text: string): string => text : commentedOut
  const channels = page === undefined ? '' : `${channelHead(page.live)}${page.live ? channel(page.publicKey) : commentedOut(channel(page.publicKey))}`
  return `${head(deployment)}${show(exampleFunctions)}${commentedOut(exampleSecrets)}${policyHead}${show(examplePolicy)}${channels}${tail}`
}

/** Whether a text of harness.yaml speaks of a channel, so that its key must be there. Also where the text is broken. */
export function namesChannels(text: string): boolean {
  return /^(?:\{(?:[^#\n]*,)?\s*)?["']?channels["']?\s*:/m.test(text)
}

/**
 * The text with one more approver; comments and order stay. Throws `conflict` when the name is taken, `invalid_input` for an approver
 * that the configuration would refuse, `bad_config` when the text is broken.
 */
export function addApproverToConfig(text: string, approver: Approver): string {
  const checked = approverSettings.safeParse(approver)
  if (!checked.success) {
    const wrong = checked.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`)
    throw new HarnessError('invalid_input', `The approver cannot be added: ${wrong.join('; ')}.`)
  }
  const document = editableDocument(text)
  if (document.contents !== null && !isMap(document.contents)) {
    throw new HarnessError('bad_config', `${configName} is not a group of settings. Repair it first.`)
  }
  const listed = document.get('approvers')
  if (listed !== undefined && listed !== null && !isSeq(listed)) {
    throw new HarnessError('bad_config', `approvers in ${configName} must be a list. Repair it first.`)
  }
  const approvers = isSeq(listed) ? listed : new YAMLSeq(document.schema)
  if (approvers.items.some((item) => isMap(item) && item.get('name') === approver.name)) {
    throw new HarnessError('conflict', `${configName} already has an approver ${approver.name}. Choose another name, or remove that entry.`)
  }
  const { name, public_key, roles, active } = checked.data
  approvers.flow = false
  approvers.add(document.createNode({ name, public_key, roles, ...(active ? {} : { active }) }))
  if (approvers !== listed) document.set('approvers', approvers)
  const edited = document.toString({ lineWidth: 0, flowCollectionPadding: true })
  readConfigDocument(edited)
  return edited
}
