/*
 * Where the MCP server cannot run at all, its client is told why in the answer to initialize, the only thing that clients show. Keeps to
 * old syntax and imports nothing, because a wrong Node is one of the reasons.
 */

type Write = (text: string, done: () => void) => void

/** Answers initialize on the input with an error, then ends the process with 1. */
export function refuseClient(message: string, write: Write, input: NodeJS.ReadableStream): void {
  let rest = ''
  input.setEncoding('utf8')
  input.on('data', (chunk) => {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() || ''
    lines.forEach((line) => {
      refuseLine(line, message, write)
    })
  })
  input.on('end', () => process.exit(1))
  input.on('error', () => process.exit(1))
  process.stdout.on('error', () => process.exit(1))
}

function refuseLine(line: string, message: string, write: Write): void {
  let request: { readonly id?: unknown; readonly method?: unknown } | null
  try {
    request = JSON.parse(line) as typeof request
  } catch {
    return
  }
  if (request === null || request.id === undefined) return
  const isFirst = request.method === 'initialize'
  // a client of a later revision asks for other things first, and falls back to initialize on this code only
  const error = isFirst ? { code: -32603, message: message } : { code: -32601, message: 'Method not found' }
  write(JSON.stringify({ jsonrpc: '2.0', id: request.id, error: error }) + '\n', () => {
    if (isFirst) process.exit(1)
  })
}
