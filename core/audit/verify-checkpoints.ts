/*
 * The checkpoints: without holes, each on the one before, signed, the same in the database and in the file beside it; and every row
 * that one fixed is still that row. This finds what is consistent in itself: a record changed and hashed anew down its chain.
 */
import type { KeyObject } from 'node:crypto'
import { canonical } from '../digest'
import { checkpointSignatureHolds, emptyRoot, nextRoot, type ChainHead, type Checkpoint } from './checkpoint'
import type { Findings } from './report'
import type { VerifyInput } from './verify'

export interface CheckpointsInput extends Omit<VerifyInput, 'publicKey'> {
  readonly publicKey: KeyObject | null
  readonly findings: Findings
}

export interface VerifiedCheckpoints {
  readonly checkpoints: number
  /** How far each chain is in checkpoints. */
  readonly sealed: ReadonlyMap<string, number>
}

export async function verifyCheckpoints(input: CheckpointsInput): Promise<VerifiedCheckpoints> {
  const { reads, findings, publicKey } = input
  const heads = headVerifier(input)
  const file = fileVerifier(input, (checkpoint) => heads.follow(checkpoint, true))
  let [count, next] = [0, 1]
  let roots: readonly string[] = [emptyRoot]
  for await (const checkpoint of reads.checkpoints()) {
    const { number } = checkpoint
    const object = String(number)
    const expected = roots.map((root) => nextRoot(root, number, checkpoint.heads))
    const continues = number !== next || expected.includes(checkpoint.root)
    const isSigned = publicKey === null || checkpointSignatureHolds(checkpoint, publicKey)
    const checkpointText = `Checkpoint ${number} in the database`
    if (number !== next) findings.add('checkpoint_removed', `${checkpoints(next, number - 1)} missing in the database.`, { object: String(next) })
    if (!continues) findings.add('checkpoint_changed', `${checkpointText} does not continue the one before, or its heads were changed.`, { object })
    if (!isSigned) findings.add('checkpoint_forged', `${checkpointText} is not signed with the key of this home.`, { object })
    // a forged one accuses nobody; the true one in the file does
    await heads.follow(checkpoint, continues && isSigned)
    await file.compare(checkpoint)
    count += 1
    next = number + 1
    // where a root was changed the next one still stands on the true one
    roots = continues ? [checkpoint.root] : [checkpoint.root, ...expected]
  }
  await file.end(next - 1)
  return { checkpoints: count, sealed: heads.sealed }
}

interface HeadVerifier {
  readonly sealed: ReadonlyMap<string, number>
  /** Notes how far the chains are in it, and when it is trusted, compares their rows with it. */
  follow(checkpoint: Checkpoint, isTrusted: boolean): Promise<void>
}

/** Follows each chain from checkpoint to checkpoint and tells where it first left what was signed. */
function headVerifier({ reads, findings }: CheckpointsInput): HeadVerifier {
  const sealed = new Map<string, number>()
  const agreed = new Map<string, number>()
  const left = new Set<string>()
  const complain = async ({ chain, seq }: ChainHead, found: string | null, number: number): Promise<void> => {
    const from = (agreed.get(chain) ?? sealed.get(chain) ?? 0) + 1
    const rows = from >= seq ? `Row ${seq}` : `A row from ${from} to ${seq}`
    const where = { chain, seq: Math.min(from, seq), object: objectOf(chain) }
    const known = from === 1 ? 'no earlier checkpoint has it' : `up to row ${from - 1} it is as signed before`
    if (found !== null) {
      const text = `${rows} of chain ${chain} was changed, removed or swapped: checkpoint ${number} fixed another row ${seq}; ${known}.`
      findings.add('rows_replaced', text, where)
    } else if ((await reads.hashesAt([{ chain, seq: 1 }]))[0] === null) {
      findings.add('chain_removed', `Chain ${chain} is gone; checkpoint ${number} fixed ${seq} row${seq === 1 ? '' : 's'} of it.`, where)
    } else {
      findings.add('chain_shortened', `The end of chain ${chain} is gone: checkpoint ${number} fixed ${seq} rows of it; ${known}.`, where)
    }
  }
  return {
    sealed,
    async follow({ heads, number }, isTrusted) {
      const followed = isTrusted ? heads.filter(({ chain }) => !left.has(chain)) : []
      const hashes = await reads.hashesAt(followed)
      for (const [index, head] of followed.entries()) {
        const found = hashes[index] ?? null
        if (found === head.hash) {
          agreed.set(head.chain, head.seq)
        } else {
          left.add(head.chain)
          await complain(head, found, number)
        }
      }
      for (const { chain, seq } of heads) sealed.set(chain, Math.max(seq, sealed.get(chain) ?? 0))
    },
  }
}

interface FileVerifier {
  /** Compares a checkpoint of the database with the file, which is read along. */
  compare(checkpoint: Checkpoint): Promise<void>
  /** Reads what is left of the file, after the last checkpoint of the database. */
  end(last: number): Promise<void>
}

