/*
 * No test of the suite: `npm run pictures` runs it to take the pictures of the README anew, of the example workflows as a user sees them after
 * importing them, of the page on which a person decides, and of the execution that went on then.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { endN8n, importWorkflows, makePlace, startN8n, type N8nServer } from '../support/n8n'
import { editorApi, executionIs, listExecutions, publicApi, runManually, type Workflow } from '../support/n8n-api'
import { root } from '../support/n8n-package'
import { decideOnPage, linkOf } from '../support/refund-workflow'
import { startOnOllamaPort } from '../support/stub-on-ollama-port'

interface Picture {
  readonly name: string
  readonly url: string
  readonly kind: 'editor' | 'execution' | 'page'
  readonly height?: number
  readonly phone?: boolean
}

interface Held {
  readonly link: string
  readonly workflow: string
  readonly execution: string
}

const { takePictures } = jest.requireActual<{
  takePictures(order: { cookie: string; folder: string; pictures: readonly Picture[] }): Promise<string[]>
}>('../../scripts/screenshots.cjs')

const examples = path.join(root, 'examples', 'workflows')

afterAll(endN8n)

it('the pictures of the README are taken anew', async () => {
  const files = existsSync(examples) ? readdirSync(examples).filter((name) => name.endsWith('.json')) : []
  expect(files).not.toEqual([])
  const refund = { function_id: 'workflow::refund', arguments: { order: '1042', amount: 120 } }
  const model = await startOnOllamaPort([{ when: 'workflow::refund', rounds: [[refund]] }])
  const place = await makePlace()
  for (const name of files) await importWorkflows(place, path.join(examples, name))
  const n8n = await startN8n(place)
  try {
    const { data: workflows } = await publicApi<{ data: (Workflow & { id: string })[] }>(n8n, 'GET', '/workflows?limit=100')
    const held = await heldApproval(n8n, workflows)
    const pictures: Picture[] = files.map((file) => ({ name: path.basename(file, '.json'), url: `${n8n.url}/workflow/${idIn(file)}`, kind: 'editor' }))
    if (held !== null) pictures.push({ name: 'approval', url: held.link, kind: 'page', height: 700, phone: true })
    const take = (some: readonly Picture[]): Promise<string[]> => takePictures({ cookie: place.cookie, folder: path.join(root, 'docs', 'pictures'), pictures: some })
    const taken = await take(pictures)
    if (held !== null) {
      await decideOnPage(held.link, { decision: 'approve', responder: 'Ann' })
      await executionIs(n8n, held.execution)
      pictures.push({ name: 'execution', url: `${n8n.url}/workflow/${held.workflow}/executions/${held.execution}`, kind: 'execution' })
      taken.push(...(await take(pictures.slice(-1))))
    }
    for (const file of taken) process.stdout.write(`${path.relative(root, file)} ${String(Math.round(statSync(file).size / 1024))} KB\n`)
    expect(taken).toHaveLength(pictures.length)
  } finally {
    await n8n.stop()
    await model.stop()
  }
})

/** Runs the workflow that waits for turns until one of them needs an approval, and the node for it waits. */
async function heldApproval(n8n: N8nServer, workflows: readonly (Workflow & { id: string })[]): Promise<Held | null> {
  const main = workflows.find(({ nodes }) => nodes.some(({ type }) => type.endsWith('.harnessAwaitTurn')) && nodes.some(({ type }) => type.endsWith('.harnessApprove')))
  if (main === undefined) return null
  const functions = workflows.filter(({ nodes }) => nodes.some(({ type }) => type.endsWith('.harnessFunctionTrigger')))
  for (const { id } of functions) await publicApi(n8n, 'POST', `/workflows/${id}/activate`).catch((error: unknown) => process.stdout.write(`${String(error)}\n`))
  const execution = await runManually(n8n, main.id)
  for (const until = performance.now() + 60_000; performance.now() < until; ) {
    const text = JSON.stringify(await listExecutions(n8n, main.id))
    const found = /"approval":\{[^{}]*?"url":"([^"]+)"/.exec(text)?.[1]
    if (found !== undefined) return { link: await linkOf(n8n, execution), workflow: main.id, execution }
    await wait(500)
  }
  process.stdout.write(`nothing was held: ${JSON.stringify(await editorApi(n8n, 'GET', '/executions').catch(() => null)).slice(0, 2_000)}\n`)
  return null
}

/** The id of the workflow in a file, which it keeps when it is imported. */
function idIn(file: string): string {
  const read = JSON.parse(readFileSync(path.join(examples, file), 'utf8')) as { id: string } | { id: string }[]
  return (Array.isArray(read) ? read[0]! : read).id
}
