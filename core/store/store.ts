/*
 * The port to the database. There is no transaction to hold: a commit is a list of changes, applied as one. Every write to what
 * is asked, decided or done goes through `commit`, so none of it changes without a row in the record.
 */
import type { Approval, ApprovalStatus } from '../approvals/approval'
import type { AuditFacts } from '../audit/chain'
import type { Checkpoint } from '../audit/checkpoint'
import type { AuditReads } from '../audit/verify'
import type { Await, AwaitOutcome } from '../turn/await'
import type { Call } from '../turn/call'
import type { Change, Session } from '../turn/changes'
import type { Execution } from '../executions/execution'
import type { InboxItem } from '../turn/inbox'
import type { RegistrationRow } from '../policy/registration'
import type { Turn, TurnRow, TurnStatus } from '../turn/turn'

export interface Commit {
  /** Who: a principal's id, or `worker:w_…`. */
  readonly actor: string
  readonly at: number
  readonly changes: readonly Change[]
  /** The session whose chain records turn changes; null if there are none. */
  readonly session_id: string | null
  /** A worker's right to the turn: the commit fails with `lease_lost` under any other epoch. */
  readonly fence?: { readonly turn_id: string; readonly epoch: number }
  /** Remembers the answer for this key; a second commit with the same principal, operation and key fails with `conflict`. */
  readonly idempotency?: IdempotencyRecord
}

export interface IdempotencyRecord {
  readonly principal: string
  readonly operation: string
  readonly key: string
  readonly request_hash: string
  readonly response: string
  readonly expires_at: number
}

export interface WorkerRow {
  readonly worker_id: string
  readonly pid: number
  /** Start time of the process as its host tells it; with pid it names a process for good. Null where the host does not tell. */
  readonly pid_start: string | null
  readonly host: string
  readonly fingerprint: string
  /** Kind of program: `serve`, `stdio`, `command`. */
  readonly program: string
  readonly started_at: number
  readonly lease_until: number
}

/** A row of the record as it is stored. */
export type AuditRow = AuditFacts & { readonly hash: string }

export interface ApproverTries {
  readonly failures: number
  readonly locked_until: number | null
}

export type AwaitNote =
  /** It was due for something that is not so any more. */
  | { readonly note: 'not_yet' }
  /** A call goes out now. */
  | { readonly note: 'calling' }
  /** The call was not taken: again at this time. */
  | { readonly note: 'again'; readonly next_at: number; readonly streak: number; readonly answer: string }
  /** The caller asked and was told, while calls went out. */
  | { readonly note: 'told'; readonly outcome: AwaitOutcome; readonly answered: string }

export interface Store {
  /**
   * Applies all changes or none, and appends one audit row for each chain concerned.
   * Contract: atomic and durable when it resolves. Fails with `lease_lost` (fence), `stale_inbox` (a finish, something was posted since),
   * `conflict` (idempotency key, or a row not in the state that the change starts from), `store_unavailable` (locked for longer than
   * the retries last, read-only, full). Races on a chain's head are retried inside. Answers the inbox items that came in since, when fenced.
   */
  commit(commit: Commit): Promise<readonly InboxItem[]>

  /** The turns that this worker may claim, the oldest first, at most so many. Contract: no lock is taken; the claim itself is the commit of `turn.claimed`. */
  findClaimable(worker: WorkerRow, now: number, most: number): Promise<readonly string[]>
  /** Turns that somebody asked to stop and that are not over, whatever they wait for. Contract: the stops are not checked; cheap. */
  findStopped(): Promise<readonly string[]>
  /** The whole aggregate. Null when unknown. Contract: one consistent read. */
  loadTurn(turnId: string): Promise<Turn | null>
  /** Items of the turn's inbox not yet folded, in order. */
  readInbox(turnId: string): Promise<readonly InboxItem[]>

