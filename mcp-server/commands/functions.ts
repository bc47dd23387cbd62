/* functions: what may be called here, with how. */
import type { CommandContext } from '../context'
import { exitCodes, type ExitCode } from '../exit-codes'
import { print, tell, visible } from '../screen'

export async function functionsCommand(context: CommandContext): Promise<ExitCode> {
  const harness = await context.open({ program: 'command', worker: false })
  try {
    const { functions } = await harness.list_functions({}, harness.localCaller('command_line'))
    if (functions.length === 0)
      tell(`There are no functions yet. Declare them in ${harness.home.configPath}, or try a sample with: ${context.command('serve --sample')}`)
    for (const { id, description, risk, side_effects, usually, schema } of functions) {
      print(
        `${id}  (${risk} risk, ${side_effects === 'none' ? 'no side effects' : `${side_effects}s`}; ` +
          `usually ${usually === 'runs' ? 'runs' : 'waits for a person'})`,
      )
      print(`  ${visible(description)}`, `  arguments: ${visible(JSON.stringify(schema['properties'] ?? {}))}`)
    }
    return exitCodes.done
  } finally {
    await harness.close()
  }
}
