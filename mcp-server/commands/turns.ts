/* send, run and stop: what a person asks of the harness from the command line, as the local principal. */
import { HarnessError, isHarnessError, parseStrictJson, type Json, type OpenHarness } from '../../core/index'
import type { CommandContext } from '../context'
import { exitCodes, type ExitCode } from '../exit-codes'
import { follow } from '../follow'
import { print, tell } from '../screen'
import { workerIsKnown } from '../waiting'

export interface WaitOptions {
  /** Seconds. */
  readonly wait: number
}

export interface SendOptions extends WaitOptions {
  readonly agent?: string
  readonly model?: string
  readonly session?: string
}

/** Opens the harness so that a turn gets run: here, unless another process does. */
async function withHarness(context: CommandContext, work: (harness: OpenHarness) => Promise<ExitCode>): Promise<ExitCode> {
  const harness = await context.open({ program: 'command', worker: true })
  try {
    await workerIsKnown(harness)
    return await work(harness)
  } finally {
    await harness.close()
  }
}

export async function sendCommand(context: CommandContext, message: string, { agent, model, session, wait }: SendOptions): Promise<ExitCode> {
  return withHarness(context, async (harness) => {
    const caller = harness.localCaller('command_line')
    const { turn_id } = await harness.send(
      {
        message,
        ...(agent === undefined ? {} : { agent }),
        ...(model === undefined ? {} : { model }),
        ...(session === undefined ? {} : { session_id: session }),
      },
      caller,
    )
    return follow(harness, caller, context.command, { turnId: turn_id, seconds: wait, untilHeld: true, what: `agent ${agent ?? 'assistant'}` })
  })
}

export async function runCommand(context: CommandContext, functionId: string, argumentText: string, { wait }: WaitOptions): Promise<ExitCode> {
  const args = readArguments(argumentText)
  return withHarness(context, async (harness) => {
    const caller = harness.localCaller('command_line')
    const { turn_id } = await harness.trigger({ call: { function_id: functionId, arguments: args } }, caller)
    return follow(harness, caller, context.command, { turnId: turn_id, seconds: wait, untilHeld: true, what: functionId })
  })
}

function readArguments(text: string): Json {
  try {
    return parseStrictJson(text, { bytes: 16 << 20 })
  } catch (error) {
    if (!isHarnessError(error)) throw error
    throw new HarnessError(error.code, `The arguments cannot be used. ${error.message} Write them as one word, e.g. '{"order":"A-1001"}'.`)
  }
}

/** `status ID`: one turn, or the newest of a session, waited for if asked. */
export async function lookCommand(context: CommandContext, id: string, { wait }: WaitOptions): Promise<ExitCode> {
  // looking alone must not set turns going
  const harness = await context.open({ program: 'command', worker: wait > 0 })
  try {
    if (wait > 0) await workerIsKnown(harness)
    const caller = harness.localCaller('command_line')
    const view = await harness.status(id.startsWith('s_') ? { session_id: id } : { turn_id: id }, caller)
    if (view === null) throw new HarnessError('not_found', `There is no turn or session ${id} that you may see. Check the id.`)
    return await follow(harness, caller, context.command, { turnId: view.turn_id, seconds: wait, untilHeld: false, what: 'its end' })
  } finally {
    await harness.close()
  }
}

export async function stopCommand(context: CommandContext, id: string): Promise<ExitCode> {
  const harness = await context.open({ program: 'command', worker: false })
  try {
    const caller = harness.localCaller('command_line')
    const view = id.startsWith('t_') ? await harness.status({ turn_id: id }, caller) : null
    if (id.startsWith('t_') && view === null) throw new HarnessError('not_found', `There is no turn ${id} that you may see. Check the id.`)
    const { stopping } = await harness.stop(view === null ? { session_id: id } : { session_id: view.session_id, turn_id: view.turn_id }, caller)
    if (stopping) {
      print(`${id} is being stopped.`)
      tell((await harness.overview()).worker)
    } else print(`${id} has nothing to stop: it is over already.`)
    return exitCodes.done
  } finally {
    await harness.close()
  }
}
