/*
 * The driver for Ollama, over its own client package and our own fetch. Before each call it makes sure that the model is local, unless
 * the cloud is allowed, and asks the server for it each time: an alias can be pointed elsewhere between two calls. It never retries.
 */
import { Ollama, type ChatRequest } from 'ollama'
import type { Authority } from '../authority'
import { silentLog, type Log } from '../log'
import type { Model, ModelFacts, ModelFailure, ModelProbe, ModelReply, ModelRequest } from './model'
import { abortedFailure, cloudFailure, failure, farFailure, failureOf, missingFailure, shown } from './ollama-errors'
import { openCall, type OllamaCall } from './ollama-fetch'
import { hasLocalSuffix, hostLocality, isCloudName, saysRemote, serverLocality, staysLocal } from './ollama-locality'
import { wireNames } from './ollama-names'
import { collectAnswer, replyFrom } from './ollama-reply'
import { callTrouble, isCallTrouble } from './ollama-trouble'
import { ollamaUrl } from './ollama-url'
import { isAtLeast, readVersion, wireChat, type Version, type WireFacts } from './ollama-wire'

type OllamaSettings = Authority['models']['ollama']

/** Requests that a server answers from its files; ms. */
const factsLimitMs = 15_000
const probeLimitMs = 2_800
const probedModels = 20
/** From this version `name:local` is refused when the name leads to the cloud. */
const knowsLocalSuffix: Version = [0, 18, 0]

/**
 * A model port on the Ollama server at `settings.url`. `num_ctx` in tokens, limits in ms. Throws `bad_config` on an address that cannot
 * be used; opens no connection by itself.
 */
export function ollamaModel(settings: OllamaSettings, options: { readonly log?: Log } = {}): Model {
  const url = ollamaUrl(settings.url)
  const log = options.log ?? silentLog
  return {
    provider: 'ollama',
    generate: async (request, signal) => {
      const started = performance.now()
      const line = openLine(url, settings, signal, !request.allow_cloud)
      const result = await generate(request, line, signal).catch((error: unknown) =>
        signal.aborted ? abortedFailure() : failureOf(error, { ...settings, url, model: request.model }))
      line.close()
      const facts = { provider: 'ollama', model: request.model, milliseconds: Math.round(performance.now() - started) }
      if (result.kind === 'reply') log.debug({ ...facts, stop_reason: result.stop_reason, ...result.usage }, 'model answered')
      else log.warn({ ...facts, kind: result.error_kind, cause: result.cause }, 'model call failed')
      return result
    },
    probe: () => probe(url, settings, log),
  }
}

/** The connections of one call of the port; closed together, so that none outlives it. */
interface Line {
  readonly url: string
  readonly settings: OllamaSettings
  /** Answers that come whole: facts about server and models. */
  facts(): Ollama
  /** An answer that comes as a stream of lines. */
  chat(): Ollama
  close(): void
}

function openLine(url: string, settings: OllamaSettings, signal: AbortSignal, onlyLocal: boolean): Line {
  const calls: OllamaCall[] = []
  const client = (stream: boolean, limitMs: number): Ollama => {
    const call = openCall({
      url, signal, stream, only_local: onlyLocal,
      first_byte_ms: Math.min(settings.first_byte_ms, limitMs), idle_ms: Math.min(settings.idle_ms, limitMs),
    })
    calls.push(call)
    return new Ollama({ host: url, fetch: call.fetch })
  }
  return {
    url, settings,
    facts: () => client(false, factsLimitMs),
    chat: () => client(true, Infinity),
    close: () => { for (const call of calls) call.close() },
  }
}

async function generate(request: ModelRequest, line: Line, signal: AbortSignal): Promise<ModelReply | ModelFailure> {
  if (signal.aborted) return abortedFailure()
  const { url, settings } = line
  const refusal = refuse(request, url)
  if (refusal !== null) return refusal
  const asked = request.model.trim()
  const [version, shownModel] = await Promise.all([serverVersion(line), showModel(line, asked)])
  if (shownModel.remote && !request.allow_cloud) return cloudFailure(asked, 'is an alias of a cloud model')
  if (request.functions.length > 0 && !(shownModel.capabilities?.includes('tools') ?? true)) {
    return failure('permanent', 'other', `Model "${shown(asked)}" cannot call functions. Use one that has "tools" in "ollama show".`)
  }
  const local = !request.allow_cloud && isAtLeast(version, knowsLocalSuffix) && !hasLocalSuffix(asked)
  const facts: WireFacts = {
    model: local ? `${asked}:local` : asked, num_ctx: Math.min(shownModel.context_length ?? settings.num_ctx, settings.num_ctx),
    thinking: shownModel.capabilities?.includes('thinking') ?? false, levels: shownModel.gpt_oss, version,
  }
  const names = wireNames(request.functions.map((offer) => offer.id))
  const wire = wireChat(request, facts, names)
  const characters = wire.messages.reduce((sum, message) => sum + message.content.length, 0)
  try {
    // the client's types lag behind the wire; it sends every field it is given
    const chunks = await line.chat().chat(wire as unknown as ChatRequest & { stream: true })
    return replyFrom(await collectAnswer(chunks, request.allow_cloud), { model: request.model, names, characters })
  } catch (error) {
    if (!local || failureOf(error, { ...settings, url, model: asked }).cause !== 'model_missing') throw error
    // not found under `:local` although it was there a moment ago: gone, or pointed to the cloud meanwhile
    const again = await showModel(line, asked)
    return again.remote ? cloudFailure(asked, 'has become an alias of a cloud model') : missingFailure(asked, url)
  }
}

