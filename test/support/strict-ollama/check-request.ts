/*
 * What the strict stub refuses although Ollama would take it: Ollama ignores a misspelt field, drops half of a schema and cuts a
 * conversation without a word, so a test against it would prove nothing. Each check says what is wrong, or null.
 */
import type { Features } from './versions'

type Record_ = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Record_ => typeof value === 'object' && value !== null && !Array.isArray(value)

function unknownKey(value: Record_, known: readonly string[], where: string): string | null {
  const key = Object.keys(value).find((name) => !known.includes(name))
  return key === undefined ? null : `unknown field ${JSON.stringify(key)} in ${where}`
}

/** The first complaint of several checks. */
function first(...checks: readonly (() => string | null)[]): string | null {
  for (const check of checks) {
    const complaint = check()
    if (complaint !== null) return complaint
  }
  return null
}

function firstOf<T>(values: readonly T[], check: (value: T, index: number) => string | null): string | null {
  return first(...values.map((value, index) => () => check(value, index)))
}

const chatFields = [
  'model', 'messages', 'tools', 'format', 'options', 'think', 'stream', 'keep_alive', 'truncate', 'shift', 'logprobs', 'top_logprobs',
  '_debug_render_only',
]

export interface CheckedModel {
  readonly thinking: boolean
}

export function checkChat(body: unknown, model: CheckedModel, features: Features): string | null {
  if (!isRecord(body)) return 'the body is no object'
  return first(
    () => unknownKey(body, chatFields, 'the request'),
    () => (typeof body['stream'] === 'boolean' ? null : 'stream is not said'),
    () => (typeof body['truncate'] === 'boolean' ? null : 'truncate is not said'),
    () => (typeof body['shift'] === 'boolean' ? null : 'shift is not said'),
    () => checkThink(body['think'], model, features),
    () => checkKeepAlive(body['keep_alive']),
    () => checkOptions(body['options']),
    () => checkFormat(body),
    () => (body['tools'] === undefined ? null : checkTools(body['tools'])),
    () => checkMessages(body['messages'], features),
  )
}

function checkThink(think: unknown, model: CheckedModel, features: Features): string | null {
  if (think === undefined) return model.thinking ? 'think is left to the server, for a model that can think' : null
  const levels = features.think_max ? ['low', 'medium', 'high', 'max'] : ['low', 'medium', 'high']
  return typeof think === 'boolean' || levels.includes(think as string) ? null : `think is ${JSON.stringify(think)}`
}

function checkKeepAlive(value: unknown): string | null {
  if (value === undefined || typeof value === 'number') return null
  return typeof value === 'string' && /^-?(\d+(\.\d+)?(ns|us|ms|s|m|h))+$/.test(value) ? null : `keep_alive ${JSON.stringify(value)} has no unit`
}

function checkFormat({ format, tools }: Record_): string | null {
  if (format === undefined) return null
  if (tools !== undefined) return 'format and tools together'
  return format === 'json' || isRecord(format) ? null : `format is ${JSON.stringify(format)}`
}

const integerOptions = [
  'num_ctx', 'num_batch', 'num_gpu', 'main_gpu', 'num_thread', 'num_predict', 'num_keep', 'top_k', 'seed', 'repeat_last_n', 'draft_num_predict',
]
const numberOptions = ['temperature', 'top_p', 'min_p', 'typical_p', 'repeat_penalty', 'presence_penalty', 'frequency_penalty']

function checkOptions(options: unknown): string | null {
  if (!isRecord(options)) return 'there are no options'
  if (options['num_ctx'] === undefined) return 'num_ctx is left to the server'
  return firstOf(Object.entries(options), ([name, value]) => {
    if (integerOptions.includes(name)) return Number.isInteger(value) ? null : `option ${name} is no integer`
    if (numberOptions.includes(name)) return typeof value === 'number' ? null : `option ${name} is no number`
    if (name === 'stop') return Array.isArray(value) && value.every((entry) => typeof entry === 'string') ? null : 'option stop is no list of texts'
    if (name === 'use_mmap') return typeof value === 'boolean' ? null : 'option use_mmap is no boolean'
    return `unknown option ${name}`
  })
}

function checkTools(tools: unknown): string | null {
  if (!Array.isArray(tools) || tools.length === 0) return 'tools is no list with something in it'
  const complaint = firstOf(tools as unknown[], checkTool)
  if (complaint !== null) return complaint
  const names = (tools as { function: { name: string } }[]).map((tool) => tool.function.name)
  return firstOf(names, (name, index) => {
    const other = names.find((candidate, place) => place !== index && candidate.includes(name))
    return other === undefined ? null : `the tool name ${name} is contained in ${other}`
  })
}

const namePattern = /^[A-Za-z0-9_]{1,64}$/

function checkTool(tool: unknown): string | null {
  if (!isRecord(tool) || tool['type'] !== 'function' || !isRecord(tool['function'])) return 'a tool that is no function'
  const { function: offered } = tool as { function: Record_ }
  const { name, description, parameters } = offered
  if (typeof name !== 'string' || !namePattern.test(name)) return `the tool name ${JSON.stringify(name)} is not taken everywhere`
  return first(
    () => unknownKey(tool, ['type', 'function'], 'a tool'),
    () => unknownKey(offered, ['name', 'description', 'parameters'], `tool ${name}`),
    () => (typeof description === 'string' ? null : `tool ${name} has no description`),
    () => (isParameters(parameters) ? null : `tool ${name} has no parameters.type and properties`),
    () => unknownKey(parameters as Record_, ['type', '$defs', 'items', 'required', 'properties'], `parameters of ${name} (Ollama drops it)`),
    () => checkMembers(parameters as Record_, name),
  )
}

