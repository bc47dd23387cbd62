/* The approval page as text: nothing foreign in it is more than text, nothing hides, and what is not shown whole cannot be approved. */
import type { Json } from '../../core/digest'
import { answeredPage, answerInput, approvalPage, pageHeaders, problemPage, type ApprovalPageDetail, type PageOptions } from '../../core/protocol/approval-page'

const detail: ApprovalPageDetail = {
  approval_id: 'a_1', status: 'pending', session_id: 's_1', turn_id: 't_1', function_call_id: 'c_1', function_id: 'shop::refund', requested_by: 'local',
  approver_roles: ['approver'], created_at: 0, expires_at: Date.UTC(2026, 6, 1, 12, 30), decided_by: null, decided_at: null, channel: null, responder: null, reason: null,
  arguments: { order: 'A-1', amount: 20 }, why: ['High risk always waits for a person. (registry, rule risk:high)'], description: 'Refunds an order.',
  risk: 'high', side_effects: 'write', approval_digest: 'ab'.repeat(32), is_current: true, how_to_decide: 'Somehow.', answer_by: 'name', approvers: [],
}
const options: PageOptions = { action: '/approvals/a_1', linkKey: 'f'.repeat(64), now: Date.UTC(2026, 6, 1, 10, 0) }
const pageOf = (facts: Partial<ApprovalPageDetail> = {}, more: Partial<PageOptions> = {}): string => approvalPage({ ...detail, ...facts }, { ...options, ...more })
const tags = (page: string): string[] => [...page.matchAll(/<\/?([a-z0-9]+)/gi)].map(([, name = '']) => name.toLowerCase())
const preOf = (page: string): string => /<pre[^>]*>([\s\S]*?)<\/pre>/.exec(page)?.[1] ?? ''
const unescaped = (text: string): string => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&amp;', '&')

