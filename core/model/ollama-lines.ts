/*
 * Cuts a stream of bytes into JSON lines and looks at each before the client does: the client skips a line it cannot read and goes on
 * with a hole, and prints it. Whatever comes after `done: true` is not looked at.
 */
import { callTrouble, type CallTrouble } from './ollama-trouble'

export interface GatedLines {
  /** Each one JSON object and a newline. */
  readonly lines: readonly Uint8Array[]
  readonly trouble: CallTrouble | null
  /** The line with `done: true` has come. */
  readonly done: boolean
}

export interface LineGate {
  push(part: Uint8Array): GatedLines
  /** For the end of the stream: the last line may lack its newline. */
  end(): GatedLines
}

const newline = 0x0a

export function lineGate(): LineGate {
  let rest: Uint8Array[] = []
  let done = false
  const gate = (texts: readonly Uint8Array[]): GatedLines => {
    const lines: Uint8Array[] = []
    for (const text of texts) {
      const line = readLine(text)
      if (line === null) continue
      if ('trouble' in line) return { lines, trouble: line, done: false }
      lines.push(Buffer.from(`${line.text}\n`))
      if (line.done) {
        done = true
        break
      }
    }
    return { lines, trouble: null, done }
  }
  return {
    push: (part) => {
      const texts: Uint8Array[] = []
      let from = 0
      for (let at = part.indexOf(newline); at >= 0; at = part.indexOf(newline, from)) {
        texts.push(Buffer.concat([...rest, part.subarray(from, at)]))
        rest = []
        from = at + 1
      }
      if (from < part.length) rest.push(part.subarray(from))
      return gate(texts)
    },
    end: () => gate([Buffer.concat(rest)]),
  }
}

/** Null for a blank line. */
function readLine(bytes: Uint8Array): { text: string; done: boolean } | CallTrouble | null {
  let value: unknown
  let text: string
  try {
    // fatal: a broken character is a broken line, not a question mark in a function's arguments
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim()
    if (text === '') return null
    value = JSON.parse(text)
  } catch {
    return callTrouble('bad_line')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return callTrouble('bad_line')
  const { error, done } = value as { error?: unknown; done?: unknown }
  if (error !== undefined) return callTrouble('error_line', { text: typeof error === 'string' ? error : JSON.stringify(error) })
  // 0.11.3 sent an object whose only key was the text of the error
  const [key, ...others] = Object.keys(value)
  if (key?.startsWith('error') === true && others.length === 0) return callTrouble('error_line', { text: key })
  return { text, done: done === true }
}
