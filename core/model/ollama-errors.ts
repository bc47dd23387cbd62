/*
 * From what Ollama, or the way to it, said to a failure with a kind and a sentence for people. Ollama has no error codes: texts and
 * statuses are all there is. No path, no prompt and no written call of a model gets into a sentence.
 */
import type { ModelErrorKind, ModelFailure } from './model'
import { isCallTrouble, type CallTrouble } from './ollama-trouble'

export interface FailureContext {
  /** The server's address, for people. */
  readonly url: string
  /** As it was asked for; null when no model was. */
  readonly model: string | null
  /** The limits that may have been passed, ms. */
  readonly first_byte_ms: number
  readonly idle_ms: number
}

type Cause = ModelFailure['cause']

export function failure(error_kind: ModelErrorKind, cause: Cause, message: string): ModelFailure {
  return { kind: 'failure', error_kind, cause, message }
}

const transient = (message: string): ModelFailure => failure('transient', 'other', message)
const permanent = (message: string): ModelFailure => failure('permanent', 'other', message)

export function abortedFailure(): ModelFailure {
  return failure('transient', 'aborted', 'The model call was stopped.')
}

export function cloudFailure(model: string, where: string): ModelFailure {
  return failure('permanent', 'cloud', `Model "${shown(model)}" ${where}. ${localOnly} Choose a local model: see "ollama list".`)
}

export function missingFailure(model: string, url: string): ModelFailure {
  const name = shown(model)
  return failure('permanent', 'model_missing', `Ollama at ${url} has no model "${name}". Get it with "ollama pull ${name}", or name another one.`)
}

export function farFailure(url: string): ModelFailure {
  return failure('permanent', 'cloud', `The address ${url} is not on this machine or its local network. ${localOnly}`)
}

const localOnly = 'Only local models may be used here.'

/** Any error of a call as a failure. The caller has looked at its own signal before. */
export function failureOf(error: unknown, context: FailureContext): ModelFailure {
  const at = `Ollama at ${context.url}`
  if (!isCallTrouble(error)) return transient(`${at} gave an answer that could not be read. Check that this address is Ollama.`)
  switch (error.trouble) {
    case 'aborted': return abortedFailure()
    case 'not_local': return farFailure(context.url)
    case 'remote_model': return cloudFailure(context.model ?? '', 'is forwarded by Ollama to another host')
    case 'no_connection': return failure('transient', 'unreachable', unreachable(context.url, error.code))
    case 'not_http': return failure('permanent', 'unreachable', `What is at ${context.url} speaks something else (${error.code}). Check OLLAMA_HOST.`)
    case 'first_byte': return transient(
      `${at} did not begin to answer within ${seconds(context.first_byte_ms)} s. The model may be loading, or be too large for this machine.`)
    case 'idle': return transient(`${at} fell silent for ${seconds(context.idle_ms)} s in the middle of its answer.`)
    case 'redirect': return permanent(
      `${context.url} redirects to ${error.text}; it is not followed: conversations go only where configuration says. Set OLLAMA_HOST to the server.`)
    case 'cut': return transient(`The connection to ${at} was lost before its answer was complete.`)
    case 'no_done': return transient(`${at} ended its answer without saying that it is complete.`)
    case 'bad_line':
    case 'bad_answer': return transient(`${at} sent something that could not be read. Check that this address is Ollama.`)
    case 'too_large': return permanent(`The answer of ${at} is too long to keep.`)
    case 'status':
    case 'error_line': return failureOfAnswer(error, context)
  }
}

interface Row {
  /** Parts of texts, without regard to case; any of them. */
  readonly says: readonly string[]
  readonly kind: ModelErrorKind
  readonly cause?: Cause
  /** One or two whole sentences; without it the server's own words are shown. */
  readonly sentence?: string
}

