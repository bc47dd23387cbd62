/* What every command starts from: which home, which log, how to open the harness there. Opening makes a home where there is none. */
import { homeFolder, openHarness, openHome, type Home, type HomeOptions, type Log, type OpenHarness } from '../core/index'
import { dirname, resolve } from 'node:path'
import { invocationFor, type Invocation } from './invocation'
import { stderrLog } from './logging'
import { sampleFor, type SampleChoice } from './sample'

/** Options that every command takes. */
export interface GlobalOptions {
  readonly home?: string
  readonly database?: string
  readonly verbose?: boolean
}

export interface OpenChoice {
  readonly program: 'serve' | 'stdio' | 'command'
  /** Run turns here if nobody else does. */
  readonly worker: boolean
  /** Default: as the home has it. */
  readonly sample?: SampleChoice
  /** Told what happens in the sample shop. */
  readonly onSample?: (line: string) => void
}

export interface CommandContext {
  readonly globals: GlobalOptions
  /** The home's folder; it may not exist yet. */
  readonly folder: string
  readonly command: Invocation
  readonly log: Log
  openHome(): Promise<Home>
  open(choice: OpenChoice): Promise<OpenHarness>
}

export function commandContext(globals: GlobalOptions, env: Readonly<Record<string, string | undefined>> = process.env): CommandContext {
  const log = stderrLog({ verbose: globals.verbose === true, level: env['AGENT_HARNESS_LOG'] })
  const folder = globals.database === undefined ? homeFolder(globals.home, env) : dirname(resolve(globals.database))
  const homeOptions: HomeOptions = globals.database === undefined ? {} : { databasePath: globals.database }
  const openOurHome = (): Promise<Home> => openHome(folder, homeOptions)
  return {
    globals,
    folder,
    log,
    command: invocationFor({ folder, database: globals.database === undefined ? undefined : resolve(globals.database) }),
    openHome: openOurHome,
    async open({ program, worker, sample = 'as_it_is', onSample }) {
      const home = await openOurHome()
      const shop = await sampleFor(home, sample)
      const given = { home, env, log, program, worker }
      if (shop === null) return openHarness(given)
      // the shop stands wherever turns may run, before they do
      const closeShop = worker
        ? await shop.open(
            onSample ??
              ((line) => {
                log.info({ shop: line }, 'sample shop')
              }),
          )
        : () => Promise.resolve()
      try {
        const harness = await openHarness({ ...given, overlay: shop.functions })
        return {
          ...harness,
          close: async () => {
            await harness.close()
            await closeShop()
          },
        }
      } catch (error) {
        await closeShop()
        await shop.undo()
        throw error
      }
    },
  }
}
