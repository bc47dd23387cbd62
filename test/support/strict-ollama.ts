/*
 * A model server that is strict about the wire of Ollama: a real HTTP server on 127.0.0.1 that answers 400 with `STUB: reason` and keeps a
 * violation for whatever Ollama would swallow or suffer. What it answers depends on the request alone, so a client may be killed and
 * come back. Ask `violations` after each test.
 */
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { checkChat, checkShow } from './strict-ollama/check-request'
import type { StubChat, StubModel, StubOptions, StubReply, StubScript } from './strict-ollama/script'
import { stubErrors } from './strict-ollama/errors'
import { sendError, sendFault, sendJson, sendStream, sendText } from './strict-ollama/send'
import { featuresOf } from './strict-ollama/versions'
import { planReply, repeatLines } from './strict-ollama/ways'
import { goTime, tokensOf } from './strict-ollama/wire'

export { stubErrors, type StubErrorName } from './strict-ollama/errors'
export type { StubCall, StubChat, StubFault, StubModel, StubOptions, StubReply, StubScript } from './strict-ollama/script'

export interface StubRequest {
  readonly method: string
  readonly path: string
  readonly body: unknown
  readonly headers: Readonly<Record<string, unknown>>
}

export interface StrictOllama {
  readonly url: string
  readonly port: number
  /** Every request, refused ones too, oldest first. */
  readonly requests: readonly StubRequest[]
  /** Bodies of the chat requests that were answered. */
  readonly chats: readonly StubChat[]
  /** Why requests were refused. A test expects it to be empty. */
  readonly violations: readonly string[]
  /** Times that a loaded model had to be loaded again. */
  readonly reloads: () => number
  /** Chat requests whose connection is open. */
  readonly open: () => number
  /**
   * To be called when what asked has been stopped: a connection still open 250 ms later is a violation, and so is any request from now
   * until `resumed`.
   */
  readonly stopped: () => Promise<void>
  readonly resumed: () => void
  readonly stop: () => Promise<void>
}

