/*
 * One spelling of a model server's address, read the way Ollama itself reads OLLAMA_HOST. Imports no driver, so that configuration can
 * check an address without loading one. It opens nothing and resolves no name.
 */
import { HarnessError } from '../errors'

/** Where Ollama listens when nothing is said. */
export const defaultOllamaUrl = 'http://127.0.0.1:11434'

/**
 * `OLLAMA_HOST` or a configured address as a URL with scheme and port, without a trailing slash: `box` -> `http://box:11434`,
 * `:1234` -> `http://127.0.0.1:1234`, `https://box/llm` -> `https://box:443/llm`; empty is {@link defaultOllamaUrl}. An address that only
 * a server can listen on (`0.0.0.0`, `::`) becomes 127.0.0.1. As with Ollama, a scheme without a port means port 80 or 443.
 * Throws `bad_config` on a user or password in it (they would end up in logs), on another scheme and on what is no address.
 */
export function ollamaUrl(text: string): string {
  const given = text.trim().replace(/^["']|["']$/g, '')
  if (given === '') return defaultOllamaUrl
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(given)?.[1]?.toLowerCase()
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    throw new HarnessError('bad_config', `The address of Ollama begins with ${scheme}://; only http:// and https:// are possible.`)
  }
  const url = parse(scheme === undefined ? `http://${bareHost(given)}` : given)
  if (url.username !== '' || url.password !== '') {
    throw new HarnessError('bad_config', 'The address of Ollama holds a user name or password; Ollama has none. Give the address without it.')
  }
  const port = url.port !== '' ? url.port : portWithout(scheme, given)
  const host = url.hostname === '0.0.0.0' || url.hostname === '[::]' ? '127.0.0.1' : url.hostname
  return `${url.protocol}//${host}:${port}${url.pathname.replace(/\/+$/, '')}`
}

/** `:1234` and a bare IPv6 address are no host of a URL yet. */
function bareHost(given: string): string {
  if (given.startsWith(':') && !given.startsWith('::')) return `127.0.0.1${given}`
  const colons = given.split(':').length - 1
  return colons > 1 && !given.startsWith('[') ? `[${given}]` : given
}

/** `URL` hides a port that is the default of its scheme, so an explicit `:80` has to be seen in the text. */
function portWithout(scheme: string | undefined, given: string): string {
  if (scheme === 'https') return '443'
  if (scheme === 'http' || /^[^/]*:80(\/|$)/.test(given)) return '80'
  return '11434'
}

function parse(text: string): URL {
  try {
    return new URL(text)
  } catch {
    throw new HarnessError('bad_config', 'The address of Ollama cannot be read. Give it as http://host:port, e.g. http://127.0.0.1:11434.')
  }
}
