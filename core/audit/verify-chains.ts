/*
 * The chains, row by row: each row's hash and its link, the list of chains, the texts by their digests, and at the end of a chain what
 * it folds to against the rows of its object. One chain is in memory at a time.
 */
import { canonical } from '../digest'
import { eventHash } from '../executions/execution'
import { chainOf, type Change } from '../turn/changes'
import { contentDigest } from '../turn/content'
import { auditHash, genesis, type AuditFacts } from './chain'
import { cursor } from './cursor'
import { differences, foldRow, parseChanges, type FoldState, type Recorded, type RecordedChange, type TextRef } from './fold'
import type { Findings } from './report'
import type { AuditReads, StoredExecution, StoredHead } from './verify'
import { objectOf } from './verify-checkpoints'

export interface ChainsInput {
  readonly reads: AuditReads
  /** How far each chain is in checkpoints. */
  readonly sealed: ReadonlyMap<string, number>
  readonly findings: Findings
}

export interface VerifiedChains {
  readonly rows: number
  readonly chains: number
  readonly erased_texts: number
  readonly unsealed_rows: number
}

type AuditRow = AuditFacts & { readonly hash: string }

/** What is remembered of the chain that is being read. */
interface OpenChain {
  readonly chain: string
  readonly head: StoredHead | undefined
  /** Of the last row read. */
  seq: number
  hash: string
  readonly state: FoldState
  execution: Recorded<Extract<Change, { type: 'execution.accepted' }>['execution']> | null
  /** Texts of which something is known already: erased, missing, other. */
  readonly settledTexts: Set<string>
}

export async function verifyChains(input: ChainsInput): Promise<VerifiedChains> {
  const { reads, findings, sealed } = input
  const rowsOfObjects = objectRows(input)
  const heads = cursor(reads.chainHeads(), (head) => head.chain)
  const headAlone = ({ chain, seq }: StoredHead): void => {
    const text = `The list of chains has ${chain} with ${seq} rows, but the record has none of them.`
    findings.add('head_differs', text, { chain, object: objectOf(chain) })
  }
  const counts = { rows: 0, chains: 0, erased_texts: 0, unsealed_rows: 0 }
  const close = async (open: OpenChain): Promise<void> => {
    verifyHead(open, input)
    await rowsOfObjects.verify(open)
    counts.chains += 1
    counts.unsealed_rows += Math.max(0, open.seq - (sealed.get(open.chain) ?? 0))
  }

  let open = null as OpenChain | null
  for await (const row of reads.auditRows()) {
    if (open?.chain !== row.chain) {
      if (open !== null) await close(open)
      const head = await heads.seek(row.chain, headAlone)
      open = { chain: row.chain, head, seq: 0, hash: genesis, state: new Map(), execution: null, settledTexts: new Set() }
    }
    verifyLink(open, row, findings)
    counts.erased_texts += await verifyChanges(open, row, input)
    counts.rows += 1
  }
  if (open !== null) await close(open)
  await heads.seek(null, headAlone)
  await rowsOfObjects.end()
  return counts
}

function verifyLink(open: OpenChain, row: AuditRow, findings: Findings): void {
  const { chain, seq } = row
  const where = { chain, seq, object: objectOf(chain) }
  if (seq !== open.seq + 1) {
    const from = open.seq + 1
    const text = seq > from + 1 ? `Rows ${from} to ${seq - 1} of chain ${chain} are gone.` : `Row ${from} of chain ${chain} is gone.`
    findings.add('row_missing', text, { ...where, seq: from })
  } else if (row.prev_hash !== open.hash) {
    findings.add('row_order', `Row ${seq} of chain ${chain} does not link to the row before it.`, where)
  }
  if (auditHash(row) !== row.hash) findings.add('row_changed', `Row ${seq} of chain ${chain} was changed: it does not give its hash.`, where)
  open.seq = seq
  open.hash = row.hash
}

/** The list of chains is what new rows are linked to, and what checkpoints are made from. */
function verifyHead({ chain, head, seq, hash }: OpenChain, { sealed, findings }: ChainsInput): void {
  const where = { chain, seq, object: objectOf(chain) }
  if (head === undefined) {
    findings.add('head_differs', `Chain ${chain} has rows, but is not in the list of chains.`, where)
    return
  }
  if (head.seq !== seq || head.hash !== hash) {
    findings.add('head_differs', `The list of chains says that ${chain} ends with row ${head.seq}; its last row, ${seq}, is another one.`, where)
  }
  const signed = sealed.get(chain) ?? 0
  if (head.checkpointed_seq !== signed) {
    const claimed = `The list of chains says that ${chain} is in checkpoints up to row ${head.checkpointed_seq}`
    findings.add('head_differs', `${claimed}; it is up to row ${signed}. Rows would have been left unsigned.`, where)
  }
}

