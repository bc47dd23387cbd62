/* What verifying the record comes to. Many findings of one kind are counted, not kept: the report stays small whatever was done. */

/**
 * | kind | what is not as it was |
 * |---|---|
 * | row_changed | a row of the record does not give its hash, or is unreadable |
 * | row_missing, row_order | a row of the record is gone, or does not link to the one before |
 * | rows_replaced | a row is not the one that a checkpoint fixed: something up to it was changed, removed or swapped, and hashed anew |
 * | chain_shortened, chain_removed | rows that a checkpoint fixed are gone, some or all of a chain |
 * | head_differs | the list of chains does not say what the rows of the chain say |
 * | change_impossible | a recorded change cannot follow what was recorded before |
 * | checkpoint_* | a checkpoint is gone from the database or the file, was changed in one of them, or is not signed by our key |
 * | execution_differs, execution_removed, execution_unrecorded | a stored execution and its record |
 * | text_differs, text_missing | a stored text and its digest on record |
 * | state_differs, state_removed, state_unrecorded | a session, turn, call, approval, message or inbox item, and what the record folds to |
 */
export type ProblemKind =
  | 'row_changed' | 'row_missing' | 'row_order' | 'rows_replaced' | 'chain_shortened' | 'chain_removed' | 'head_differs' | 'change_impossible'
  | 'checkpoint_removed' | 'checkpoint_changed' | 'checkpoint_forged' | 'checkpoint_not_in_file'
  | 'execution_differs' | 'execution_removed' | 'execution_unrecorded'
  | 'text_differs' | 'text_missing' | 'state_differs' | 'state_removed' | 'state_unrecorded'

export interface Problem {
  readonly kind: ProblemKind
  /** The chain it is in, null when in none. */
  readonly chain: string | null
  /** The row, or the first row of the range that `text` names. */
  readonly seq: number | null
  /** Id of the object concerned, or the number of the checkpoint. */
  readonly object: string | null
  /** One sentence for people. */
  readonly text: string
}

export interface AuditReport {
  /** `unknown`: nothing wrong was found, but something needed for telling was not there. */
  readonly verdict: 'good' | 'broken' | 'unknown'
  readonly rows: number
  readonly chains: number
  readonly checkpoints: number
  readonly erased_texts: number
  /** Rows after the last checkpoint of their chain: linked, but not yet signed. */
  readonly unsealed_rows: number
  /** The first {@link mostProblems}. */
  readonly problems: readonly Problem[]
  /** How many more there are. */
  readonly more_problems: number
  /** Why the verdict is not better than `unknown`, one sentence each. */
  readonly could_not_tell: readonly string[]
}

export const mostProblems = 100

/** Gathers findings while the record is read. */
export interface Findings {
  add(kind: ProblemKind, text: string, where?: Partial<Pick<Problem, 'chain' | 'seq' | 'object'>>): void
  couldNotTell(why: string): void
  report(counts: Pick<AuditReport, 'rows' | 'chains' | 'checkpoints' | 'erased_texts' | 'unsealed_rows'>): AuditReport
}

export function newFindings(): Findings {
  const problems: Problem[] = []
  const reasons: string[] = []
  let more = 0
  return {
    add(kind, text, where = {}) {
      const { chain = null, seq = null, object = null } = where
      if (problems.length < mostProblems) problems.push({ kind, chain, seq, object, text })
      else more += 1
    },
    couldNotTell(why) {
      reasons.push(why)
    },
    report(counts) {
      const verdict = problems.length > 0 ? 'broken' : reasons.length > 0 ? 'unknown' : 'good'
      return { verdict, ...counts, problems, more_problems: more, could_not_tell: reasons }
    },
  }
}
