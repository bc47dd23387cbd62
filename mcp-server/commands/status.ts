/* status: one screen on how this home is. Runs nothing. */
import type { Overview } from '../../core/index'
import type { CommandContext } from '../context'
import { exitCodes, type ExitCode } from '../exit-codes'
import { span } from '../guidance'
import { tilde } from '../invocation'
import { modelText } from '../models'
import { columns, print } from '../screen'

export async function statusCommand(context: CommandContext): Promise<ExitCode> {
  const harness = await context.open({ program: 'command', worker: false })
  try {
    const [overview, probe] = await Promise.all([harness.overview(), harness.model.probe()])
    print(
      ...columns([
        ['Home', tilde(harness.home.folder)],
        ['Turns', turnsText(overview)],
        ['Holds', holdsText(overview, context)],
        ['Worker', overview.worker],
        ['Model', modelText(probe, harness.authority()).text],
        ['Schema', `${String(overview.schema)}; ${String(overview.audit_rows)} rows on record (check them with: ${context.command('audit verify')})`],
      ]),
    )
    return exitCodes.done
  } finally {
    await harness.close()
  }
}

/** Counts by the states of the store, those that are not over first. */
export function turnsText({ turns }: Overview): string {
  const order = ['queued', 'running', 'awaiting_functions', 'waiting_approval', 'completed', 'failed', 'cancelled']
  const counts = order.flatMap((status) => ((turns[status] ?? 0) > 0 ? [`${String(turns[status])} ${status}`] : []))
  return counts.length === 0 ? 'none yet' : counts.join(', ')
}

function holdsText({ pending_approvals: count, oldest_hold: oldest }: Overview, context: CommandContext): string {
  if (oldest === null) return 'nothing waits for a person'
  const look = context.command(`approvals show ${oldest.approval_id}`)
  const since = span(Date.now() - oldest.since)
  return `${String(count)} ${count === 1 ? 'waits' : 'wait'} for a person; the oldest since ${since}: ${oldest.function_id}\n${look}`
}
