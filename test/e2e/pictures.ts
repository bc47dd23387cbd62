/*
 * No test of the suite: `npm run pictures` runs it to take the pictures of the README anew, of the example workflows as a user sees them after
 * importing them, of the page on which a person decides, and of the execution that went on then.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { endN8n, importWorkflows, makePlace, startN8n, type N8nServer } from '../support/n8n'
import { activate, executionIs } from '../support/n8n-api'
import { root } from '../support/n8n-package'
import { decideOnPage, harnessRows, linkOf, refundScene, refundWorkflow, startRefund } from '../support/refund-workflow'
import { startStub } from '../support/stub-on-ollama-port'

interface Picture {
  readonly name: string
  readonly url: string
  readonly kind: 'editor' | 'execution' | 'page'
  readonly height?: number
  readonly phone?: boolean
}

const { takePictures } = jest.requireActual<{
  takePictures(order: { cookie: string; folder: string; pictures: readonly Picture[] }): Promise<string[]>
}>('../../scripts/screenshots.cjs')

const examples = path.join(root, 'examples', 'workflows')

afterAll(endN8n)

it('the pictures of the README are taken anew', async () => {
  const files = existsSync(examples) ? readdirSync(examples).filter((name) => name.endsWith('.json')) : []
  expect(files).not.toEqual([])
  const place = await makePlace()
  for (const name of files) await importWorkflows(place, path.join(examples, name))
  // no picture shows where the model is
  const model = await startStub(0, [refundScene])
  const n8n = await startN8n(place, { env: { OLLAMA_HOST: model.url } })
  try {
    await activate(n8n, refundWorkflow)
    await isRegistered(n8n)
    const execution = await startRefund(n8n)
    const link = await linkOf(n8n, execution)
    const take = (pictures: readonly Picture[]): Promise<string[]> => takePictures({ cookie: place.cookie, folder: path.join(root, 'docs', 'pictures'), pictures })
    const taken = await take([
      ...files.map((file): Picture => ({ name: path.basename(file, '.json'), url: `${n8n.url}/workflow/${idIn(file)}`, kind: 'editor' })),
      { name: 'approval', url: link, kind: 'page', height: 700, phone: true },
    ])
    await decideOnPage(link, { decision: 'approve', responder: 'Ann' })
    expect((await executionIs(n8n, execution)).status).toBe('success')
    taken.push(...(await take([{ name: 'execution', url: `${n8n.url}/workflow/${refundWorkflow}/executions/${execution}`, kind: 'execution' }])))
    for (const file of taken) process.stdout.write(`${path.relative(root, file)} ${String(Math.round(statSync(file).size / 1024))} KB\n`)
    expect(taken).toHaveLength(files.length + 2)
  } finally {
    await n8n.stop()
    await model.stop()
  }
})

/** n8n answers for the function a moment before the harness, opened then for the first time, knows it; a turn sent before is refused. */
async function isRegistered(n8n: N8nServer): Promise<void> {
  for (const until = performance.now() + 30_000; performance.now() < until; ) {
    await wait(200)
    try {
      if (harnessRows(n8n, 'SELECT id FROM registrations').length > 0) return
    } catch {
      // there is no database yet
    }
  }
  throw new Error('The function of the example was never registered.')
}

/** The id of the workflow in a file, which it keeps when it is imported. */
function idIn(file: string): string {
  const read = JSON.parse(readFileSync(path.join(examples, file), 'utf8')) as { id: string } | { id: string }[]
  return (Array.isArray(read) ? read[0]! : read).id
}
