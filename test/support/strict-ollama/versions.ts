/* What changed between versions of Ollama, as far as a client can see it. */

export type Version = readonly [number, number, number]

export function parseVersion(text: string): Version {
  const [major = 0, minor = 0, patch = 0] = text.split(/[.-]/).map(Number)
  return [major, minor, patch]
}

function since(version: Version, major: number, minor: number, patch: number): boolean {
  const [x, y, z] = version
  return x !== major ? x > major : y !== minor ? y > minor : z >= patch
}

export interface Features {
  /** Calls have ids. */
  readonly call_ids: boolean
  /** `truncate` and `shift` are understood. */
  readonly truncate: boolean
  /** An error that comes first in a stream has a status of its own; before, it was a line under a 200. */
  readonly error_status: boolean
  /** `GET /api/status` exists. */
  readonly status: boolean
  /** Calls of qwen3 and glm are numbered. */
  readonly call_index: boolean
  /** `name:local` is understood. */
  readonly local_suffix: boolean
  readonly think_max: boolean
  readonly tag_capabilities: boolean
  /** llama-server is below: its errors are JSON inside the string. */
  readonly llama_server: boolean
  /** The repeat guard says so. */
  readonly repeat_error: boolean
}

export function featuresOf(text: string): Features {
  const version = parseVersion(text)
  return {
    call_ids: since(version, 0, 12, 10), truncate: since(version, 0, 12, 6), error_status: since(version, 0, 12, 6), status: since(version, 0, 16, 2),
    call_index: since(version, 0, 17, 4), local_suffix: since(version, 0, 18, 0), think_max: since(version, 0, 22, 0),
    tag_capabilities: since(version, 0, 30, 0), llama_server: since(version, 0, 30, 0), repeat_error: since(version, 0, 34, 0),
  }
}
