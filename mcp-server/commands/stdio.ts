/* stdio: the MCP server for a client that starts it. */
import { HarnessError } from '../../core/index'
import type { CommandContext } from '../context'
import { serveStdio } from '../stdio'
import { longestWait } from '../tools'
import { workerIsKnown } from '../waiting'

export interface StdioCommandOptions {
  readonly sample?: boolean
  readonly wait?: number
}

export async function stdioCommand(context: CommandContext, { sample, wait }: StdioCommandOptions): Promise<void> {
  if (wait !== undefined && wait > longestWait)
    throw new HarnessError('invalid_input', `--wait may be at most ${String(longestWait)} seconds: clients give up at 60.`)
  await serveStdio({
    command: context.command,
    log: context.log,
    wait,
    open: async () => {
      const harness = await context.open({ program: 'stdio', worker: true, sample: sample === true ? 'on' : 'as_it_is' })
      await workerIsKnown(harness)
      return harness
    },
  })
}
