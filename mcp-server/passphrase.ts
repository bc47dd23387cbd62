/*
 * Asks for a passphrase: hidden at a terminal, else the first line of stdin. Never from the command line or the environment, where other
 * programs can read it, and never echoed.
 */
import type { Readable } from 'node:stream'
import { HarnessError } from '../core/index'
import { exitCodes } from './exit-codes'

/** Longer than this is no passphrase but a wrong pipe. */
const longest = 1024

/** The passphrase as typed. Throws `invalid_input` when none came. */
export async function askPassphrase(question: string): Promise<string> {
  return process.stdin.isTTY ? hiddenLine(question) : firstLine(process.stdin)
}

/** A new passphrase, at a terminal typed twice. Throws `invalid_input` when the two differ. */
export async function askNewPassphrase(question: string): Promise<string> {
  const first = await askPassphrase(question)
  if (process.stdin.isTTY && (await hiddenLine('The same again: ')) !== first) {
    throw new HarnessError('invalid_input', 'The two passphrases differ. Nothing was made; try again.')
  }
  return first
}

async function firstLine(input: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of input as AsyncIterable<Buffer>) {
    const end = chunk.indexOf(10)
    chunks.push(end < 0 ? chunk : chunk.subarray(0, end))
    size += chunk.length
    if (end >= 0 || size > longest) break
  }
  const line = Buffer.concat(chunks).toString('utf8').replace(/\r$/, '')
  if (line === '')
    throw new HarnessError('invalid_input', 'No passphrase came. Run this at a terminal, or give the passphrase as the first line of stdin.')
  if (size > longest && line.length > longest) throw new HarnessError('invalid_input', `A passphrase may have at most ${String(longest)} characters.`)
  return line
}

function hiddenLine(question: string): Promise<string> {
  const { stdin, stderr } = process
  return new Promise((resolve) => {
    let typed: string[] = []
    const finish = (): void => {
      stdin.off('data', onData)
      stdin.setRawMode(false)
      stdin.pause()
      stderr.write('\n')
    }
    const onData = (data: Buffer): void => {
      for (const key of data.toString('utf8')) {
        if (key === '\r' || key === '\n' || key === '\u0004') {
          finish()
          resolve(typed.join(''))
          return
        }
        if (key === '\u0003') {
          finish()
          process.exit(exitCodes.interrupted)
        }
        if (key === '\u0008' || key === '\u007f') typed.pop()
        else if (key === '\u0015') typed = []
        else if (key >= ' ' && typed.length < longest) typed.push(key)
      }
    }
    // hidden before asked: a quick answer must not show either
    stdin.setRawMode(true)
    stdin.resume()
    stdin.on('data', onData)
    stderr.write(question)
  })
}
