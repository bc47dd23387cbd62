/* audit verify: checks a record that anybody may hand us, also read-only and with nobody serving it. Makes and changes nothing. */
import { createReadStream } from 'node:fs'
import { access, readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { HarnessError, isHarnessError, openHomeReadOnly, verifyDatabase } from '../../core/index'
import type { CommandContext } from '../context'
import { exitCodes, type ExitCode } from '../exit-codes'
import { print, visible } from '../screen'

export interface VerifyOptions {
  readonly key?: string
  readonly checkpoints?: string
}

const codes = { good: exitCodes.done, broken: exitCodes.failed, unknown: exitCodes.unclear } as const
const verdicts = { good: 'good', broken: 'broken', unknown: 'could not tell' } as const

export async function verifyCommand(context: CommandContext, { key, checkpoints }: VerifyOptions): Promise<ExitCode> {
  const home = await openHomeReadOnly(context.folder, context.globals.database === undefined ? {} : { databasePath: context.globals.database })
  const database = home.databasePath
  try {
    const report = await verifyDatabase(home, {
      ...(key === undefined ? {} : { publicKey: await readable(key, () => readFile(key, 'utf8')) }),
      ...(checkpoints === undefined
        ? {}
        : {
            checkpointLines: await readable(checkpoints, async () => {
              await access(checkpoints)
              return () => linesOf(checkpoints)
            }),
          }),
    })
    const { rows, chains, checkpoints: signed, unsealed_rows, erased_texts } = report
    print(`${verdicts[report.verdict]}: ${database}`)
    print(
      `${String(rows)} rows in ${String(chains)} chains, ${String(signed)} checkpoints, ${String(unsealed_rows)} rows after the last one, ` +
        `${String(erased_texts)} erased texts`,
    )
    for (const { kind, chain, seq, text } of report.problems)
      print(`problem  ${kind}${chain === null ? '' : `  ${visible(chain)}${seq === null ? '' : ` #${String(seq)}`}`}  ${visible(text)}`)
    if (report.more_problems > 0) print(`problem  … and ${String(report.more_problems)} more`)
    for (const why of report.could_not_tell) print(`unknown  ${visible(why)}`)
    return codes[report.verdict]
  } catch (error) {
    if (!isHarnessError(error)) throw error
    print(`${verdicts.unknown}: ${database}`, `unknown  ${error.message}`)
    return exitCodes.unclear
  }
}

async function readable<T>(file: string, read: () => Promise<T>): Promise<T> {
  return read().catch((error: unknown) => {
    throw new HarnessError('invalid_input', `${file} cannot be read.`, { cause: error })
  })
}

function linesOf(file: string): AsyncIterable<string> {
  return createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Infinity })
}
