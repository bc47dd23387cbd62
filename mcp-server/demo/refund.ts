/*
 * What the demo is about: one refund that must not happen twice, as configuration declares it, and a model that asks for it and then says
 * what it was told. Its last words come from what the harness tells it, not from what the demo expects.
 */
import { randomBytes } from 'node:crypto'
import { addApproverToConfig, makeApproverKey, type Home, type Script } from '../../core/index'

export const approver = 'demo'
export const functionId = 'shop::refund'
export const request = 'Order A-1001 arrived broken. Please pay the 120 EUR back.'
export const refund = { order: 'A-1001', amount: 120, currency: 'EUR' }

/** How long the harness waits for the shop, under the demo's own limit, so that the reason comes from where it is known. */
const shopTimeout = '20s'

const words = {
  asks: 'I will refund 120 EUR on order A-1001.',
  unknown_outcome: 'The outcome of the refund is unknown: it may have been paid. I will not send it again; please look at the shop.',
  rejected: 'The refund was rejected by a person and was not made.',
} as const

/** What the model ends with when it was told so. */
export const lastWords = { approve: words.unknown_outcome, reject: words.rejected } as const

export const script: Script = ({ messages }) => {
  const told = messages.findLast((message) => message.role === 'function_result')
  if (told === undefined) return { text: words.asks, calls: [{ function_id: functionId, arguments: refund }] }
  if (told.text.includes('"error":"unknown_outcome"')) return { text: words.unknown_outcome }
  if (told.text.includes('"error":"rejected"')) return { text: words.rejected }
  return { text: `I was told: ${told.text}` }
}

/** Makes a throw-away approver, declares the refund at this address, and answers the passphrase, which is written nowhere. */
export async function declareRefund(home: Home, url: string): Promise<string> {
  const passphrase = randomBytes(24).toString('base64url')
  const { publicKey, file } = await makeApproverKey(passphrase)
  await home.writeApproverKey(approver, file)
  const before = await home.readConfig()
  const declared = `${before}\nfunctions:\n  ${functionId}: ${JSON.stringify(settings(url))}\n`
  await home.replaceConfig(before, addApproverToConfig(declared, { name: approver, public_key: publicKey, roles: ['approver'], active: true }))
  return passphrase
}

function settings(url: string): object {
  return {
    description: 'Pays money back to the customer of an order. A second call pays a second time.',
    risk: 'high', side_effects: 'write', idempotent: false, timeout: shopTimeout,
    schema: {
      type: 'object', required: ['order', 'amount', 'currency'], additionalProperties: false,
      properties: { order: { type: 'string' }, amount: { type: 'number', exclusiveMinimum: 0 }, currency: { type: 'string' } },
    },
    http: { url, method: 'POST' },
  }
}
