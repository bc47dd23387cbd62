/* A process that is killed between a post to the approval page and its answer: the decision counted, or it did not, and never twice. */
import { readFileSync, writeFileSync } from 'node:fs'
import { crashLane, endCrashes } from '../support/crash-child'
import { readRows, verified } from '../support/crash-check'
import { prepared } from '../support/crash-matrix'
import { triggeredRefund } from '../support/crash-scripts'
import { openHome } from '../../core/home'
import type { SignedDecision } from '../../core/approvals/approval'

afterAll(endCrashes)

it.each([
  ['before', 'approve', 'pending', 1], ['after', 'approve', 'approved', 1], ['before', 'reject', 'pending', 0], ['after', 'reject', 'rejected', 0],
] as const)('[page.crash] killed %s the commit of a decision to %s, the approval is %s, and a post that comes again does not count twice', async (when, decision, status, sent) => {
  const home = await prepared(triggeredRefund)
  const { pagePublicKey, configPath } = await openHome(home.folder)
  writeFileSync(configPath, `${readFileSync(configPath, 'utf8')}channels: { page: { public_key: "${pagePublicKey}" } }\n`)
  const lane = crashLane()
  const steps = [triggeredRefund.steps[0]!, { do: 'answer', of: 'first', decision } as const, { do: 'until_over' } as const]
  expect(await lane.run(home, { steps, kill: { at: 'commit', when, label: 'approval.decided' } })).toMatchObject({ signal: 'SIGKILL' })
  expect(readRows(home).approvals).toMatchObject([{ status }])
  expect(home.requests('shop::refund')).toHaveLength(0)
  const end = await lane.run(home, { steps })
  await lane.end()
  expect(end.report?.turns['first']).toMatchObject({ reason: decision === 'approve' ? 'done' : 'rejected' })
  expect(home.requests('shop::refund')).toHaveLength(sent)
  const [approval] = readRows(home).approvals
  expect(JSON.parse(approval!.decided!) as SignedDecision).toMatchObject({ approver: 'channel:page', responder: 'Ann', channel: 'page', decision })
  expect(await verified(home)).toMatchObject({ verdict: 'good' })
}, 60_000)
