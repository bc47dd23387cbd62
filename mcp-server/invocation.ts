/* How a person types our command where we are: installed, through npx, or in a clone; so that every command we print can be copied. */
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, relative, sep } from 'node:path'

const packageName = 'n8n-nodes-agent-harness'

/** The whole command line for some words of ours, e.g. `approvals list`. */
export type Invocation = (words: string) => string

export interface HomeChoice {
  /** The home's folder. */
  readonly folder: string
  /** As given by `--database`. */
  readonly database?: string | undefined
}

/** The command as it reaches this home; the default home needs no option. */
export function invocationFor(home: HomeChoice): Invocation {
  const option =
    home.database !== undefined
      ? ` --database ${quote(home.database)}`
      : home.folder === join(homedir(), '.agent-harness')
        ? ''
        : ` --home ${quote(tilde(home.folder))}`
  const command = ourCommand()
  return (words) => `${command} ${words}${option}`
}

function ourCommand(): string {
  const root = packageRoot()
  if (root === null) return 'agent-harness'
  if (existsSync(join(root, 'scripts', 'run.cjs'))) return 'npm run -s agent-harness --'
  return root.includes(`${sep}_npx${sep}`) ? `npx -y ${packageName}` : 'agent-harness'
}

/** A path as people write it: under their own folder with `~`. */
export function tilde(path: string): string {
  const inside = relative(homedir(), path)
  return inside === '' || inside.startsWith('..') || inside === path ? path : join('~', inside)
}

/** One word for a shell. */
export function quote(word: string): string {
  return /^~?[\w@%+=:,./\\-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

/** This package's version, for the handshake. */
export function packageVersion(): string {
  const root = packageRoot()
  return root === null ? '0.0.0' : String((JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version?: unknown }).version)
}

function packageRoot(): string | null {
  for (let folder = __dirname; folder !== dirname(folder); folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { name?: unknown }).name === packageName) return folder
  }
  return null
}
