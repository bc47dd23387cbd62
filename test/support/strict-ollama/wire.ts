/* Bytes as Ollama writes them: Go's JSON escapes, omitted zeros, times with their trailing zeros cut. */

/** JSON as Go's encoder writes it: `<`, `>`, `&` and the two line separators are escaped. */
export function goJson(value: unknown): string {
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** RFC 3339 with nanoseconds, trailing zeros cut. */
export function goTime(milliseconds: number, nanoseconds = 89_100_000): string {
  const fraction = String(nanoseconds).padStart(9, '0').replace(/0+$/, '')
  return `${new Date(milliseconds).toISOString().slice(0, 19)}${fraction === '' ? '' : `.${fraction}`}Z`
}

/** Zeros and empty strings are left out, as `omitempty` does. */
export function omitEmpty<T extends Record<string, unknown>>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== 0 && member !== '' && member !== undefined)) as Partial<T>
}

export interface ChunkMessage {
  readonly content?: string
  readonly thinking?: string
  readonly tool_calls?: readonly WireCall[]
}

export interface WireCall {
  readonly id?: string
  readonly function: { readonly index: number; readonly name: string; readonly arguments: unknown }
}

export interface ChunkFacts {
  readonly model: string
  /** Of an alias: on every chunk. */
  readonly remote?: { readonly remote_model: string; readonly remote_host: string }
}

export function chunk({ model, remote }: ChunkFacts, message: ChunkMessage): string {
  return goJson({ model, ...remote, created_at: goTime(Date.now()), message: chunkMessage(message), done: false })
}

/** The last one, with the counts. */
export function finalChunk({ model, remote }: ChunkFacts, message: ChunkMessage, end: { reason: string; prompt: number; output: number }): string {
  const times = { total_duration: 812_000_111, load_duration: 0, prompt_eval_duration: 90_000_000, eval_duration: 600_000_000 }
  return goJson({
    model, ...remote, created_at: goTime(Date.now()), message: chunkMessage(message), done: true, done_reason: end.reason,
    ...omitEmpty({ ...times, prompt_eval_count: end.prompt, eval_count: end.output }),
  })
}

function chunkMessage({ content, thinking, tool_calls }: ChunkMessage): Record<string, unknown> {
  return {
    role: 'assistant', content: content ?? '', ...(thinking === undefined ? {} : { thinking }), ...(tool_calls === undefined ? {} : { tool_calls }),
  }
}

/** What a text costs here: whichever is more of its words and a quarter of its characters. */
export function tokensOf(text: string): number {
  return Math.max(text.split(/\s+/).filter((word) => word !== '').length, Math.ceil(text.length / 4))
}