function isParameters(value: unknown): boolean {
  return isRecord(value) && value['type'] === 'object' && isRecord(value['properties'])
}

const propertyFields = ['type', 'anyOf', 'items', 'description', 'enum', 'properties', 'required']

function checkProperty(property: unknown, where: string): string | null {
  if (!isRecord(property)) return `${where} is no schema`
  return first(
    () => unknownKey(property, propertyFields, `${where} (Ollama drops it)`),
    () => (property['anyOf'] === undefined ? null : firstOf(property['anyOf'] as unknown[], (part) => checkProperty(part, `${where}.anyOf`))),
    () => checkItems(property['items'], `${where}.items`),
    () => checkMembers(property, where),
  )
}

function checkMembers(schema: Record_, where: string): string | null {
  const properties = isRecord(schema['properties']) ? schema['properties'] : {}
  const required = schema['required']
  const names = Array.isArray(required) && required.every((name) => typeof name === 'string')
  if (required !== undefined && !names) return `required of ${where} is no list of names`
  return firstOf(Object.entries(properties), ([name, property]) => checkProperty(property, `${where}.${name}`))
}

/** Items survive whole, but references in them lead nowhere and patterns in them break the grammar. */
function checkItems(items: unknown, where: string): string | null {
  if (Array.isArray(items)) return firstOf(items as unknown[], (part) => checkItems(part, where))
  if (!isRecord(items)) return items === undefined || typeof items !== 'boolean' ? null : `${where} is a boolean`
  const bad = ['$ref', 'pattern'].find((keyword) => typeof items[keyword] === 'string')
  if (bad !== undefined) return `${where} holds ${bad}`
  return firstOf(Object.values(items), (part) => (typeof part === 'object' ? checkItems(part ?? undefined, where) : null))
}

interface AskedHere {
  readonly name: string
  readonly id: unknown
}

function checkMessages(messages: unknown, features: Features): string | null {
  if (!Array.isArray(messages) || messages.length === 0) return 'there are no messages'
  if ((messages[0] as Record_ | undefined)?.['role'] !== 'system') return 'the first message is not the system message'
  let open: AskedHere[] = []
  for (const [index, message] of (messages as unknown[]).entries()) {
    const where = `message ${String(index)}`
    if (!isRecord(message)) return `${where} is no object`
    const complaint = checkMessage(message, where)
    if (complaint !== null) return complaint
    if (message['role'] === 'tool') {
      const asked = open.shift()
      if (asked === undefined) return `${where} is a result without a call`
      const { tool_name, tool_call_id } = message
      if (tool_name !== asked.name) return `${where} is a result of ${JSON.stringify(tool_name)} where that of ${asked.name} is due`
      if (features.call_ids && (asked.id === undefined || tool_call_id !== asked.id)) return `${where} does not say which call it answers`
      continue
    }
    if (open.length > 0) return `a call of ${open[0]?.name ?? ''} has no result before ${where}`
    const calls = (message['tool_calls'] ?? []) as { id?: unknown; function: { name: string } }[]
    open = calls.map((call) => ({ name: call.function.name, id: call.id }))
  }
  return open.length > 0 ? `a call of ${open[0]?.name ?? ''} has no result` : null
}

const messageFields = ['role', 'content', 'thinking', 'images', 'tool_calls', 'tool_name', 'tool_call_id']

function checkMessage(message: Record_, where: string): string | null {
  const { role, content, thinking, images, tool_calls } = message
  return first(
    () => unknownKey(message, messageFields, where),
    () => (['system', 'user', 'assistant', 'tool'].includes(role as string) ? null : `${where} has the role ${JSON.stringify(role)}`),
    () => (typeof content === 'string' ? null : `the content of ${where} is no text`),
    () => (thinking === undefined || typeof thinking === 'string' ? null : `the thinking of ${where} is no text`),
    () => (role === 'assistant' || (thinking ?? tool_calls) === undefined ? null : `${where} thinks or calls but is not of the assistant`),
    () => (images === undefined || (Array.isArray(images) && images.every(isBase64)) ? null : `an image of ${where} is not base64`),
    () => (tool_calls === undefined ? null : checkCalls(tool_calls, where)),
  )
}

function checkCalls(calls: unknown, where: string): string | null {
  if (!Array.isArray(calls) || calls.length === 0) return `tool_calls of ${where} is no list with something in it`
  return firstOf(calls as unknown[], (call) => checkCall(call, where))
}

function isBase64(image: unknown): boolean {
  return typeof image === 'string' && image !== '' && /^[A-Za-z0-9+/]+={0,2}$/.test(image)
}

function checkCall(call: unknown, where: string): string | null {
  if (!isRecord(call) || !isRecord(call['function'])) return `${where} has a call that is no function`
  const asked = call['function']
  return first(
    () => unknownKey(call, ['id', 'function'], `a call of ${where}`),
    () => unknownKey(asked, ['index', 'name', 'arguments'], `a call of ${where}`),
    () => (typeof asked['name'] === 'string' && namePattern.test(asked['name']) ? null : `${where} has a call without a usable name`),
    () => (isRecord(asked['arguments']) ? null : `arguments of a call of ${where} are no object`),
  )
}

export function checkShow(body: unknown): string | null {
  if (!isRecord(body)) return 'the body is no object'
  return unknownKey(body, ['model', 'verbose'], 'the request') ?? (typeof body['model'] === 'string' ? null : 'no model is named')
}
