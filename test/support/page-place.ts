/* A place whose approval page takes names, or asks for alice's passphrase, as configuration says; and what a person does there. */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { makeApproverKey, openApproverKey } from '../../core/approvals/key-file'
import { openHome } from '../../core/home'
import type { OutputOf } from '../../core/protocol/operations'
import { openPlace, shopConfig, type Place, type PlaceOptions } from './place'

export const passphrase = 'correct horse battery'

export interface PageFacts {
  /** Whether the page takes names; `foreign`: the configuration names the key of another home. */
  readonly page?: 'on' | 'off' | 'inactive' | 'foreign'
  readonly profile?: 'personal' | 'server'
  readonly four_eyes?: boolean
  /** Whether alice has her key file here. */
  readonly alice?: boolean
}

export interface PagePlace {
  readonly place: Place
  readonly pageKey: KeyObject
  /** A held refund (high risk), or another call. */
  held(functionId?: string, args?: object): Promise<OutputOf<'trigger'> & { readonly approval_id: string }>
  open(approvalId: string, key?: string): Promise<OutputOf<'open_approval'>>
  answer(approvalId: string, more?: Partial<Answer>): Promise<OutputOf<'answer_approval'>>
  /** Changes harness.yaml as a person does. */
  change(from: string | RegExp, to: string): void
}

interface Answer {
  readonly decision: 'approve' | 'reject'
  readonly responder: string
  readonly reason: string | null
  readonly passphrase: string
  readonly approval_digest: string
  readonly link_key: string
}

/** Made once: scrypt takes its time. */
let alices: ReturnType<typeof makeApproverKey> | null = null

export async function openPagePlace(facts: PageFacts = {}, options: PlaceOptions = {}): Promise<PagePlace> {
  const { page = 'on', profile = 'personal', alice = true } = facts
  const folder = mkdtempSync(path.join(tmpdir(), 'harness-page-'))
  const home = await openHome(folder)
  alices ??= makeApproverKey(passphrase)
  const { publicKey, file } = await alices
  if (alice) await home.writeApproverKey('alice', file)
  const foreign = 'MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
  const channel = page === 'off' ? '' : `channels: { page: { public_key: "${page === 'foreign' ? foreign : home.pagePublicKey}", active: ${String(page !== 'inactive')} } }\n`
  const eyes = facts.four_eyes === undefined ? '' : `four_eyes: ${String(facts.four_eyes)}\n`
  writeFileSync(home.configPath, shopConfig(publicKey, `  shop::ship: { description: Ship., risk: low, schema: { type: object }, http: { url: "http://127.0.0.1:1/ship" } }
profile: ${profile}
${eyes}${channel}`))
  const place = await openPlace({ folder, key: await openApproverKey(file, passphrase), ...options })
  const { harness, caller } = place
  return {
    place,
    pageKey: createPrivateKey(home.pagePrivateKey),
    async held(functionId = 'shop::refund', args = { order: 'A-1', amount: 20 }) {
      const asked = await harness.trigger({ call: { function_id: functionId, arguments: args as never }, wait_seconds: 10 }, caller)
      return { ...asked, approval_id: asked.approvals[0]?.approval_id ?? '' }
    },
    open: async (approvalId, key) => harness.open_approval({ approval_id: approvalId, link_key: key ?? (await harness.linkKey(approvalId)) }, caller),
    answer: async (approvalId, more = {}) =>
      harness.answer_approval({ approval_id: approvalId, link_key: await harness.linkKey(approvalId), decision: 'approve', responder: 'Ann', reason: null, ...more }, caller),
    change(from, to) {
      const before = readFileSync(home.configPath, 'utf8')
      const after = before.replace(from, to)
      if (after === before) throw new Error(`nothing to change: ${String(from)}`)
      writeFileSync(home.configPath, after)
    },
  }
}
