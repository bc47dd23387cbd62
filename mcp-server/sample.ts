/*
 * The sample shop as part of a home. Which port it has is kept in the home, because a function's address is part of what an approval is
 * about: another port at the next start would void every answer. serve and stdio turn it on, serve without --sample turns it off.
 */
import { createServer, type AddressInfo } from 'node:net'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HarnessError, type FunctionEntry, type Home } from '../core/index'
import { sampleFunctions, startSampleShop } from './sample-shop'

export type SampleChoice = 'on' | 'off' | 'as_it_is'

export interface Sample {
  readonly functions: readonly FunctionEntry[]
  /** Lets the shop stand here, unless another process has it; then takes it over when that one ends. Answers the way to stop. */
  open(say: (line: string) => void): Promise<() => Promise<void>>
  /** Undoes turning it on, where opening the harness with it failed. */
  undo(): Promise<void>
}

const takeOverMs = 2_000

/** The sample of this home, null when it has none. */
export async function sampleFor(home: Home, choice: SampleChoice): Promise<Sample | null> {
  const file = join(home.folder, 'sample.json')
  const known = await readPort(file)
  if (choice === 'off') await rm(file, { force: true })
  if (choice === 'off' || (choice === 'as_it_is' && known === null)) return null
  const port = known ?? (await choosePort(file))
  return {
    functions: sampleFunctions(`http://127.0.0.1:${String(port)}`),
    undo: async () => {
      if (known === null) await rm(file, { force: true })
    },
    async open(say) {
      let stop: (() => Promise<void>) | null = null
      const stand = async (): Promise<void> => {
        const shop = await startSampleShop({ port, signingKey: home.callSigningKey, log: say })
        if (!shop.alreadyRunning) stop = () => shop.stop()
      }
      await stand()
      // what fails here fails again at the call, which then says so
      const retry = setInterval(() => {
        if (stop === null) stand().catch(() => undefined)
      }, takeOverMs).unref()
      return async () => {
        clearInterval(retry)
        await stop?.()
      }
    },
  }
}

async function readPort(file: string): Promise<number | null> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  })
  if (text === null) return null
  const port = /^\{"port":(\d{1,5})\}$/.exec(text.trim())?.[1]
  if (port === undefined) throw new HarnessError('bad_config', 'sample.json in the home is not as this program writes it. Remove it.')
  return Number(port)
}

/** A port that is free now; of processes that choose at once all get the first one's. */
async function choosePort(file: string): Promise<number> {
  const port = await freePort()
  await writeFile(file, JSON.stringify({ port }), { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  })
  return (await readPort(file)) ?? port
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => {
        resolve(port)
      })
    })
  })
}