/** What name and address alone say, before anything is sent. */
function refuse(request: ModelRequest, url: string): ModelFailure | null {
  if (request.model.trim() === '') return failure('permanent', 'model_missing', 'No model is named. Name one that "ollama list" shows.')
  if (request.allow_cloud) return null
  if (isCloudName(request.model)) return cloudFailure(request.model, 'runs on ollama.com, as its name says')
  const locality = hostLocality(url)
  if (locality === null || staysLocal(locality)) return null
  return farFailure(url)
}

/** Null when the server does not tell; without it the call goes on as for an old server. */
async function serverVersion(line: Line): Promise<Version | null> {
  try {
    return readVersion((await line.facts().version()).version)
  } catch (error) {
    if (isCallTrouble(error) && error.trouble !== 'status') throw error
    return null
  }
}

interface ShownModel {
  /** Null when the server does not tell (before 0.6). */
  readonly capabilities: readonly string[] | null
  /** Trained window, tokens. */
  readonly context_length: number | null
  readonly remote: boolean
  readonly gpt_oss: boolean
}

async function showModel(line: Line, model: string): Promise<ShownModel> {
  const answer = (await line.facts().show({ model })) as unknown
  if (typeof answer !== 'object' || answer === null || 'error' in answer) throw callTrouble('bad_answer')
  const { capabilities, model_info, details } = answer as { capabilities?: unknown; model_info?: unknown; details?: { family?: unknown } | null }
  const facts = (typeof model_info === 'object' && model_info !== null ? model_info : {}) as Record<string, unknown>
  const architecture = facts['general.architecture']
  const trained = facts[`${String(architecture)}.context_length`]
  return {
    capabilities: Array.isArray(capabilities) ? capabilities.filter((entry) => typeof entry === 'string') : null,
    context_length: typeof trained === 'number' && Number.isInteger(trained) && trained > 0 ? trained : null,
    remote: saysRemote(answer),
    gpt_oss: [architecture, details?.family].some((name) => name === 'gptoss' || name === 'gpt-oss'),
  }
}

async function probe(url: string, settings: OllamaSettings, log: Log): Promise<ModelProbe> {
  const signal = AbortSignal.timeout(probeLimitMs)
  const line = openLine(url, settings, signal, false)
  try {
    const [answer, locality] = await Promise.all([line.facts().list() as Promise<unknown>, serverLocality(url, signal)])
    const listed = (answer as { models?: unknown } | null)?.models
    if (!Array.isArray(listed)) throw callTrouble('bad_answer')
    const entries = listed.map(readTag).filter((entry) => entry !== null).sort((left, right) => (left.name < right.name ? -1 : 1))
    // tags have no capabilities before 0.30; asking about a cloud name would itself go to the cloud
    const unknown = entries.filter((entry) => entry.capabilities === null && !entry.cloud).slice(0, probedModels)
    const shows = new Map(await Promise.all(unknown.map(async ({ name }) => [name, await showModel(line, name).catch(() => null)] as const)))
    const models = entries.map(({ name, capabilities, cloud }): ModelFacts => {
      const show = shows.get(name) ?? null
      return {
        name, locality: cloud || show?.remote === true ? 'cloud' : locality,
        functions: (capabilities ?? show?.capabilities ?? []).includes('tools'),
      }
    })
    return { address: url, reachable: true, problem: null, models }
  } catch (error) {
    const problem = signal.aborted
      ? `Ollama at ${url} did not answer within 3 s. It may be busy loading a model; else start it with "ollama serve", or set OLLAMA_HOST.`
      : failureOf(error, { ...settings, url, model: null }).message
    log.debug({ provider: 'ollama', problem }, 'model server not usable')
    return { address: url, reachable: false, problem, models: [] }
  } finally {
    line.close()
  }
}

interface Tag {
  readonly name: string
  readonly capabilities: readonly string[] | null
  readonly cloud: boolean
}

function readTag(value: unknown): Tag | null {
  if (typeof value !== 'object' || value === null) return null
  const { name, model, capabilities } = value as { name?: unknown; model?: unknown; capabilities?: unknown }
  const called = typeof name === 'string' && name !== '' ? name : model
  if (typeof called !== 'string' || called === '') return null
  return {
    name: called, cloud: isCloudName(called) || saysRemote(value),
    capabilities: Array.isArray(capabilities) ? capabilities.filter((entry) => typeof entry === 'string') : null,
  }
}