/** In order; the first that matches counts, whatever the status: some permanent errors come as 500, some busy ones as 502. */
const rows: readonly Row[] = [
  {
    kind: 'context_overflow', sentence: 'The conversation is longer than the context window of the model.',
    says: [
      'exceed_context_size', 'exceeds the available context size', 'longer than the context length', 'exceeds the model\'s maximum context length',
      'input length exceeds the context length', 'no user query found in messages',
    ],
  },
  { kind: 'permanent', cause: 'cloud', says: ['cloud is disabled', 'cannot run this remote model'] },
  { kind: 'permanent', says: ['does not support', 'is not supported for this model', 'must be of type', 'invalid format:', 'invalid model name'] },
  { kind: 'permanent', says: ['model is required', 'missing request body', 'json: cannot unmarshal'] },
  {
    kind: 'permanent', sentence: 'Ollama cannot use the schema of a function that was offered.',
    says: [
      'JSON schema conversion failed', 'failed to parse grammar', 'Failed to initialize samplers', 'Unable to generate parser', 'invalid JSON schema',
      'Unrecognized schema',
    ],
  },
  {
    kind: 'permanent', sentence: 'Ollama refused the conversation: calls and their results do not pair up.',
    says: ['mismatch between tool calls and tool results'],
  },
  { kind: 'rate_limited', says: ['maximum pending requests exceeded', 'usage limit'] },
  { kind: 'transient', sentence: 'The cloud behind Ollama is overloaded or cannot be reached.', says: ['overloaded', 'Post "http'] },
  {
    kind: 'transient', sentence: 'The model wrote a call that Ollama could not read. Asking again may help.',
    says: [
      'error parsing tool call', 'XML syntax error', '> closed by <', 'failed to parse JSON', 'tool \'', 'invalid tool call arguments', 'peg-native',
    ],
  },
  {
    kind: 'transient', sentence: 'There was not enough memory for the model. Use a smaller one, or a smaller num_ctx.',
    says: ['out of memory', 'out-of-memory', 'requires more system memory', 'process has terminated'],
  },
  { kind: 'transient', sentence: 'The model took too long to load.', says: ['timed out waiting for'] },
  {
    kind: 'transient', sentence: 'Ollama lost the process that runs the model, perhaps for want of memory.',
    says: ['runner has unexpectedly stopped', 'error was encountered while running the model'],
  },
  { kind: 'transient', sentence: 'The model repeated itself and was cut off.', says: ['token repeat limit'] },
]

/** An error answer, or an error line in a stream (which has no status and always is a 200). */
function failureOfAnswer(error: CallTrouble, context: FailureContext): ModelFailure {
  const status = error.status ?? 0
  const text = saidIn(error.text)
  if (status === 401) {
    return failure('auth_expired', 'other', 'Ollama is not signed in to its cloud. Run "ollama signin" there, or use a local model.')
  }
  if (status === 404 && context.model !== null && /\bmodel\b.* not found/i.test(text)) return missingFailure(context.model, context.url)
  if (status === 403 && text === '') {
    return permanent(`Ollama refuses the host name in ${context.url} (403). Use its IP address, or start it with OLLAMA_HOST=0.0.0.0.`)
  }
  const row = rows.find((entry) => entry.says.some((part) => text.toLowerCase().includes(part.toLowerCase())))
  if (row !== undefined) return failure(row.kind, row.cause ?? 'other', row.sentence ?? answered(context, status, text))
  return failure(kindOfStatus(status), 'other', answered(context, status, text))
}

function kindOfStatus(status: number): ModelErrorKind {
  if (status === 429 || status === 503) return 'rate_limited'
  return status >= 400 && status < 500 ? 'permanent' : 'transient'
}

function answered({ url }: FailureContext, status: number, text: string): string {
  const said = text === '' ? ' and no reason' : /^\s*</.test(text) ? ' and a page that is not from Ollama' : `: ${shown(text)}`
  return `Ollama at ${url} answered with an error${status === 0 ? '' : ` (${String(status)})`}${said}`
}

/** The text inside a body: `{"error": …}`, where the value may be JSON in a string once more. */
export function saidIn(body: string): string {
  let text = body.trim()
  for (let layer = 0; layer < 3; layer += 1) {
    const inner = innerText(text)
    if (inner === null) break
    text = inner
  }
  return text
}

function innerText(text: string): string | null {
  if (!text.startsWith('{')) return null
  try {
    const value = JSON.parse(text) as { error?: unknown; message?: unknown; type?: unknown }
    const said = value.error ?? value.message
    if (typeof said === 'string') return typeof value.type === 'string' ? `${said} (${value.type})` : said
    return typeof said === 'object' && said !== null ? JSON.stringify(said) : null
  } catch {
    return null
  }
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused', ENOTFOUND: 'no such host', EAI_AGAIN: 'the name cannot be resolved', ETIMEDOUT: 'no answer',
  EHOSTUNREACH: 'no route to the host', ENETUNREACH: 'no route to the network', EHOSTDOWN: 'the host is down',
}

function unreachable(url: string, code: string): string {
  const docker = /^https?:\/\/(127\.|\[::1\]|localhost)/.test(url) ? ' From inside Docker use http://host.docker.internal:11434.' : ''
  return `Ollama is not answering at ${url} (${reasons[code] ?? code}). Start it with "ollama serve", or set OLLAMA_HOST.${docker}`
}

const filePaths = [/(?<=^|[\s"'(=])(?:\/[^\s"'():,/]+){2,}/g, /[A-Za-z]:\\[^\s"']+/g]

/** Somebody else's text, safe to show: one line, no control characters, no file paths, at most 300 characters. */
export function shown(text: string): string {
  const line = filePaths.reduce((rest, path) => rest.replace(path, '[path]'), text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' '))
  return line.length <= 300 ? line : `${line.slice(0, 299)}…`
}

function seconds(milliseconds: number): string {
  return String(Math.round(milliseconds / 100) / 10)
}