  /** Makes this process the worker, or null with the live one that holds the database. Contract: one winner among racing processes. */
  acquireWorker(worker: WorkerRow, isDead: (other: WorkerRow) => boolean, now: number): Promise<{ readonly acquired: boolean; readonly holder: WorkerRow }>
  /** Prolongs the worker's lease, and with it that of its turns. Contract: false when it no longer holds the database. */
  beat(workerId: string, leaseUntil: number): Promise<boolean>
  /** Gives the database up; its turns' leases end at once. */
  releaseWorker(workerId: string): Promise<void>
  currentWorker(): Promise<WorkerRow | null>

  findTurn(turnId: string): Promise<TurnRow | null>
  findSession(sessionId: string): Promise<Session | null>
  /** The newest turn of a session, null when it has none. */
  latestTurn(sessionId: string): Promise<TurnRow | null>
  /** The one that runs or is the next to run. */
  firstUnfinishedTurn(sessionId: string): Promise<TurnRow | null>
  countLiveTurns(owner: string): Promise<number>
  countTurnsByStatus(): Promise<Readonly<Partial<Record<TurnStatus, number>>>>
  /** This turn's calls, by step and ordinal. */
  callsOf(turnId: string): Promise<readonly Call[]>
  findCall(callId: string): Promise<Call | null>
  findExecution(executionId: string): Promise<Execution | null>
  findApproval(approvalId: string): Promise<Approval | null>
  approvalsOf(turnId: string): Promise<readonly Approval[]>
  /** Newest first. `owner` null: everybody's. */
  listApprovals(filter: { readonly owner: string | null; readonly status: ApprovalStatus | null; readonly session_id: string | null; readonly limit: number }): Promise<readonly Approval[]>
  oldestPendingApproval(): Promise<Approval | null>
  countPendingApprovals(): Promise<number>
  findIdempotency(principal: string, operation: string, key: string, now: number): Promise<IdempotencyRecord | null>
  /** All rows, by id. Contract: the seals are not checked. */
  registrations(): Promise<readonly RegistrationRow[]>
  /** Lets parked turns with a call of this function wake at that moment, if they would not before. Contract: touches nothing else. */
  wakeWaiting(functionId: string, at: number): Promise<void>
  approverTries(approver: string): Promise<ApproverTries>

  findAwait(owner: string, awaitId: string): Promise<Await | null>
  /** Those with an address that are due, now or later, the next first. Contract: cheap when there are none. */
  dueAwaits(most: number): Promise<readonly Await[]>
  /** The first deadline of those that wait; null when there is none. */
  nextAwaitDeadline(): Promise<number | null>
  /** Those whose deadline has passed before they were due are due now, as timed out. Contract: once for each. */
  timeOutAwaits(now: number): Promise<void>
  /** How far a call came; no end of an await, so none of it is on record. Contract: false when it is not as `row` says any more, and nothing changed. */
  noteAwait(row: Await, note: AwaitNote): Promise<boolean>

  /** Audit rows in order of chain and seq, streamed. */
  auditRows(chain?: string): AsyncIterable<AuditRow>
  auditCount(): Promise<number>
  /** Contract: fails with `conflict` when the number is taken. */
  addCheckpoint(checkpoint: Checkpoint): Promise<void>
  checkpoints(): AsyncIterable<Checkpoint>
  lastCheckpoint(): Promise<Checkpoint | null>
  checkpointNumbered(number: number): Promise<Checkpoint | null>
  /** How many audit rows came since their chain was last in a checkpoint. Contract: cheap; asked every second. */
  unsealedRows(): Promise<number>
  /** Everything that verifying reads, as it is at this moment, until closed. Contract: does not block writers. */
  auditSnapshot(): Promise<AuditReads & { close(): Promise<void> }>
  /** Chains whose head moved since they were last in a checkpoint. */
  headsSinceCheckpoint(): Promise<readonly { readonly chain: string; readonly seq: number; readonly hash: string }[]>

  /** Calls back soon after any commit, by this process or another. Contract: a hint only; may come late, twice or for nothing. Returns the way to stop. */
  onHint(listener: () => void): () => void
  schemaVersion(): Promise<number>
  close(): Promise<void>
}
