/*
 * The page on which a person decides, as HTML from data: no script, no cookie, nothing from elsewhere, so that it works on a phone and in a
 * sandbox that allows forms alone. Everything foreign is escaped, and what does not show is written out. Looking never decides; a form does.
 */
import type { Json } from '../digest'
import { pageShowsBytes, shownArguments } from '../approvals/approval'
import { codePoint, escapedArguments, hiddenCharacters } from './visible-text'
import { style } from './page-style'
import type { InputOf, OutputOf } from './operations'

export type ApprovalPageDetail = OutputOf<'open_approval'>

export interface PageOptions {
  /** Where the form is posted to. */
  readonly action: string
  readonly linkKey: string
  /** Why the last try came to nothing, and what was typed in it: never a passphrase. */
  readonly problem?: string
  readonly given?: { readonly responder?: string; readonly reason?: string }
  /** Default: now. */
  readonly now?: number
}

/** Headers of every page, for whoever serves them. */
export const pageHeaders = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  'Content-Type': 'text/html; charset=utf-8',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
} as const

/** What was posted, as `answer_approval` takes it. What is missing is left to the operation to refuse. */
export function answerInput(form: Readonly<Record<string, string | undefined>>): InputOf<'answer_approval'> {
  const { approval = '', key = '', decision, responder = '', reason = '', passphrase, digest } = form
  return {
    approval_id: approval, link_key: key, decision: decision as 'approve' | 'reject', responder, reason: reason.trim() === '' ? null : reason,
    ...(passphrase === undefined || passphrase === '' ? {} : { passphrase }), ...(digest === undefined ? {} : { approval_digest: digest }),
  }
}

/** The question, with its forms where it can be answered here. Of one that is over: how it ended. */
export function approvalPage(detail: ApprovalPageDetail, options: PageOptions): string {
  const now = options.now ?? Date.now()
  if (detail.status !== 'pending') return answeredPage(detail)
  if (now >= detail.expires_at) return answeredPage({ ...detail, status: 'expired' })
  const { text, fits } = shownArguments(detail.arguments)
  return page(`Approve ${detail.function_id}?`, [
    `<h1>May <code>${shown(detail.function_id)}</code> run?</h1>`,
    options.problem === undefined ? '' : `<p class="problem" role="alert">${shown(options.problem)}</p>`,
    `<p>${shown(detail.description)}</p>`,
    facts([
      ['Risk', `<strong class="risk-${detail.risk}">${detail.risk}</strong>, ${sideEffects[detail.side_effects]}`],
      ['Asked by', shown(detail.requested_by)],
      ['Held because', detail.why.length === 0 ? 'the record does not say' : detail.why.map(shown).join('<br>')],
      ['Answer until', `${utc(detail.expires_at)} (${left(detail.expires_at - now)} left)`],
    ]),
    argumentsOf(detail.arguments, text, fits),
    answers(detail, options, fits),
    `<p class="small">Approval <code>${shown(detail.approval_id)}</code>, digest <code>${shown(detail.approval_digest.slice(0, 16))}…</code></p>`,
  ])
}

export type Answered = Pick<ApprovalPageDetail, 'approval_id' | 'status' | 'decided_by'> & Partial<Pick<ApprovalPageDetail, 'function_id' | 'decided_at' | 'reason'>>

/** How it ended. */
export function answeredPage({ approval_id, status, decided_by, function_id, decided_at, reason }: Answered): string {
  return page(endings[status].title, [
    `<h1>${endings[status].title}</h1>`,
    `<p>${endings[status].text}</p>`,
    facts([
      ['Function', function_id === undefined ? null : `<code>${shown(function_id)}</code>`],
      ['By', decided_by === null ? null : shown(decided_by)],
      ['At', decided_at === null || decided_at === undefined ? null : utc(decided_at)],
      ['Reason', reason === null || reason === undefined ? null : shown(reason)],
      ['Approval', `<code>${shown(approval_id)}</code>`],
    ]),
    '<p>You can close this page.</p>',
  ])
}

/** What went wrong, and nothing of what was asked about. */
export function problemPage({ title, message }: { readonly title: string; readonly message: string }): string {
  return page(title, [`<h1>${shown(title)}</h1>`, `<p role="alert">${shown(message)}</p>`])
}

// ------------------------------------------------------------------------------------------------ parts

const sideEffects = { none: 'no side effects', read: 'reads', write: 'writes' } as const

const endings = {
  pending: { title: 'Still open', text: 'Nobody has answered yet.' },
  approved: { title: 'Approved', text: 'The call runs, once, as it was shown.' },
  rejected: { title: 'Rejected', text: 'The call does not run.' },
  expired: { title: 'Expired', text: 'Nobody answered in time. The call does not run.' },
  cancelled: { title: 'Not needed any more', text: 'What asked for it is over. The call does not run.' },
} as const

