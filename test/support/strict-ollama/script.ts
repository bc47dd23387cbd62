/* What a test tells the strict Ollama stub: which models there are and what they answer. Types only. */
import type { StubErrorName } from './errors'

/** How Ollama runs a model: A template scanner, B built-in parser, C llama-server's own, D forwarded to the cloud, M MLX. */
export type Way = 'A' | 'B' | 'C' | 'D' | 'M'

export interface StubModel {
  readonly name: string
  /** Default B. */
  readonly way?: Way
  /** Default completion and tools. */
  readonly capabilities?: readonly string[]
  /** Trained window, tokens; default 40960. */
  readonly context_length?: number
  /** Default `qwen3`. */
  readonly architecture?: string
  /** The manifest names a remote model: an alias of a cloud model. */
  readonly remote_host?: string
  readonly remote_model?: string
  /** Local when it is shown for the first time, an alias of a cloud model from then on. */
  readonly turns_cloud?: boolean
}

export interface StubCall {
  /** A wire name, `files__read`. */
  readonly name: string
  /** Anything; default `{}`. */
  readonly arguments?: unknown
  /** What the server calls it; null for none. Default as the way and version have it. */
  readonly id?: string | null
}

export interface StubReply {
  readonly thinking?: string
  readonly text?: string
  readonly tool_calls?: readonly StubCall[]
  /** Way A only: what the model wrote, to be read by the scanner. Replaces text and tool_calls. */
  readonly raw?: string
  /** All calls in one chunk (default), or each in one of its own. */
  readonly spread?: 'together' | 'apart'
  /** Calls in the chunk that says `done`, as way C always and some models of way B do. */
  readonly calls_in_final?: boolean
  readonly done_reason?: 'stop' | 'length'
  /** Before the headers, ms. */
  readonly load_ms?: number
  /** Between the text and the calls, ms: nothing is sent while a call is written. */
  readonly silent_ms?: number
  readonly chunk_ms?: number
  /** Characters in a content chunk; default 4. */
  readonly chunk_size?: number
  /** Bytes in one write to the socket; default a line. */
  readonly write_bytes?: number
  readonly line_end?: '\n' | '\r\n'
  readonly fault?: StubFault
}

export type StubFault =
  /** An error of the table, before the headers, or as a line after so many chunks. */
  | { readonly kind: 'error'; readonly error: StubErrorName; readonly after?: number }
  | { readonly kind: 'http'; readonly status: number; readonly body: string; readonly type?: string }
  | { readonly kind: 'redirect'; readonly location: string; readonly status?: number }
  /** This line after so many chunks, and on. */
  | { readonly kind: 'line'; readonly line: string; readonly after: number }
  /** The socket is cut after so many bytes of the body; 0 cuts it before the headers. */
  | { readonly kind: 'cut'; readonly bytes: number }
  /** Everything but the last chunk, then a clean end. */
  | { readonly kind: 'no_done' }
  /** 31 equal tokens, then the repeat guard. */
  | { readonly kind: 'repeats' }
  /** Nothing any more after so many chunks; without `after` not even headers. */
  | { readonly kind: 'silence'; readonly after?: number }

/** The body of a chat request that passed the checks. */
export interface StubChat {
  readonly model: string
  readonly messages: readonly StubMessage[]
  readonly tools?: readonly { readonly function: { readonly name: string; readonly description?: string; readonly parameters: unknown } }[]
  readonly think?: boolean | string
  readonly truncate?: boolean
  readonly shift?: boolean
  readonly format?: unknown
  readonly options?: { readonly num_ctx?: number }
}

export interface StubMessage {
  readonly role: string
  readonly content: string
  readonly thinking?: string
  readonly tool_calls?: readonly { readonly id?: string; readonly function: { readonly name: string; readonly arguments: Record<string, unknown> } }[]
  readonly tool_name?: string
  readonly tool_call_id?: string
}

/**
 * By the number of assistant messages since the last user message, or a function of the request and that number. Past its end the last
 * entry goes on.
 */
export type StubScript = readonly StubReply[] | ((chat: StubChat, step: number) => StubReply)

export interface StubOptions {
  /** Default 0.33.0. */
  readonly version?: string
  readonly models: readonly StubModel[]
  /** Default: every answer is the text `ok`. */
  readonly script?: StubScript
  /** Default a free one. */
  readonly port?: number
  /** With `local` (default) a request for a cloud name is recorded as a leak. */
  readonly policy?: 'local' | 'cloud'
  /** Faults of endpoints by path, e.g. `/api/show`; `*` for all. */
  readonly endpoints?: Readonly<Record<string, StubFault>>
}
