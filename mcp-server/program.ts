/*
 * The command line: words and options, nothing else. Each command is loaded when it is asked for. Errors are told here, one sentence each;
 * a stack only to those who ask for it.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { isHarnessError } from '../core/index'
import { commandContext, type CommandContext, type GlobalOptions } from './context'
import { exitCodes, type ExitCode } from './exit-codes'
import { packageVersion } from './invocation'
import { tell } from './screen'

/** How long something that is still open may keep the process, in ms. */
const lingerMs = 2_000

/** Runs the command line and leaves its exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  const program = makeProgram()
  // who reads our output may stop reading; that is no error of ours
  process.stdout.on('error', () => process.exit(exitCodes.failed))
  try {
    await program.parseAsync([...argv])
  } catch (error) {
    process.exitCode = tellError(error, program.opts<GlobalOptions>().verbose === true)
  }
  if (process.exitCode !== undefined) setTimeout(() => process.exit(), lingerMs).unref()
}

function tellError(error: unknown, verbose: boolean): ExitCode {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.unclear
  if (isHarnessError(error)) tell(error.message)
  else
    tell(
      `Something unexpected happened: ${error instanceof Error ? error.message : String(error)}`,
      verbose ? '' : 'Run it again with --verbose for the details.',
    )
  if (verbose && error instanceof Error) tell(error.stack ?? '', ...(error.cause instanceof Error ? [error.cause.stack ?? ''] : []))
  return exitCodes.failed
}

type Action<Options> = (context: CommandContext, options: Options, words: readonly string[]) => Promise<ExitCode | undefined>

/** Gives an action its context and takes its exit code. */
function run<Options>(action: Action<Options>) {
  return async (...given: unknown[]): Promise<void> => {
    const command = given.at(-1) as Command
    const code = await action(commandContext(command.optsWithGlobals<GlobalOptions>()), command.opts() as Options, command.args)
    if (code !== undefined) process.exitCode = code
  }
}

function makeProgram(): Command {
  const program = new Command('agent-harness')
    .description('Runs agents and functions (tools) so that turns survive anything, risky calls wait for a person, and every step is on record.')
    .version(packageVersion())
    .option('--home <folder>', 'the home (default: $AGENT_HARNESS_HOME, else ~/.agent-harness)')
    .option('--database <file>', 'the database; its folder is then the home')
    .option('--verbose', 'log everything to stderr, with stacks')
    .exitOverride()
    .showHelpAfterError('(add --help for what there is)')

  program
    .command('serve')
    .description('run turns until stopped')
    .option('--sample', 'with a small shop to try things on')
    .option('--port <number>', 'port on loopback, for the approval page, /v1 and /healthz', wholeNumber)
    .option('--demo', 'show the main job by itself, with a throw-away home, and end')
    .addOption(new Option('--decide <decision>', 'what the demo decides').choices(['approve', 'reject']))
    .option('--function-url <url>', 'where the demo sends its refund')
    .action(
      run<import('./commands/serve').ServeOptions>(async (context, options) => (await import('./commands/serve.js')).serveCommand(context, options)),
    )
  program
    .command('stdio')
    .description('the MCP server, started by an MCP client')
    .option('--sample', 'with a small shop to try things on')
    .option('--wait <seconds>', 'how long a call waits when the model does not say (default: 20, most 45)', wholeNumber)
    .action(
      run<import('./commands/stdio').StdioCommandOptions>(async (context, options) => {
        await (await import('./commands/stdio.js')).stdioCommand(context, options)
        return undefined
      }),
    )
  program
    .command('init')
    .description("write a commented harness.yaml and make an approver's key")
    .option('--approver <name>', 'name of the approver (default: yours on this system)')
    .action(run<{ approver?: string }>(async (context, options) => (await import('./commands/init.js')).initCommand(context, options)))
  addApprovals(program)
  addTokens(program)
  program
    .command('status')
    .description('how this home is, or how one turn is')
    .argument('[id]', 'a turn, or a session for its newest turn')
    .addOption(waitOption(0))
    .action(
      run<{ wait: number }>(async (context, options, [id]) =>
        id === undefined
          ? (await import('./commands/status.js')).statusCommand(context)
          : (await import('./commands/turns.js')).lookCommand(context, id, options),
      ),
    )
  program
    .command('audit')
    .description('the record')
    .command('verify')
    .description('check the record: ends with 0 good, 1 broken, 2 could not tell')
    .option('--key <file>', 'public key of the checkpoints (default: checkpoint.pub in the home)')
    .option('--checkpoints <file>', 'file of checkpoints (default: checkpoints.jsonl in the home)')
    .action(
      run<import('./commands/audit').VerifyOptions>(async (context, options) =>
        (await import('./commands/audit.js')).verifyCommand(context, options),
      ),
    )
  program
    .command('send')
    .description('send a message to an agent')
    .argument('<message>')
    .option('--agent <id>')
    .option('--model <name>')
    .option('--session <id>', 'go on in a session')
    .addOption(waitOption(60))
    .action(
      run<import('./commands/turns').SendOptions>(async (context, options, [message = '']) =>
        (await import('./commands/turns.js')).sendCommand(context, message, options),
      ),
    )
  program
    .command('run')
    .description('run one function (tool)')
    .argument('<function>')
    .argument('[arguments]', 'a JSON object', '{}')
    .addOption(waitOption(60))
    .action(
      run<{ wait: number }>(async (context, options, [id = '', args = '{}']) =>
        (await import('./commands/turns.js')).runCommand(context, id, args, options),
      ),
    )
  program
    .command('stop')
    .description('stop a turn')
    .argument('<id>', 'a turn, or a session for its running turn')
    .action(run(async (context, _options, [id = '']) => (await import('./commands/turns.js')).stopCommand(context, id)))
  program
    .command('functions')
    .description('the functions (tools) there are')
    .action(run(async (context) => (await import('./commands/functions.js')).functionsCommand(context)))
  inheritSettings(program)
  return program
}

