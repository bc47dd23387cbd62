/* A decision counts only if everything it is about is still so, and only from one who may decide: each reason why not, one by one. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { approvalDigest, definitionDigest, functionDigest, signedBytes, type Approval, type SignedDecision } from '../../core/approvals/approval'
import { decisionHolds, signDecision, type DecisionSubject } from '../../core/approvals/decide'
import type { Json } from '../../core/digest'
import type { FunctionEntry } from '../../core/policy/policy'
import { anApproval } from './turn-fixtures'

const entry: FunctionEntry = {
  id: 'shop::refund', description: 'Refund.', schema: { type: 'object' }, risk: 'high', side_effects: 'write', idempotent: false, roles: [],
  approver_roles: ['approver'], approval_ttl_ms: 5_000, timeout_ms: 1_000, unattended: [], target: { kind: 'http', url: 'http://shop/refund' },
}
const args: Json = { order: 'A-1', amount: 20 }
const digest = functionDigest(entry, args)
const bare = anApproval({ function_digest: digest })
const approval: Approval = { ...bare, approval_digest: approvalDigest('d_1', bare) }

const pair = generateKeyPairSync('ed25519')
const publicKey = (key: KeyObject): string => key.export({ format: 'der', type: 'spki' }).toString('base64')
const alice = { name: 'alice', roles: ['approver'], public_key: publicKey(pair.publicKey), active: true }
const subject: DecisionSubject = {
  deployment: 'd_1', approvers: [alice], channels: [], assurance: 'human-verified', approver_roles: ['approver'], function_digest: digest, excluded: null,
}
const answer = { decision: 'approve' as const, approver: 'alice', decided_at: 1_000, reason: null, channel: 'command_line' as const }
const signed = signDecision(pair.privateKey, approval.approval_digest, answer)

const why = (facts: { approval?: Partial<Approval>; decision?: Partial<SignedDecision> | null; subject?: Partial<DecisionSubject> }): string => {
  const decision = facts.decision === null ? null : { ...signed, ...facts.decision }
  const holds = decisionHolds({ ...approval, ...facts.approval }, decision, { ...subject, ...facts.subject })
  return holds.holds ? 'holds' : holds.why
}

describe('a signed decision', () => {
  it('[approval.decided] holds for the question, the call and the person it was made for', () => {
    expect(why({})).toBe('holds')
    const rejected = signDecision(pair.privateKey, approval.approval_digest, { ...answer, decision: 'reject', reason: 'no' })
    expect(why({ decision: rejected })).toBe('holds')
  })

  it('is none without a signature of the approver over exactly this answer', () => {
    const stranger = generateKeyPairSync('ed25519').privateKey
    expect(why({ decision: null })).toContain('no signed decision')
    expect(why({ decision: signDecision(stranger, approval.approval_digest, answer) })).toBe('The signature does not verify.')
    for (const changed of [
      { decision: 'reject' as const }, { reason: 'other' }, { decided_at: 1_001 }, { signature: '' }, { signature: 'AAAA' }, { signature: '%' },
    ]) {
      expect(why({ decision: changed })).toBe('The signature does not verify.')
    }
  })

  it('does not verify under a key that cannot be read', () => {
    for (const public_key of ['', 'AAAA', publicKey(generateKeyPairSync('x25519').publicKey)]) {
      expect(why({ subject: { approvers: [{ ...alice, public_key }] } })).toBe('The signature does not verify.')
    }
  })

  it('counts for no other question: another approval, call, turn, time limit or deployment', () => {
    for (const moved of [{ approval_id: 'a_2' }, { call_id: 'c_2' }, { turn_id: 't_2' }, { expires_at: 9_000 }]) {
      expect(why({ approval: moved })).toContain('not the one that was asked for')
    }
    expect(why({ subject: { deployment: 'd_2' } })).toContain('not the one that was asked for')
    const other = { ...bare, approval_id: 'a_2' }
    expect(why({ approval: { ...other, approval_digest: approvalDigest('d_1', other) } })).toBe('The signature does not verify.')
  })

  it('counts no more once function, definition or arguments changed', () => {
    const edited = functionDigest({ ...entry, target: { kind: 'http', url: 'http://evil/refund' } }, args)
    expect(why({ subject: { function_digest: edited } })).toContain('changed since')
    expect(why({ subject: { function_digest: functionDigest(entry, { order: 'A-1', amount: 2_000 }) } })).toContain('changed since')
    expect(why({ approval: { function_digest: edited } })).toContain('changed since')
  })

  it('counts only from an active approver of the configuration who has a role for it', () => {
    expect(why({ subject: { approvers: [] } })).toContain('not an approver')
    expect(why({ subject: { approvers: [{ ...alice, active: false }] } })).toContain('not an approver')
    expect(why({ subject: { approvers: [{ ...alice, roles: ['other'] }] } })).toContain('none of the roles')
    expect(why({ subject: { approver_roles: ['finance'] } })).toContain('finance')
    expect(why({ subject: { excluded: { id: 'alice', name: 'A. Smith' } } })).toContain('Four eyes')
  })

  it('counts only if it was made while the question was open', () => {
    const at = (decided_at: number): string => why({ decision: signDecision(pair.privateKey, approval.approval_digest, { ...answer, decided_at }) })
    expect(at(approval.expires_at)).toBe('holds')
    expect(at(approval.expires_at + 1)).toContain('expired')
    expect(why({ approval: { created_at: 2_000 } })).toContain('older than the question')
  })
})

describe('a decision by name', () => {
  const pagePair = generateKeyPairSync('ed25519')
  const page = { name: 'page', roles: ['approver'], public_key: publicKey(pagePair.publicKey), active: true }
  const byName = { ...answer, approver: 'channel:page', responder: 'Ann', channel: 'page' as const }
  const bySomebody = signDecision(pagePair.privateKey, approval.approval_digest, byName)
  const onPage = { channels: [page], assurance: 'channel-asserted' as const }
  const whyNamed = (decision: Partial<SignedDecision> = {}, facts: Partial<DecisionSubject> = {}): string =>
    why({ decision: { ...bySomebody, ...decision }, subject: { ...onPage, ...facts } })
  const resigned = (facts: Partial<SignedDecision>): SignedDecision => signDecision(pagePair.privateKey, approval.approval_digest, { ...byName, ...facts })

  it('[page.signed] holds under the key of the page in the configuration and no other', () => {
    expect(whyNamed()).toBe('holds')
    expect(whyNamed(signDecision(pair.privateKey, approval.approval_digest, byName))).toBe('The signature does not verify.')
    expect(whyNamed({ responder: 'Bob' })).toBe('The signature does not verify.')
    expect(whyNamed({}, { channels: [] })).toContain('not an approver')
    expect(whyNamed({}, { channels: [{ ...page, active: false }] })).toContain('not an approver')
    expect(whyNamed({}, { channels: [{ ...page, roles: ['clerk'] }] })).toContain('none of the roles')
    expect(whyNamed({}, { approvers: [{ ...alice, name: 'channel:page' }], channels: [] })).toContain('not an approver')
  })

  it('[page.assurance] does not suffice where a passphrase is needed; a passphrase suffices where a name does', () => {
    expect(whyNamed({}, { assurance: 'human-verified' })).toContain('a name does not suffice')
    expect(why({ subject: onPage })).toBe('holds')
  })

  it('names somebody, by the page', () => {
    for (const facts of [{ responder: null }, { responder: ' ' }, { channel: 'command_line' as const }]) {
      expect(whyNamed({ responder: null, ...resigned(facts) })).toContain('by whom it is')
    }
    expect(whyNamed({ responder: 5 as unknown as string })).toContain('by whom it is')
  })

  it('[page.four-eyes] is refused under the id or the name of who asked, in whatever case and width', () => {
    const excluded = { id: 'local', name: 'Ann Smith' }
    for (const responder of ['local', 'LOCAL', 'ann  smith', ' Ann Smith ', '\uff21nn Smith']) {
      expect(whyNamed(resigned({ responder }), { excluded })).toContain('Four eyes')
    }
    expect(whyNamed(resigned({ responder: 'Ann' }), { excluded })).toBe('holds')
  })

  it('[approval.decided] decisions from before there were names still verify', () => {
    const { responder: _none, ...old }: SignedDecision = { ...signed }
    expect(why({ decision: old })).toBe('holds')
    expect(why({ decision: { ...signed, responder: null } })).toBe('holds')
    expect(why({ decision: { ...signed, responder: 'Ann' } })).toBe('The signature does not verify.')
  })
})

describe('digests', () => {
  it('the function digest is equal for equal deeds, however their arguments are written down', () => {
    expect(functionDigest(entry, { amount: 20, order: 'A-1' })).toBe(digest)
    expect(
      functionDigest({ ...entry, description: 'Other words.', approval_ttl_ms: 1, timeout_ms: 1, roles: ['x'], approver_roles: ['y'] }, args)
    ).toBe(digest)
    expect(functionDigest(entry, { order: 'A-1', amount: '20' })).not.toBe(digest)
  })

  it('the definition digest changes with whatever a call does or promises', () => {
    const changes: readonly Partial<FunctionEntry>[] = [
      { id: 'shop::other' }, { schema: { type: 'object', required: ['order'] } }, { target: { kind: 'http', url: 'http://evil' } }, { risk: 'low' },
      { side_effects: 'read' }, { idempotent: true },
    ]
    const digests = changes.map((change) => definitionDigest({ ...entry, ...change }))
    expect(new Set([definitionDigest(entry), ...digests]).size).toBe(changes.length + 1)
  })

  it('what is signed names the answer in full', () => {
    const bytes = (facts: Partial<SignedDecision>): string => signedBytes(approval.approval_digest, { ...answer, ...facts }).toString()
    const all = [bytes({}), bytes({ decision: 'reject' }), bytes({ approver: 'bob' }), bytes({ decided_at: 2 }), bytes({ reason: 'r' })]
    expect(new Set(all).size).toBe(all.length)
  })
})
