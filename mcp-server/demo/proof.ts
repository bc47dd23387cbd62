/* What the demo promises, each beside what was found: on the wire, in the shop, in the files, in the rows, on the record. */
import { readFileSync } from 'node:fs'
import type { AuditReport, Caller, Decision } from '../../core/index'
import type { HarnessProcess } from './harness-process'
import type { DemoPlace } from './place'
import { approver, lastWords } from './refund'
import type { DemoShop } from './shop'
import type { Proof } from './story'

export interface Evidence {
  readonly decision: Decision
  readonly place: DemoPlace
  readonly caller: Caller
  readonly turnId: string
  readonly processes: readonly HarnessProcess[]
  readonly shop: DemoShop | null
  /** Status of the call on record right after the second kill. */
  readonly afterKill: string
}

export async function proofsOf(evidence: Evidence): Promise<Proof[]> {
  const { decision, place: { harness }, caller, turnId, afterKill } = evidence
  const view = await harness.status({ turn_id: turnId }, caller)
  const call = view?.calls[0]
  const approval = view?.approvals[0]
  const told = (call?.result as { error?: string } | undefined)?.error ?? 'nothing'
  const wanted = decision === 'approve'
    ? { call: 'started, then interrupted', told: 'unknown_outcome', approval: 'approved' }
    : { call: 'rejected', told: 'rejected', approval: 'rejected' }
  const became = decision === 'approve' ? `${afterKill}, then ${call?.status ?? 'gone'}` : (call?.status ?? 'gone')
  return [
    processProof(evidence.processes),
    sentProof(evidence),
    { what: 'the one call', wanted: wanted.call, found: became, holds: view?.calls.length === 1 && became === wanted.call },
    { what: 'what the model was told', wanted: wanted.told, found: told, holds: told === wanted.told && view?.result === lastWords[decision] },
    {
      what: 'the approval', wanted: `${wanted.approval} by ${approver}`,
      found: `${approval?.status ?? 'gone'} by ${approval?.decided_by ?? 'nobody'}`,
      holds: view?.approvals.length === 1 && approval?.status === wanted.approval && approval.decided_by === approver,
    },
    { what: 'the turn', wanted: 'completed', found: view?.state ?? 'gone', holds: view?.state === 'completed' },
    recordProof((await harness.verify_audit({}, caller)) as unknown as AuditReport),
  ]
}

function processProof(processes: readonly HarnessProcess[]): Proof {
  const pids = processes.map(({ pid }) => pid)
  const ends = processes.map((one) => one.endedBy() ?? 'done')
  return {
    what: 'three processes', wanted: 'two killed', found: pids.map((pid, index) => `${String(pid)} ${ends[index] ?? ''}`).join(', '),
    holds: new Set(pids).size === 3 && ends.join() === 'SIGKILL,SIGKILL,done',
  }
}

function sentProof({ decision, place, processes, shop }: Evidence): Proof {
  const wanted = decision === 'approve' ? 1 : 0
  const requests = processes.flatMap((one) => one.requests)
  const noted = readFileSync(place.harness.home.sentLogPath, 'utf8').split('\n').filter((line) => line !== '').length
  const counts = [requests.length, noted, ...(shop === null ? [] : [shop.refunds(), shop.refunds() + shop.others()])]
  const byShop = shop === null ? '' : `, ${String(shop.refunds())} by the shop`
  return {
    what: 'refunds sent', wanted: String(wanted), found: `${String(requests.length)} counted on the wire${byShop}, ${String(noted)} in sent.log`,
    holds: counts.every((count) => count === wanted) && requests.every((what) => what.startsWith('POST ')),
  }
}

function recordProof({ verdict, rows, chains, checkpoints, unsealed_rows, problems, could_not_tell }: AuditReport): Proof {
  const counts = `${String(rows)} rows in ${String(chains)} chains, ${String(checkpoints)} signed checkpoints, ${String(unsealed_rows)} rows unsigned`
  const why = problems[0]?.text ?? could_not_tell[0]
  return { what: 'the record', wanted: 'good', found: `${verdict}: ${why ?? counts}`, holds: verdict === 'good' }
}
