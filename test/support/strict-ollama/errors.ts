/* The errors of Ollama as it words them, with the status they come under. Ours is the kind that the driver has to make of them. */
import type { ModelErrorKind } from '../../../core/model/model'

export interface StubError {
  readonly status: number
  /** The value of `error`, or a whole body when it begins with `{"StatusCode"`. */
  readonly text: string
  /** May it also come as a line in a stream? */
  readonly in_stream: boolean
  readonly kind: ModelErrorKind
}

const inner = (code: number, message: string, type: string, more = ''): string =>
  `{"error":{"code":${String(code)},"message":${JSON.stringify(message)},"type":"${type}"${more}}}`

/** Texts as in the sources and threads; see the report on the wire. */
export const stubErrors = {
  bad_name: { status: 400, text: 'invalid model name', in_stream: false, kind: 'permanent' },
  no_tools: { status: 400, text: 'registry.ollama.ai/library/gemma3:4b does not support tools', in_stream: false, kind: 'permanent' },
  no_thinking: { status: 400, text: '"gemma3:4b" does not support thinking', in_stream: false, kind: 'permanent' },
  bad_body: { status: 400, text: 'unexpected EOF', in_stream: false, kind: 'permanent' },
  bad_option: { status: 500, text: 'option "num_ctx" must be of type integer', in_stream: false, kind: 'permanent' },
  bad_format: { status: 500, text: 'invalid format: "xml"; expected "json" or a valid JSON Schema object', in_stream: false, kind: 'permanent' },
  bad_schema: {
    status: 400, in_stream: false, kind: 'permanent',
    text: inner(400, 'JSON schema conversion failed: Unrecognized schema: {}', 'invalid_request_error'),
  },
  bad_grammar: {
    status: 400, in_stream: false, kind: 'permanent',
    text: inner(400, 'Failed to initialize samplers: failed to parse grammar', 'invalid_request_error'),
  },
  bad_template: {
    status: 500, in_stream: false, kind: 'permanent',
    text: 'Unable to generate parser for this template. Automatic parser generation failed',
  },
  bad_schema_old: { status: 500, text: 'invalid JSON schema in format', in_stream: false, kind: 'permanent' },
  context_inner: {
    status: 400, in_stream: true, kind: 'context_overflow',
    text: inner(
      400, 'request (9739 tokens) exceeds the available context size (8192 tokens), try increasing it', 'exceed_context_size_error',
      ',"n_prompt_tokens":9739,"n_ctx":8192',
    ),
  },
  context_prompt: {
    status: 400, in_stream: false, kind: 'context_overflow',
    text: 'the prompt is longer than the context length currently available to the model',
  },
  context_maximum: {
    status: 400, in_stream: false, kind: 'context_overflow',
    text: 'input length (9739 tokens) exceeds the model\'s maximum context length (8192 tokens)',
  },
  context_old: { status: 400, text: 'the input length exceeds the context length', in_stream: false, kind: 'context_overflow' },
  user_turn_gone: { status: 500, text: 'no user query found in messages', in_stream: false, kind: 'context_overflow' },
  queue_full: { status: 503, text: 'server busy, please try again.  maximum pending requests exceeded', in_stream: false, kind: 'rate_limited' },
  memory: { status: 500, text: 'llama-server process has terminated: signal: killed', in_stream: false, kind: 'transient' },
  memory_startup: { status: 500, text: 'llama-server reported out-of-memory during startup', in_stream: false, kind: 'transient' },
  memory_old: { status: 500, text: 'model requires more system memory (5.0 GiB) than is available (3.9 GiB)', in_stream: false, kind: 'transient' },
  memory_cuda: { status: 500, text: 'cudaMalloc failed: out of memory', in_stream: false, kind: 'transient' },
  load_stalls: { status: 500, text: 'timed out waiting for llama-server to start - progress 0.00 - ', in_stream: false, kind: 'transient' },
  runner_died: {
    status: 500, in_stream: true, kind: 'transient',
    text: 'model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, check ollama server logs',
  },
  runner_eof: { status: 500, text: 'an error was encountered while running the model: unexpected EOF', in_stream: true, kind: 'transient' },
  call_harmony: {
    status: 500, in_stream: true, kind: 'transient',
    text: 'error parsing tool call: raw=\'{"path":"/home/somebody/a.md"\', err=unexpected end of JSON input',
  },
  call_xml: { status: 500, text: 'XML syntax error on line 3: element <parameter> closed by </function>', in_stream: true, kind: 'transient' },
  call_json: { status: 500, text: 'failed to parse JSON: unexpected end of JSON input', in_stream: true, kind: 'transient' },
  call_unknown: { status: 500, text: 'tool \'files__invent\' not found', in_stream: true, kind: 'transient' },
  call_native: {
    status: 500, in_stream: true, kind: 'transient',
    text: 'llama-server returned invalid tool call arguments for "files__read": invalid character \'l\'',
  },
  call_peg: {
    status: 500, in_stream: true, kind: 'transient',
    text: 'llama-server chat error: map[code:500 message:The output does not match the expected peg-native format type:server_error]',
  },
  not_signed_in: {
    status: 401, in_stream: false, kind: 'auth_expired',
    text: '{"error":"unauthorized","signin_url":"https://ollama.com/connect?name=box&key=c2VjcmV0"}',
  },
  cloud_off: { status: 403, text: 'ollama cloud is disabled: remote model is unavailable', in_stream: false, kind: 'permanent' },
  cloud_quota: {
    status: 429, in_stream: false, kind: 'rate_limited',
    text: '{"StatusCode":429,"Status":"429 Too Many Requests","error":"you (somebody) have reached your session usage limit, upgrade for more"}',
  },
  cloud_busy: { status: 503, text: 'Server overloaded, please retry shortly (ref: 1)', in_stream: false, kind: 'transient' },
  cloud_gone: { status: 502, text: 'Post "https://ollama.com:443/api/chat?ts=1": EOF', in_stream: false, kind: 'transient' },
  cloud_pairs: { status: 400, text: 'Invalid tool usage: mismatch between tool calls and tool results', in_stream: false, kind: 'permanent' },
  foreign_host: { status: 400, text: 'this server cannot run this remote model', in_stream: false, kind: 'permanent' },
  host_header: { status: 403, text: '', in_stream: false, kind: 'permanent' },
} as const satisfies Record<string, StubError>

export type StubErrorName = keyof typeof stubErrors

/** Body and content type, as they come before the first chunk of a stream. */
export function errorBody({ text }: StubError): { body: string; type: string } {
  if (text.startsWith('{"StatusCode"')) return { body: text, type: 'application/x-ndjson' }
  if (text.startsWith('{"error":"')) return { body: text, type: 'application/json; charset=utf-8' }
  return { body: text === '' ? '' : JSON.stringify({ error: text }), type: 'application/json' }
}