export async function startStrictOllama(options: StubOptions): Promise<StrictOllama> {
  const version = options.version ?? '0.33.0'
  const features = featuresOf(version)
  const requests: StubRequest[] = []
  const chats: StubChat[] = []
  const violations: string[] = []
  const open = new Set<ServerResponse>()
  const loaded = new Map<string, string>()
  const shows = new Map<string, number>()
  let reloads = 0
  let silenced = false

  const refuse = (response: ServerResponse, reason: string): ServerResponse => {
    violations.push(reason)
    return sendError(response, 400, `STUB: ${reason}`)
  }

  const server = createServer((request, response) => {
    void answer(request, response).catch((error: unknown) => {
      violations.push(`the stub failed: ${String(error)}`)
      response.destroy()
    })
  })

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    const path = request.url ?? ''
    const method = request.method ?? ''
    const text = await readBody(request)
    const body = text === null || text === '' ? undefined : readJson(text)
    requests.push({ method, path, body, headers: request.headers })
    if (silenced) return refuse(response, `${method} ${path} after its turn was stopped`)
    if (!/^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(request.headers.host ?? '')) {
      violations.push(`Host header ${String(request.headers.host)}`)
      return response.writeHead(403).end()
    }
    if (text === null || (method === 'POST' && body === undefined)) return refuse(response, 'the body is no UTF-8 JSON')
    const fault = options.endpoints?.[path] ?? options.endpoints?.['*']
    if (fault !== undefined && (await sendFault(response, fault, features))) return response
    switch (`${method} ${path}`) {
      case 'GET /':
      case 'HEAD /': return sendText(response, 200, 'Ollama is running')
      case 'GET /api/version': return sendJson(response, 200, { version })
      case 'GET /api/status':
        if (!features.status) return sendText(response, 404, '404 page not found')
        return sendJson(response, 200, { cloud: { disabled: false, source: 'none' } })
      case 'GET /api/tags': return sendJson(response, 200, { models: options.models.map((model) => tag(model, features.tag_capabilities)) })
      case 'GET /api/ps': return sendJson(response, 200, { models: options.models.filter((model) => loaded.has(model.name)) })
      case 'POST /api/show': return show(body, response)
      case 'POST /api/chat': return chat(body, response)
      default: return refuse(response, `${method} ${path} is not for a harness`)
    }
  }

  /** The model meant by a name, and whether the name insists on a local one. */
  const find = (name: string): { model: StubModel | undefined; mustBeLocal: boolean } => {
    const mustBeLocal = features.local_suffix && /:local$/i.test(name)
    const bare = (mustBeLocal ? name.slice(0, -':local'.length) : name).trim().toLowerCase()
    return { model: options.models.find(({ name: has }) => [bare, `${bare}:latest`].includes(has.toLowerCase())), mustBeLocal }
  }

  const isRemote = (model: StubModel): boolean =>
    model.way === 'D' || model.remote_host !== undefined || (model.turns_cloud === true && (shows.get(model.name) ?? 0) > 0)

  const leaks = (name: string): boolean => options.policy !== 'cloud' && /(:|:[^/]*-)cloud(:local)?$/i.test(name.trim())

  const show = (body: unknown, response: ServerResponse): ServerResponse => {
    const complaint = checkShow(body)
    if (complaint !== null) return refuse(response, complaint)
    const name = (body as { model: string }).model
    if (leaks(name)) return refuse(response, `LEAK: ${name} was asked about, which goes to the cloud`)
    const { model, mustBeLocal } = find(name)
    if (model === undefined || (mustBeLocal && isRemote(model))) return sendError(response, 404, `model '${name}' not found`)
    const remote = isRemote(model)
    shows.set(model.name, (shows.get(model.name) ?? 0) + 1)
    const architecture = model.architecture ?? 'qwen3'
    return sendJson(response, 200, {
      modelfile: '', parameters: '', template: '', details: details(model), capabilities: capabilities(model), modified_at: goTime(0, 0),
      model_info: { 'general.architecture': architecture, [`${architecture}.context_length`]: model.context_length ?? 40_960 },
      ...(remote ? remoteFacts(model) : {}),
    })
  }

  const chat = (body: unknown, response: ServerResponse): unknown => {
    const name = (body as { model?: unknown }).model
    if (typeof name !== 'string' || name === '') return sendError(response, 400, 'model is required')
    if (leaks(name)) return refuse(response, `LEAK: a conversation was sent for ${name}, which goes to the cloud`)
    const { model, mustBeLocal } = find(name)
    if (model === undefined) return sendError(response, 404, `model '${name}' not found`)
    const can = capabilities(model)
    const complaint = checkChat(body, { thinking: can.includes('thinking') }, features)
    if (complaint !== null) return refuse(response, complaint)
    const asked = body as StubChat
    if (isRemote(model)) {
      if (mustBeLocal) return sendError(response, 404, `model '${name}' not found`)
      // of one that has only just turned, nobody could know
      const known = model.turns_cloud !== true
      if (options.policy !== 'cloud' && known) return refuse(response, `LEAK: a conversation was sent for ${name}, an alias of a cloud model`)
    }
    const { think } = asked
    const toolless = asked.tools !== undefined && !can.includes('tools')
    if (toolless) return sendError(response, 400, `registry.ollama.ai/library/${model.name} does not support tools`)
    if (think !== undefined && think !== false && !can.includes('thinking')) return sendError(response, 400, `"${name}" does not support thinking`)
    if (typeof think === 'string' && !/^gpt-?oss$/.test(model.architecture ?? '')) {
      return sendError(response, 400, `think value "${think}" is not supported for this model`)
    }
    if (reloadsFor(model, asked)) return refuse(response, `num_ctx or shift of ${model.name} differ from what it was loaded with`)
    chats.push(asked)
    open.add(response)
    response.once('close', () => open.delete(response))
    const meant = isRemote(model) ? { ...model, remote_host: model.remote_host ?? cloudHost } : model
    return answerChat(response, asked, meant, replyAt(options.script, asked, answersSinceUser(asked)))
  }

  const reloadsFor = (model: StubModel, { options: given, shift }: StubChat): boolean => {
    const wanted = JSON.stringify([given?.num_ctx, shift])
    const before = loaded.get(model.name)
    loaded.set(model.name, wanted)
    if (before === undefined || before === wanted) return false
    reloads += 1
    return true
  }

  const allClosed = async (): Promise<void> => {
    const until = performance.now() + 250
    while (open.size > 0 && performance.now() < until) await wait(5)
  }

  const answerChat = async (response: ServerResponse, asked: StubChat, model: StubModel, reply: StubReply): Promise<unknown> => {
    const window = Math.min(asked.options?.num_ctx ?? 4_096, model.context_length ?? 40_960)
    const whole = asked.messages.reduce((sum, message) => sum + tokensOf(message.content), 0) + tokensOf(JSON.stringify(asked.tools ?? []))
    if (whole > window && (model.way === 'M' || (features.truncate && asked.truncate === false))) {
      return sendError(response, 400, overflowText(whole, window, features.llama_server))
    }
    // what the defaults do: the newest half is read, and nothing says so
    const read = whole > window ? Math.floor(window / 2) + 2 : whole
    if (reply.load_ms !== undefined) await wait(reply.load_ms, undefined, { ref: false })
    if (reply.fault !== undefined && (await sendFault(response, reply.fault, features))) return response
    const plan = planReply(reply, asked, model, features, read)
    if (plan.unreadable) return sendError(response, 500, stubErrors.call_harmony.text)
    return sendStream(response, plan, reply, repeatLines(asked, features))
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, '127.0.0.1', () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${String(port)}`, port, requests, chats, violations,
    reloads: () => reloads,
    open: () => open.size,
    stopped: async () => {
      silenced = true
      await allClosed()
      if (open.size > 0) violations.push('a connection was open 250 ms after its turn was stopped')
    },
    resumed: () => { silenced = false },
    stop: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => { resolve() }))
      server.closeAllConnections()
      await closed
      await allClosed()
    },
  }
}

function capabilities(model: StubModel): readonly string[] {
  return model.capabilities ?? ['completion', 'tools']
}

function details(model: StubModel): Record<string, unknown> {
  const family = model.architecture ?? 'qwen3'
  return { parent_model: '', format: 'gguf', family, families: [family], parameter_size: '8.2B', quantization_level: 'Q4_K_M' }
}

function tag(model: StubModel, withCapabilities: boolean): Record<string, unknown> {
  return {
    name: model.name, model: model.name, modified_at: goTime(0, 0), size: 5_225_388_164, details: details(model),
    digest: createHash('sha256').update(model.name).digest('hex'),
    ...(withCapabilities ? { capabilities: capabilities(model) } : {}),
    ...(model.remote_host !== undefined || model.way === 'D' ? remoteFacts(model) : {}),
  }
}

const cloudHost = 'https://ollama.com:443'

function remoteFacts(model: StubModel): Record<string, unknown> {
  return { remote_model: model.remote_model ?? 'gpt-oss:120b', remote_host: model.remote_host ?? cloudHost }
}

function overflowText(tokens: number, window: number, inner: boolean): string {
  if (!inner) return 'the input length exceeds the context length'
  const message = `request (${String(tokens)} tokens) exceeds the available context size (${String(window)} tokens), try increasing it`
  return JSON.stringify({ error: { code: 400, message, type: 'exceed_context_size_error', n_prompt_tokens: tokens, n_ctx: window } })
}

function answersSinceUser({ messages }: StubChat): number {
  const lastUser = messages.findLastIndex((message) => message.role === 'user')
  return messages.slice(lastUser + 1).filter((message) => message.role === 'assistant').length
}

function replyAt(script: StubScript | undefined, chat: StubChat, step: number): StubReply {
  if (script === undefined) return { text: 'ok' }
  return typeof script === 'function' ? script(chat, step) : (script[Math.min(step, script.length - 1)] ?? { text: 'ok' })
}

/** Null for what is no UTF-8. */
async function readBody(request: IncomingMessage): Promise<string | null> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts))
  } catch {
    return null
  }
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
