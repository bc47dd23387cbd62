/* stdio: the MCP server for a client that starts it. */
import type { CommandContext } from '../context'
import { serveStdio } from '../stdio'
import { workerIsKnown } from '../waiting'

export async function stdioCommand(context: CommandContext, { sample }: { readonly sample?: boolean }): Promise<void> {
  await serveStdio({
    command: context.command,
    log: context.log,
    open: async () => {
      const harness = await context.open({ program: 'stdio', worker: true, sample: sample === true ? 'on' : 'as_it_is' })
      await workerIsKnown(harness)
      return harness
    },
  })
}
