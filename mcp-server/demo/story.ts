/* The one screen of the demo: lines with the time since its start, and the table that says what was proved. */
import { columns, print } from '../screen'

export interface Proof {
  readonly what: string
  readonly wanted: string
  readonly found: string
  readonly holds: boolean
}

/** Says one thing that happened, now. */
export type Say = (line: string) => void

export function startStory(title: string): Say {
  const start = performance.now()
  print(title, '')
  return (line) => { print(`${((performance.now() - start) / 1000).toFixed(2).padStart(6)} s  ${line}`) }
}

/** Prints the table; true when everything holds. */
export function printProof(proofs: readonly Proof[]): boolean {
  const rows = proofs.map(({ what, wanted, found, holds }) => ({ left: `${holds ? 'ok    ' : 'FAILED'}  ${what}`, wanted, found }))
  const width = Math.max(...rows.map(({ wanted }) => wanted.length), 'wanted'.length) + 2
  print('', ...columns([
    ['        proof', `${'wanted'.padEnd(width)}found`],
    ...rows.map(({ left, wanted, found }) => [left, `${wanted.padEnd(width)}${found}`] as const),
  ]))
  return proofs.every(({ holds }) => holds)
}

/** The beginning of an id, enough to find it by. */
export const short = (id: string): string => id.slice(0, 10)