function fileVerifier(input: CheckpointsInput, verifyHeads: (checkpoint: Checkpoint) => Promise<void>): FileVerifier {
  const { findings, checkpointLines, publicKey, reads } = input
  // a file without a line is as good as none: who may empty it may remove it
  const lines = checkpointLines === null ? null : checkpointsIn(checkpointLines)[Symbol.asyncIterator]()
  const missing = new Set<number>()
  let ahead: Checkpoint | null = null
  let isEmpty = true
  let before: Pick<Checkpoint, 'number' | 'root'> = { number: 0, root: emptyRoot }
  const peek = async (): Promise<Checkpoint | null> => {
    if (ahead !== null || lines === null) return ahead
    const next = await lines.next()
    ahead = next.done === true ? null : next.value
    if (ahead !== null) isEmpty = false
    return ahead
  }
  const compareLine = async (line: Checkpoint, stored: Checkpoint | null): Promise<void> => {
    const object = String(line.number)
    if (stored !== null && canonical(stored) === canonical(line)) {
      missing.delete(line.number)
      return
    }
    if (stored === null) findings.add('checkpoint_removed', `Checkpoint ${line.number} stands in the file, but not in the database.`, { object })
    else findings.add('checkpoint_changed', `Checkpoint ${line.number} is not the same in the database as in the file.`, { object })
    missing.delete(line.number)
    // what was signed once still tells which chains are no longer as they were
    if (await isTrue(line)) await verifyHeads(line)
  }
  const isTrue = async (line: Checkpoint): Promise<boolean> => {
    if (publicKey === null || !checkpointSignatureHolds(line, publicKey)) return false
    const previous = before.number === line.number - 1 ? before : await reads.checkpointNumbered(line.number - 1)
    return previous !== null && line.root === nextRoot(previous.root, line.number, line.heads)
  }
  const take = (line: Checkpoint): void => {
    before = { number: line.number, root: line.root }
    ahead = null
  }
  return {
    async compare(checkpoint) {
      if (lines === null) return
      missing.add(checkpoint.number)
      // two processes may append in another order than they made them, and one twice
      for (let line = await peek(); line !== null && line.number <= checkpoint.number; line = await peek()) {
        await compareLine(line, line.number === checkpoint.number ? checkpoint : await reads.checkpointNumbered(line.number))
        take(line)
      }
    },
    async end(last) {
      for (let line = await peek(); line !== null; line = await peek()) {
        await compareLine(line, line.number <= last ? await reads.checkpointNumbered(line.number) : await input.laterCheckpoint(line.number))
        take(line)
      }
      if (isEmpty) {
        const why = 'The file of checkpoints (checkpoints.jsonl) is not there or empty, so the database was compared with nothing outside it.'
        if (last > 0) findings.couldNotTell(why)
        return
      }
      // the last one may be on its way: it is written to the database first
      missing.delete(last)
      for (const [first, end] of rangesOf(missing)) {
        const text = `${checkpoints(first, end)} missing in the file: it was shortened or changed.`
        findings.add('checkpoint_not_in_file', text, { object: String(first) })
      }
    },
  }
}

/** The checkpoints in the file. A line torn by a crash is passed over: whatever it should have held is missed, or stands in a later line. */
async function* checkpointsIn(lines: AsyncIterable<string>): AsyncIterable<Checkpoint> {
  for await (const line of lines) {
    try {
      const value: unknown = JSON.parse(line)
      if (isCheckpoint(value)) yield value
    } catch {
      // passed over
    }
  }
}

/** Is it a checkpoint by its form? Its numbers, root and signature may still be anything. */
export function isCheckpoint(value: unknown): value is Checkpoint {
  if (typeof value !== 'object' || value === null) return false
  const { number, at, heads, root, signature, ...rest } = value as Partial<Record<keyof Checkpoint, unknown>>
  const isWhole = Number.isSafeInteger(number) && Number.isSafeInteger(at) && typeof root === 'string' && typeof signature === 'string'
  return isWhole && areHeads(heads) && Object.keys(rest).length === 0
}

export function areHeads(value: unknown): value is readonly ChainHead[] {
  return Array.isArray(value) && value.every(isHead)
}

function isHead(value: unknown): value is ChainHead {
  if (typeof value !== 'object' || value === null) return false
  const { chain, seq, hash, ...rest } = value as Partial<Record<keyof ChainHead, unknown>>
  return typeof chain === 'string' && Number.isSafeInteger(seq) && typeof hash === 'string' && Object.keys(rest).length === 0
}

/** The object a chain is about. */
export function objectOf(chain: string): string | null {
  const colon = chain.indexOf(':')
  return colon < 0 ? null : chain.slice(colon + 1)
}

const checkpoints = (first: number, last: number): string => (first >= last ? `Checkpoint ${first} is` : `Checkpoints ${first} to ${last} are`)

function* rangesOf(numbers: ReadonlySet<number>): Iterable<readonly [first: number, last: number]> {
  let open: [number, number] | null = null
  for (const number of [...numbers].sort((left, right) => left - right)) {
    if (open?.[1] === number - 1) {
      open[1] = number
    } else {
      if (open !== null) yield open
      open = [number, number]
    }
  }
  if (open !== null) yield open
}