function argumentsOf(args: Json, text: string, fits: boolean): string {
  const head = '<h2 id="arguments">Exactly what would be sent</h2>'
  if (!fits) {
    const kib = String(Math.ceil(Buffer.byteLength(text) / 1024))
    return `${head}<p>The arguments are ${kib} KiB: too large to show them whole here. This is only their beginning.</p>${pre(text.slice(0, pageShowsBytes / 16))}`
  }
  const ascii = escapedArguments(args)
  return `${head}${pre(text)}${ascii === null ? '' : `<details><summary>The same in plain ASCII, so that letters which only look alike show</summary>${pre(ascii)}</details>`}`
}

/** Scrollable by keyboard. */
const pre = (text: string): string => `<pre tabindex="0" aria-labelledby="arguments">${shown(text)}</pre>`

function answers(detail: ApprovalPageDetail, options: PageOptions, fits: boolean): string {
  if (!detail.is_current) {
    return '<p class="problem">The function was changed, or taken out of the configuration, since this was asked: it cannot be decided any more.</p>'
  }
  if (detail.answer_by === 'nobody') {
    return '<p class="problem">Nobody can answer yet: no approver who may decide this has a key here. On the machine of the harness, run <code>agent-harness init</code>.</p>'
  }
  const tooLarge = fits ? '' : `<p class="problem">It cannot be approved here. On the machine of the harness, run <code>agent-harness approvals approve ${shown(detail.approval_id)}</code>.</p>`
  const buttons = `${fits ? '<button name="decision" value="approve" class="approve">Approve</button>' : ''}<button name="decision" value="reject" class="reject">Reject</button>`
  // the first button of a form is what Enter presses: it is one that does nothing
  return `${tooLarge}<form method="post" action="${shown(options.action)}" accept-charset="utf-8" autocomplete="off">
<button disabled hidden aria-hidden="true"></button>
${hiddenField('approval', detail.approval_id)}${hiddenField('key', options.linkKey)}${hiddenField('digest', detail.approval_digest)}
${detail.answer_by === 'name' ? byName(options) : byPassphrase(detail, options)}
<label for="reason">Reason <span class="small">(needed to reject; it is told to who asked)</span></label>
<textarea id="reason" name="reason" rows="2" maxlength="2000">${field(options.given?.reason ?? '')}</textarea>
<div class="buttons">${buttons}</div>
</form>`
}

function byName({ given }: PageOptions): string {
  return `<label for="responder">Your name <span class="small">(kept on record; nobody verifies it)</span></label>
<input id="responder" name="responder" required maxlength="100" autocomplete="name" value="${field(given?.responder ?? '')}">`
}

function byPassphrase({ approvers }: ApprovalPageDetail, { given }: PageOptions): string {
  const choices = approvers.map((name) => `<option${name === given?.responder ? ' selected' : ''}>${shown(name)}</option>`).join('')
  return `<label for="responder">Approver</label>
<select id="responder" name="responder">${choices}</select>
<label for="passphrase">Passphrase</label>
<input id="passphrase" name="passphrase" type="password" required maxlength="1000" autocomplete="current-password">`
}

const hiddenField = (name: string, value: string): string => `<input type="hidden" name="${name}" value="${shown(value)}">`

function facts(rows: readonly (readonly [name: string, html: string | null])[]): string {
  return `<dl>${rows.map(([name, html]) => (html === null ? '' : `<dt>${name}</dt><dd>${html}</dd>`)).join('')}</dl>`
}

function page(title: string, body: readonly string[]): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex"><meta name="referrer" content="no-referrer"><title>${shown(title)}</title><style>${style}</style></head>
<body><main>
${body.filter((part) => part !== '').join('\n')}
</main></body></html>
`
}

function utc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

/** In the largest unit and the next. */
function left(ms: number): string {
  const minutes = Math.max(1, Math.floor(ms / 60_000))
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor((minutes % 1440) / 60)]
  if (days > 0) return `${String(days)} d ${String(hours)} h`
  return hours > 0 ? `${String(hours)} h ${String(minutes % 60)} min` : `${String(minutes)} min`
}

// ------------------------------------------------------------------------------------------------ escaping

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character] ?? '')

/** Foreign text for between tags and in attributes; the marks of what does not show are text, not tags, so that both hold. */
function shown(text: string): string {
  return escaped(text.replace(hiddenCharacters, (character) => (character === '\n' ? character : codePoint(character))))
}

/** What somebody typed, back into its field. */
const field = (text: string): string => escaped(text.replace(/[\p{Cc}]/gu, (character) => (character === '\n' ? character : '')))