function addApprovals(program: Command): void {
  const load = () => import('./commands/approvals.js')
  const approvals = program.command('approvals').description('what waits for a person, and the answer')
  approvals
    .command('list', { isDefault: true })
    .description('what waits')
    .option('--all', 'also what is decided')
    .action(run<{ all?: boolean }>(async (context, options) => (await load()).listCommand(context, options)))
  approvals
    .command('show')
    .description('one approval with its exact arguments')
    .argument('<id>', 'or the beginning of it')
    .action(run(async (context, _options, [id = '']) => (await load()).showCommand(context, id)))
  for (const decision of ['approve', 'reject'] as const) {
    approvals
      .command(decision)
      .description(`${decision} it, with an approver's passphrase`)
      .argument('<id>', 'or the beginning of it')
      .option('--approver <name>', 'who decides (default: the only one there is)')
      .option('--reason <text>', decision === 'reject' ? 'why; needed' : 'why')
      .action(
        run<import('./commands/approvals').DecideOptions>(async (context, options, [id = '']) =>
          (await load()).decideCommand(context, decision, id, options),
        ),
      )
  }
}

function addTokens(program: Command): void {
  const load = () => import('./commands/tokens.js')
  const tokens = program.command('tokens').description('programs that may ask over HTTP')
  tokens
    .command('list', { isDefault: true })
    .description('what there is')
    .action(run(async (context) => (await load()).listTokensCommand(context)))
  tokens
    .command('add')
    .description('make a token and show it once')
    .argument('<name>')
    .option('--principal <id>', 'whom it speaks for (default: n8n, made when it is not there)')
    .option('--callback <url...>', 'where its holder may be called back (default for n8n: n8n on this machine)')
    .option('--scopes <scopes>', "only these of the principal's scopes, with commas between", (text: string) => text.split(',').map((word) => word.trim()))
    .option('--expires <date>', 'until when it counts, like 2027-01-31')
    .action(
      run<import('./commands/tokens').AddTokenOptions>(async (context, options, [name = '']) => (await load()).addTokenCommand(context, name, options)),
    )
  tokens
    .command('signing-secret')
    .description('show the secret under which calls of functions are signed, for the credential in n8n')
    .action(run(async (context) => (await load()).signingSecretCommand(context)))
  tokens
    .command('remove')
    .description('let a token count no more, from the next request on')
    .argument('<name>')
    .action(run(async (context, _options, [name = '']) => (await load()).removeTokenCommand(context, name)))
}

/** Subcommands do not take over how errors of the command line are handled; so it is said for each. */
function inheritSettings(command: Command): void {
  for (const child of command.commands) {
    child.exitOverride().showHelpAfterError('(add --help for what there is)')
    inheritSettings(child)
  }
}

function waitOption(seconds: number): Option {
  return new Option('--wait <seconds>', 'how long to wait for the end').argParser(wholeNumber).default(seconds)
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}
