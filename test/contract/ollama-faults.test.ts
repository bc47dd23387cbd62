/* What the driver makes of an Ollama that is down, slow, wrong or cut, and of being stopped: failures with a kind, never an exception. */
import { createServer, type AddressInfo, type Server } from 'node:net'
import type { ModelFailure } from '../../core/model/model'
import { startStrictOllama, stubErrors, type StrictOllama, type StubErrorName } from '../support/strict-ollama'
import type { StubFault, StubOptions, StubReply } from '../support/strict-ollama'
import { ask, failed, modelAt, offer, reply, request } from '../support/strict-ollama/requests'

let stub: StrictOllama | undefined
let raw: Server | undefined

async function start(script: StubOptions['script'], more: Partial<StubOptions> = {}): Promise<StrictOllama> {
  stub = await startStrictOllama({ models: [{ name: 'qwen3:8b' }], ...(script === undefined ? {} : { script }), ...more })
  return stub
}

async function failedWith(fault: StubFault, more: Partial<StubReply> = {}, options: Partial<StubOptions> = {}): Promise<ModelFailure> {
  const { url } = await start([{ text: 'Some text before it.', ...more, fault }], options)
  return failed(modelAt(url))
}

/** A server on a port that says these bytes to everybody and hangs up, or says nothing for ever. */
async function rawServer(says: string | null): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    if (says !== null) socket.end(says)
  })
  raw = server
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`
}

afterEach(async () => {
  raw?.close()
  raw = undefined
  await stub?.stop()
  expect(stub?.open() ?? 0).toBe(0)
  expect(stub?.violations ?? []).toEqual([])
  stub = undefined
})

describe('an Ollama that is not there', () => {
  it('[bad.ollama-down] is reported with the address that was tried and what to do', async () => {
    const url = await rawServer(null)
    raw?.close()
    expect(await failed(modelAt(url))).toEqual({
      kind: 'failure', error_kind: 'transient', cause: 'unreachable',
      message: `Ollama is not answering at ${url} (connection refused). Start it with "ollama serve", or set OLLAMA_HOST. ` +
        'From inside Docker use http://host.docker.internal:11434.',
    })
  })

  it('under a name that nobody knows is unreachable too', async () => {
    expect(await failed(modelAt('http://no-such-host.invalid:11434'))).toMatchObject({ error_kind: 'transient', cause: 'unreachable' })
  })

  it('but something else, is not taken for Ollama', async () => {
    expect(await failed(modelAt(await rawServer('SSH-2.0-OpenSSH_9.6\r\n')))).toMatchObject({ error_kind: 'permanent', cause: 'unreachable' })
    raw?.close()
    const page = 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>'
    expect((await failed(modelAt(await rawServer(page)))).message).toMatch(/could not be read/)
    raw?.close()
    expect((await failed(modelAt(await rawServer('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull')))).message).toMatch(/could not be read/)
    raw?.close()
    expect((await failed(modelAt((await rawServer('no TLS')).replace('http:', 'https:')))).cause).toBe('unreachable')
  })

  it('hanging up without an answer is transient', async () => {
    expect(await failed(modelAt(await rawServer('')))).toMatchObject({ error_kind: 'transient' })
  })

  it('[bad.ollama-without-model] but without the model, is reported with the command that gets it', async () => {
    const { url } = await start(undefined)
    expect(await failed(modelAt(url), request({ model: 'llama3.2:3b' }))).toEqual({
      kind: 'failure', error_kind: 'permanent', cause: 'model_missing',
      message: `Ollama at ${url} has no model "llama3.2:3b". Get it with "ollama pull llama3.2:3b", or name another one.`,
    })
    expect(await failed(modelAt(url), request({ model: '  ' }))).toMatchObject({ cause: 'model_missing' })
    expect(stub?.chats).toEqual([])
  })

  it('with a model that cannot call functions is told before anything is sent', async () => {
    const { url, chats } = await start(undefined, { models: [{ name: 'qwen3:8b', capabilities: ['completion'] }] })
    expect(await failed(modelAt(url), request({ functions: [offer('files::read')] }))).toMatchObject({ error_kind: 'permanent', cause: 'other' })
    expect(chats).toEqual([])
  })
})

describe('a redirect', () => {
  it.each([301, 302, 307, 308])('[bad.ollama-redirects] with status %i is refused, and nothing reaches where it points', async (status) => {
    const other = await startStrictOllama({ models: [{ name: 'qwen3:8b' }] })
    const { url } = await start(undefined, { endpoints: { '/api/chat': { kind: 'redirect', location: `${other.url}/api/chat?key=secret`, status } } })
    const failure = await failed(modelAt(url))
    expect(failure).toMatchObject({ error_kind: 'permanent', cause: 'other' })
    expect(failure.message).toContain(`redirects to ${other.url};`)
    await stub?.stop()
    await start(undefined, { endpoints: { '*': { kind: 'redirect', location: other.url, status } } })
    expect((await failed(modelAt(stub?.url ?? ''))).message).toContain('it is not followed')
    expect(other.requests).toEqual([])
    await other.stop()
  })
})

const errors = Object.keys(stubErrors) as StubErrorName[]

describe('an error of Ollama', () => {
  it.each(errors)('%s becomes a failure of its kind, safe to show', async (error) => {
    const failure = await failedWith({ kind: 'error', error })
    expect(failure.error_kind).toBe(stubErrors[error].kind)
    expect(failure.message.length).toBeLessThan(450)
    expect(failure.message).not.toMatch(/\/home|c2VjcmV0|undefined|\[object/)
  })

  it.each(errors.filter((error) => stubErrors[error].in_stream))('%s in the middle of a stream is the same', async (error) => {
    expect(await failedWith({ kind: 'error', error, after: 2 })).toMatchObject({ error_kind: stubErrors[error].kind })
  })

  it.each(errors.filter((error) => stubErrors[error].in_stream))('%s is the same where it is a first line under a 200', async (error) => {
    expect(await failedWith({ kind: 'error', error }, {}, { version: '0.12.0' })).toMatchObject({ error_kind: stubErrors[error].kind })
  })

  it('that is a page of something before it shows none of the page', async () => {
    const failure = await failedWith({ kind: 'http', status: 502, body: '<html>internal 10.1.2.3</html>', type: 'text/html' })
    expect(failure).toMatchObject({ error_kind: 'transient' })
    expect(failure.message).not.toContain('10.1.2.3')
  })

  it.each([[404, '404 page not found', 'permanent'], [405, '405 method not allowed', 'permanent'], [500, '', 'transient'], [201, '{}', 'transient']])(
    'that is nothing but a %i counts by its status', async (status, body, kind) => {
      expect(await failedWith({ kind: 'http', status, body, type: 'text/plain' })).toMatchObject({ error_kind: kind, cause: 'other' })
    })

  it('that is no text is shown as JSON', async () => {
    expect((await failedWith({ kind: 'http', status: 400, body: '{"error":{"code":7}}' })).message).toContain('{"code":7}')
  })

  it.each([
    '{"error":"boom"}', '{"error":{"message":"boom"}}', '{"error":null}', '{"error parsing tool call":"x"}', 'null', '[]', '"x"', '7', '{"message":',
    '\u0000',
  ])('as the line %s in a stream ends the answer', async (line) => {
    expect(await failedWith({ kind: 'line', line, after: 2 })).toMatchObject({ kind: 'failure', error_kind: 'transient', cause: 'other' })
  })

  it('of a conversation that is too long is context_overflow, in every version', async () => {
    for (const version of ['0.12.11', '0.24.0', '0.33.0']) {
      const { url } = await start(undefined, { version })
      const asked = request({ messages: [{ role: 'system', text: '' }, { role: 'user', text: 'word '.repeat(9_000) }] })
      expect(await failed(modelAt(url), asked)).toMatchObject({ error_kind: 'context_overflow' })
      await stub?.stop()
    }
  })

  it('that two calls of gpt-oss run together is transient', async () => {
    const models = [{ name: 'gpt-oss:20b' }]
    const { url } = await start([{ tool_calls: [{ name: 'files__read' }, { name: 'files__read' }] }], { models })
    const asked = request({ model: 'gpt-oss:20b', functions: [offer('files::read')] })
    expect(await failed(modelAt(url), asked)).toMatchObject({ error_kind: 'transient' })
  })
})

describe('an answer that does not end', () => {
  it('[bad.ollama-cut] cut after any number of bytes is a transient failure, and the next answer is whole', async () => {
    let bytes = 0
    const whole: StubReply = { text: 'naïve 🧪', line_end: '\r\n', chunk_size: 2 }
    const { url } = await start(() => (bytes < 0 ? whole : { ...whole, fault: { kind: 'cut', bytes } }))
    const model = modelAt(url)
    bytes = -1
    expect(await reply(model)).toMatchObject({ text: 'naïve 🧪' })
    // each byte of the first chunk, its `\r` and `\n` too, then every few bytes to the end
    for (bytes = 0; ; bytes += bytes < 130 ? 1 : 13) {
      const result = await ask(model)
      if (result.kind === 'reply') break
      expect(result).toMatchObject({ error_kind: 'transient', cause: 'other' })
    }
    expect(bytes).toBeGreaterThan(4 * 115)
    expect(await reply(model)).toMatchObject({ text: 'naïve 🧪' })
  }, 30_000)

  it.each<StubFault>([{ kind: 'no_done' }, { kind: 'repeats' }])('but ends cleanly ($kind) is a transient failure', async (fault) => {
    const failure = await failedWith(fault)
    expect(failure).toMatchObject({ error_kind: 'transient', cause: 'other' })
    expect(failure.message).toContain('without saying that it is complete')
    await stub?.stop()
    expect(await failedWith(fault, {}, { version: '0.34.0' })).toMatchObject({ error_kind: 'transient' })
  })

  it('because Ollama never begins passes the first-byte limit', async () => {
    const { url } = await start([{ fault: { kind: 'silence' } }])
    const failure = await failed(modelAt(url, { first_byte_ms: 200 }))
    expect(failure).toMatchObject({ error_kind: 'transient', cause: 'other' })
    expect(failure.message).toContain('within 0.2 s')
  })

  it('because Ollama falls silent passes the idle limit', async () => {
    const { url } = await start([{ text: 'Some text.', fault: { kind: 'silence', after: 2 } }])
    expect((await failed(modelAt(url, { idle_ms: 200 }))).message).toContain('silent for 0.2 s')
  })
})

describe('a stop', () => {
  const moments: [string, Partial<StubOptions>, StubReply][] = [
    ['while facts are asked for', { endpoints: { '/api/show': { kind: 'silence' } } }, {}],
    ['while the model loads', {}, { fault: { kind: 'silence' } }],
    ['in the middle of a text', {}, { text: 'word '.repeat(500), chunk_ms: 5 }],
    ['in the silence of a call', {}, { text: 'Wait.', fault: { kind: 'silence', after: 1 } }],
  ]

  it.each(moments)('%s ends the call within 250 ms, its connection closed', async (_, options, scripted) => {
    const { url, stopped } = await start([scripted], options)
    const controller = new AbortController()
    const answer = ask(modelAt(url), request(), controller.signal)
    await new Promise((resolve) => setTimeout(resolve, 150))
    const before = performance.now()
    controller.abort()
    expect(await answer).toMatchObject({ kind: 'failure', cause: 'aborted' })
    expect(performance.now() - before).toBeLessThan(250)
    await stopped()
  })

  it('while a connection is not accepted ends the call within 250 ms', async () => {
    const url = await rawServer(null)
    const controller = new AbortController()
    const answer = ask(modelAt(url), request(), controller.signal)
    setTimeout(() => { controller.abort() }, 50)
    const before = performance.now()
    expect(await answer).toMatchObject({ cause: 'aborted' })
    expect(performance.now() - before).toBeLessThan(300)
  })

  it('that came before the call opens no connection', async () => {
    const { url, requests } = await start(undefined)
    expect(await ask(modelAt(url), request(), AbortSignal.abort())).toMatchObject({ cause: 'aborted' })
    expect(requests).toEqual([])
  })

  it('at any moment is a stop and nothing else', async () => {
    const { url } = await start([{ text: 'word '.repeat(20), chunk_ms: 1 }])
    const model = modelAt(url)
    for (let moment = 0; moment < 40; moment += 1) {
      const controller = new AbortController()
      const answer = ask(model, request(), controller.signal)
      setTimeout(() => { controller.abort() }, moment)
      const result = await answer
      if (result.kind === 'failure') expect(result.cause).toBe('aborted')
      else expect(result.text).toBe('word '.repeat(20))
    }
  }, 20_000)

  it('ends one call and leaves another of the same model alone', async () => {
    const { url } = await start([{ text: 'word '.repeat(20), chunk_ms: 5 }])
    const model = modelAt(url)
    const controller = new AbortController()
    const [stopped, left] = [ask(model, request(), controller.signal), reply(model)]
    setTimeout(() => { controller.abort() }, 50)
    expect(await stopped).toMatchObject({ cause: 'aborted' })
    expect(await left).toMatchObject({ text: 'word '.repeat(20) })
  })
})