describe('the question', () => {
  it('[page.exact] shows function, why, risk, side effects, who asks, until when, and the exact arguments', () => {
    const page = pageOf()
    for (const text of ['shop::refund', 'Refunds an order.', 'high', 'writes', 'local', 'rule risk:high', '2026-07-01 12:30 UTC (2 h 30 min left)', 'abababababababab…']) {
      expect(page).toContain(text)
    }
    expect(unescaped(preOf(page))).toBe(JSON.stringify(detail.arguments, null, 2))
  })

  it('[page.plain] holds no script, nothing from elsewhere, and posts one form to where it is told', () => {
    const page = pageOf({}, { action: '/webhook-waiting/7/ask?signature=a&b="' })
    expect(tags(page).filter((name) => ['script', 'link', 'img', 'iframe', 'object', 'base', 'svg'].includes(name))).toEqual([])
    expect(page).not.toMatch(/\son[a-z]+=|javascript:|@import|url\(/i)
    expect(page.match(/<form method="post"/g)).toHaveLength(1)
    expect(page).toContain('action="/webhook-waiting/7/ask?signature=a&amp;b=&quot;"')
    for (const [name, value] of [['approval', 'a_1'], ['key', options.linkKey], ['digest', detail.approval_digest]]) {
      expect(page).toContain(`<input type="hidden" name="${String(name)}" value="${String(value)}">`)
    }
    // Enter in a field presses the first button of the form
    expect(/<button[^>]*>/.exec(page)?.[0]).toContain('disabled')
    expect(pageHeaders['Content-Security-Policy']).toContain("default-src 'none'")
  })

  it('[page.plain] gives every field a label', () => {
    for (const page of [pageOf(), pageOf({ answer_by: 'passphrase', approvers: ['alice', 'bob'] })]) {
      const fields = [...page.matchAll(/<(?:input|select|textarea) id="([^"]+)"/g)].map(([, id]) => id)
      expect(fields.length).toBeGreaterThanOrEqual(2)
      for (const id of fields) expect(page).toContain(`<label for="${String(id)}">`)
    }
  })

  it('asks for a name where a name counts, else for an approver and a passphrase, and says where nobody can answer what to run', () => {
    expect(pageOf()).toContain('name="responder" required')
    expect(pageOf()).not.toContain('type="password"')
    const locked = pageOf({ answer_by: 'passphrase', approvers: ['alice', 'bob'] }, { given: { responder: 'bob' } })
    expect(locked).toMatch(/<option>alice<\/option><option selected>bob<\/option>[\s\S]*type="password" required/)
    const nobody = pageOf({ answer_by: 'nobody' })
    expect(nobody).toContain('agent-harness init')
    expect(nobody).not.toContain('<form')
  })

  it('offers no answer to what changed, is over or has expired', () => {
    for (const page of [
      pageOf({ is_current: false }), pageOf({ status: 'approved', decided_by: 'Ann (by the page, name not verified)', decided_at: 1 }),
      pageOf({ status: 'cancelled' }), pageOf({}, { now: detail.expires_at }),
    ]) expect(page).not.toContain('<form')
    expect(pageOf({}, { now: detail.expires_at })).toContain('Expired')
  })

  it('keeps what was typed, and says what was wrong with it', () => {
    const page = pageOf({}, { problem: 'A rejection needs a <reason>.', given: { responder: 'Ann "<b>"', reason: '</textarea><script>' } })
    expect(page).toContain('role="alert">A rejection needs a &lt;reason&gt;.')
    expect(page).toContain('value="Ann &quot;&lt;b&gt;&quot;"')
    expect(page).toContain('&lt;/textarea&gt;&lt;script&gt;')
  })
})

const hostile: readonly (readonly [string, Json])[] = [
  ['a closing script tag', { a: '</script><script>alert(1)</script>' }],
  ['the end of the block', { a: '</pre><form action=//evil><button>Approve</button>' }],
  ['a hostile key', { '"><img src=x onerror=alert(1)>': 1 }],
  ['entities', { a: '&lt;b&gt; &amp; &#x3c;' }],
  ['quotes of all kinds', { a: `'"\`` }],
  ['a comment and CDATA', { a: '<!-- --><![CDATA[x]]>' }],
  ['__proto__', JSON.parse('{"__proto__": {"amount": 2}}') as Json],
]

describe('what a model or a stranger wrote', () => {
  it.each(hostile)('[page.escaped] is text and nothing else: %s', (_title, args) => {
    const page = pageOf({ arguments: args })
    expect(tags(page).sort()).toEqual(tags(pageOf()).sort())
    expect(unescaped(preOf(page))).toBe(JSON.stringify(args, null, 2))
  })

  it('[page.escaped] also outside of the arguments', () => {
    const evil = '"><script>alert(1)</script>'
    const page = pageOf({ approval_id: evil, function_id: evil, description: evil, requested_by: evil, why: [evil], answer_by: 'passphrase', approvers: [evil] }, { action: evil, linkKey: evil, problem: evil })
    for (const one of [page, answeredPage({ ...detail, function_id: evil, decided_by: evil, reason: evil, approval_id: evil }), problemPage({ title: evil, message: evil })]) {
      expect(one).not.toContain('<script')
      expect(one).not.toContain(evil)
    }
  })

  it('[page.nothing-hides] what turns the text around, has no width or does not print is written out', () => {
    const page = pageOf({ arguments: { to: 'pay\u202eoff\u200b\u2066', tag: '\u{e0041}', nul: '\u0000', line: '\u2028', odd: '\u00a0', lone: '\ud800', mark: '\ufeff' } })
    for (const code of ['202e', '200b', '2066', 'e0041', '2028', 'a0', 'feff']) expect(preOf(page)).toContain(`\\u{${code}}`)
    expect(page).not.toMatch(/[\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u0000\u00a0]/u)
    // a model cannot write that itself: its backslash is doubled
    expect(preOf(pageOf({ arguments: { to: '\\u{202e}' } }))).toContain('\\\\u{202e}')
  })

  it('[page.nothing-hides] letters that only look alike stand there in ASCII too', () => {
    expect(pageOf({ arguments: { to: 'p\u0430ypal' } })).toContain('p\\u{430}ypal')
    expect(pageOf()).not.toContain('<details>')
  })

  it('[page.too-large] what is too large to be shown whole is not approved here', () => {
    const page = pageOf({ arguments: { text: 'x'.repeat(70_000) } })
    expect(page.length).toBeLessThan(30_000)
    expect(page).toContain('69 KiB: too large to show them whole')
    expect(page).not.toContain('value="approve"')
    expect(page).toContain('value="reject"')
    expect(page).toContain('agent-harness approvals approve a_1')
    expect(pageOf({ arguments: { text: 'x'.repeat(65_000) } })).toContain('value="approve"')
  })
})

it('what was posted becomes the input of the operation, without what is empty', () => {
  expect(answerInput({ approval: 'a_1', key: 'k', decision: 'approve', responder: 'Ann', reason: ' ', passphrase: '' })).toEqual({
    approval_id: 'a_1', link_key: 'k', decision: 'approve', responder: 'Ann', reason: null,
  })
  expect(answerInput({ approval: 'a_1', key: 'k', decision: 'reject', responder: 'alice', reason: 'no', passphrase: 'p', digest: 'd' })).toMatchObject({
    reason: 'no', passphrase: 'p', approval_digest: 'd',
  })
})