/** Folds the row's changes and compares its texts. Answers how many texts are erased that were not counted before. */
async function verifyChanges(open: OpenChain, row: AuditRow, { reads, findings }: ChainsInput): Promise<number> {
  const where = { chain: row.chain, seq: row.seq, object: objectOf(row.chain) }
  let texts: TextRef[]
  try {
    const changes = parseChanges(row.changes)
    if (changes === null) throw new TypeError('no list of changes')
    const session = sessionOf(row.chain)
    for (const change of changes) {
      // throws where a change of a session stands in another chain
      if (chainOf(change as Change, session) !== row.chain) throw new TypeError('a change of another chain')
      if (change.type === 'execution.accepted') open.execution = change.execution
    }
    if (session !== null) for (const text of foldRow(open.state, changes)) findings.add('change_impossible', text, where)
    texts = textsIn(changes).filter(({ content_id }) => !open.settledTexts.has(content_id))
  } catch {
    findings.add('row_changed', `Row ${row.seq} of chain ${row.chain} holds no changes of this chain that can be read.`, where)
    return 0
  }
  if (texts.length === 0) return 0
  const stored = await reads.textsOf(texts.map(({ content_id }) => content_id))
  return texts.filter(({ content_id, digest }, index) => {
    const text = stored[index] ?? null
    const isTrue = text !== null && text.digest === digest && (text.text === null || contentDigest(text.salt, text.text) === digest)
    if (isTrue && text.text !== null) return false
    open.settledTexts.add(content_id)
    if (isTrue) return true
    const place = `row ${row.seq} of chain ${row.chain}`
    if (text === null) findings.add('text_missing', `The text ${content_id} of ${place} is not in the database.`, { ...where, object: content_id })
    else findings.add('text_differs', `The text ${content_id} was changed: it does not give its digest in ${place}.`, { ...where, object: content_id })
    return false
  }).length
}

/** The texts that changes refer to, once each. */
function textsIn(changes: readonly RecordedChange[]): TextRef[] {
  const found = new Map<string, TextRef>()
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    if ('content_id' in value && 'digest' in value) {
      const { content_id, digest } = value
      if (typeof content_id !== 'string' || typeof digest !== 'string') throw new TypeError('no text')
      found.set(content_id, { content_id, digest })
      return
    }
    for (const member of Object.values(value)) walk(member)
  }
  walk(changes)
  return [...found.values()]
}

interface ObjectRows {
  /** Compares the chain's object with its rows. */
  verify(open: OpenChain): Promise<void>
  /** Tells the rows that no chain explains. */
  end(): Promise<void>
}

function objectRows({ reads, findings }: ChainsInput): ObjectRows {
  const executions = cursor(reads.executions(), (execution) => execution.execution_id)
  const sessions = cursor(reads.sessions(), (session) => session)
  const alone = 'is in the database, but not on record: it was made by hand, or its record was removed.'
  let seen = 0
  const executionAlone = ({ execution_id }: StoredExecution): void => {
    const text = `The execution ${execution_id} ${alone}`
    findings.add('execution_unrecorded', text, { chain: `execution:${execution_id}`, object: execution_id })
  }
  const sessionAlone = (id: string): void => {
    findings.add('state_unrecorded', `The session ${id} ${alone}`, { chain: `session:${id}`, object: id })
  }
  const verifySession = async (id: string, { chain, state }: OpenChain): Promise<void> => {
    await sessions.seek(id, sessionAlone)
    const rows = await reads.objectsOf(id)
    seen += rows.filter(({ kind }) => kind !== 'session').length
    for (const difference of differences(state, rows)) findings.add(difference.kind, difference.text, { chain, object: difference.id })
  }
  return {
    async verify(open) {
      const id = objectOf(open.chain)
      if (id !== null && open.chain.startsWith('execution:')) verifyExecution(open, id, await executions.seek(id, executionAlone), findings)
      if (id !== null && open.chain.startsWith('session:')) await verifySession(id, open)
    },
    async end() {
      await executions.seek(null, executionAlone)
      await sessions.seek(null, sessionAlone)
      if ((await reads.countObjects()) === seen) return
      for (const { kind, id } of await reads.strays()) {
        findings.add('state_unrecorded', `The ${kind} ${id} is in the database, but belongs to nothing on record.`, { object: id })
      }
    },
  }
}

function verifyExecution({ chain, seq, execution }: OpenChain, id: string, stored: StoredExecution | undefined, findings: Findings): void {
  const where = { chain, seq, object: id }
  if (execution === null) {
    findings.add('change_impossible', `Chain ${chain} does not say what execution ${id} was.`, where)
    return
  }
  if (stored === undefined) {
    findings.add('execution_removed', `The execution ${id} is on record, but its row is gone.`, where)
    return
  }
  const other = Object.entries(execution).flatMap(([name, recorded]) => (isSame(recorded, stored[name as keyof StoredExecution]) ? [] : [name]))
  if (other.length > 0) findings.add('execution_differs', `The execution ${id} has another ${other.join(', ')} than the record says.`, where)
  const { source, actor, intent, constraints } = stored
  if (eventHash({ source, actor, intent, constraints }, { ...stored.payload, salt: '', text: null }) !== stored.event_hash) {
    findings.add('execution_differs', `The execution ${id} does not give its event hash.`, where)
  }
}

const isSame = (recorded: unknown, stored: unknown): boolean => canonical(recorded ?? null) === canonical(stored ?? null)

const sessionOf = (chain: string): string | null => (chain.startsWith('session:') ? chain.slice('session:'.length) : null)
