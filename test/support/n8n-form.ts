/* What a person does with the form of a waiting workflow: finds its link in a message, fills in its one field, sends it. */
import { setTimeout as wait } from 'node:timers/promises'
import type { N8nServer } from './n8n'
import { executionIs, itemsOf } from './n8n-api'

/** The link in the last `message` of a node, once the execution waits at another. */
export async function linkIn(n8n: N8nServer, executionId: string, messageNode: string, waitsAt: string): Promise<string> {
  for (const until = performance.now() + 60_000; performance.now() < until; ) {
    const execution = await executionIs(n8n, executionId, ['waiting'])
    const link = /https?:\/\/\S+/.exec((itemsOf(execution, messageNode).at(-1)?.json.message as string | undefined) ?? '')?.[0]
    if (link !== undefined && execution.data.resultData.lastNodeExecuted === waitsAt) return link
    await wait(100)
  }
  throw new Error(`Execution ${executionId} never waited at ${waitsAt}.`)
}

/** Sends the form with its first field filled in; answers the status. */
export async function answerForm(link: string, value: string): Promise<number> {
  const body = new FormData()
  body.set('field-0', value)
  return (await fetch(link, { method: 'POST', body })).status
}
