/*
 * The tools on the official SDK. The low-level handlers are used, because ours are flat schemas and answers of one form already. A tool
 * never throws to a client, and its request's end is the end of its waiting only.
 */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CallToolRequestSchema, ListToolsRequestSchema, type CallToolResult, type ServerNotification } from '@modelcontextprotocol/sdk/types.js'
import type { Caller, Log, OpenHarness, TurnView } from '../core/index'
import { capped } from './capped'
import type { Surroundings } from './guidance'
import { packageVersion, type Invocation } from './invocation'
import { toolError, toToolError } from './mcp-error'
import { unknownArguments, type ToolArguments } from './tool-input'
import { makeTools } from './tools'

/** At least so often, in ms, a client that asked for progress hears of it. */
const progressEvery = 10_000

export interface ServerParts {
  readonly harness: OpenHarness
  readonly caller: Caller
  readonly command: Invocation
  readonly log: Log
  /** Default of `wait_seconds`. */
  readonly wait?: number | undefined
  /** Aborts when the client is gone: nobody waits any longer. */
  readonly gone: AbortSignal
}

export interface McpConnection {
  /** Resolves when no call is being answered, or after so many ms. */
  idle(withinMs: number): Promise<void>
}

/** Serves the tools on a transport. */
export async function serveTools(parts: ServerParts, transport: Transport): Promise<McpConnection> {
  const { harness, caller, command, log, gone } = parts
  const surroundings = (): Surroundings => ({
    command,
    hasApprover: harness.authority().approvers.some((approver) => approver.active),
    runsHere: harness.workerState().state === 'working',
  })
  const { server } = new McpServer(
    { name: 'agent-harness', title: 'Agent Harness', version: packageVersion() },
    { capabilities: { tools: {} }, instructions: instructionsFor(harness, surroundings()) },
  )
  const tools = makeTools(parts.wait)
  const running = new Set<Promise<unknown>>()

  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ name, title, description, inputSchema, annotations }) => ({
      name,
      title,
      description,
      inputSchema,
      annotations: { title, ...annotations },
    })),
  }))
  server.setRequestHandler(CallToolRequestSchema, async (request, extra) => {
    const { name, arguments: given = {}, _meta: meta } = request.params
    const token = meta?.progressToken
    const onLook = token === undefined ? undefined : progress(token, (notification) => extra.sendNotification(notification))
    const toolUse: unknown = meta?.['claudecode/toolUseId']
    const answer = callTool(name, given as ToolArguments, {
      signal: AbortSignal.any([extra.signal, gone]),
      toolUseId: typeof toolUse === 'string' ? toolUse : undefined,
      ...(onLook === undefined ? {} : { onLook }),
    })
    running.add(answer)
    return answer.finally(() => running.delete(answer))
  })
  server.onerror = (error) => log.warn({ problem: error.message }, 'mcp connection')
  await server.connect(transport)

  async function callTool(
    name: string,
    given: ToolArguments,
    context: { signal: AbortSignal; toolUseId: string | undefined; onLook?: OnLook },
  ): Promise<CallToolResult> {
    const tool = tools.find((candidate) => candidate.name === name)
    if (tool === undefined)
      return toolError(`There is no tool ${JSON.stringify(name.slice(0, 64))} here. There are: ${tools.map((one) => one.name).join(', ')}.`)
    const unknown = unknownArguments(tool.fields, given)
    if (unknown.length > 0) log.info({ tool: name, unknown: unknown.map((one) => one.slice(0, 64)) }, 'arguments that nobody asked for')
    try {
      const facts = capped(await tool.run(given, { harness, caller, surroundings, ...context }))
      return { content: [{ type: 'text', text: JSON.stringify(facts) }], structuredContent: facts }
    } catch (error) {
      return toToolError(error, log, name)
    }
  }

  return {
    async idle(withinMs) {
      await Promise.race([Promise.allSettled(running), new Promise((resolve) => setTimeout(resolve, withinMs))])
    },
  }
}

type OnLook = (view: TurnView, changed: boolean) => void

/** Progress must rise; how far a turn is, nobody knows, so it counts the messages. */
function progress(progressToken: string | number, send: (notification: ServerNotification) => Promise<void>): OnLook {
  let count = 0
  let last = performance.now()
  return (view, changed) => {
    if (!changed && performance.now() - last < progressEvery) return
    last = performance.now()
    count += 1
    const calls = view.calls.map((call) => `${call.function_id} ${call.status}`).join(', ')
    const message = `${view.state}${view.step === 0 ? '' : `, round ${String(view.step)}`}${calls === '' ? '' : `: ${calls}`}`.slice(0, 500)
    // a client that went away needs no progress
    send({ method: 'notifications/progress', params: { progressToken, progress: count, message } }).catch(() => undefined)
  }
}

/** Under 1,500 characters: clients cut longer ones. */
export function instructionsFor(harness: Pick<OpenHarness, 'workerState'>, { command, hasApprover, runsHere }: Surroundings): string {
  const { text } = harness.workerState()
  const who = runsHere
    ? 'This server runs turns itself: they pause when it exits and go on at its next start.'
    : `Another process holds the database and runs the turns; this server only writes requests and reads answers. ${text}`
  return [
    'Functions (tools) and agents under policy, approval and audit. run_function runs one function without a model; ' +
      'send_to_agent gives a task to an agent; list_functions says what there is.',
    'Every answer has state and next: do what next says. working: it goes on by itself, ask with get_turn. held: a person has to decide ' +
      'in a terminal; no tool here can decide, so do not retry, tell the user. completed, failed, cancelled: it is over.',
    'A turn is on disk before the answer and survives the end of this conversation; a time-out of a call ends the waiting only. ' +
      'When the outcome of a call is unknown, never repeat it: ask the user.',
    who,
    hasApprover ? '' : `Nobody can decide yet: the user has to run \`${command('init')}\` in a terminal once.`,
  ]
    .filter((line) => line !== '')
    .join('\n')
    .slice(0, 1_490)
}
