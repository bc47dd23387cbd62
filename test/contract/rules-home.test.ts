/* Nothing needs to be typed, no secret is written down, and without an approver's key the risky waits and says what to do. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import type { Model, ModelFacts, ModelProbe } from '../../core/model/model'
import { scriptedModel } from '../../core/model/scripted'
import { closePlaces, openPlace, shopConfig, type Place } from '../support/place'
import { startCountingServer, type CountingServer } from '../support/counting-server'

const servers: CountingServer[] = []
afterEach(async () => {
  await closePlaces()
  for (const server of servers.splice(0)) await server.stop()
})

/** A model server with these models, or one that does not answer. */
function modelServer(models: readonly ModelFacts[] | null): Model & { asked: string[] } {
  const scripted = scriptedModel([{ text: 'Yes.' }])
  const asked: string[] = []
  const probe: ModelProbe = models === null
    ? { address: 'http://127.0.0.1:11434', reachable: false, problem: 'Ollama does not answer at http://127.0.0.1:11434. Start it.', models: [] }
    : { address: 'http://127.0.0.1:11434', reachable: true, problem: null, models }
  return {
    ...scripted, asked, probe: () => Promise.resolve(probe),
    generate: (request, signal) => {
      asked.push(request.model)
      return scripted.generate(request, signal)
    },
  }
}
const facts = (name: string, locality: ModelFacts['locality'], functions = true): ModelFacts => ({ name, locality, functions })
const models = [
  facts('a-cloud', 'cloud'), facts('b-far', 'remote'), facts('c-plain', 'this_machine', false), facts('d-near', 'local_network'),
  facts('e-here', 'this_machine'),
]

describe('which model is asked', () => {
  const asked = async (server: Model & { asked: string[] }, config: string, send: object = {}): Promise<readonly string[]> => {
    const place = await openPlace({ model: server, config: (key) => `${shopConfig(key)}${config}` })
    const sent = await place.harness.send({ message: 'Hello?', ...send }, place.caller)
    expect(await place.turn(sent.turn_id)).toMatchObject({ state: 'completed', result: 'Yes.' })
    return server.asked
  }

  it('[home.default-model] without one named it is the first by name that is local and has tools', async () => {
    expect(await asked(modelServer(models), '')).toEqual(['d-near'])
    expect(await asked(modelServer(models.filter((model) => model.name !== 'd-near')), '')).toEqual(['e-here'])
  })

  it('[home.default-model] the configured one counts before that, the one of the agent before it, and the one of the send before all', async () => {
    expect(await asked(modelServer(models), 'models: { default: e-here }\n')).toEqual(['e-here'])
    const agent = 'models: { default: e-here }\nagents: { assistant: { model: of-the-agent } }\n'
    expect(await asked(modelServer(models), agent)).toEqual(['of-the-agent'])
    expect(await asked(modelServer(models), agent, { model: 'of-the-send' })).toEqual(['of-the-send'])
  })

  it('[home.default-model] a turn keeps the model that it began with', async () => {
    const note = { function_id: 'shop::note', arguments: { text: 'n' } }
    const there = [facts('b-first', 'this_machine')]
    const scripted = scriptedModel([{ calls: [note] }, { text: 'Yes.' }])
    const model: Model = { ...scripted, probe: () => Promise.resolve({ address: 'x', reachable: true, problem: null, models: [...there] }) }
    const place = await openPlace({ model })
    place.functions.answer('shop::note', () => {
      there.unshift(facts('a-newer', 'this_machine'))
      return { kind: 'answered', value: null, is_error: false }
    })
    await place.say('Note it.')
    expect(scripted.requests.map((request) => request.model)).toEqual(['b-first', 'b-first'])
  })

  it('[home.default-model] where none fits or nothing answers, the turn says so and what to do', async () => {
    const failed = async (server: Model): Promise<string | null> => {
      const place = await openPlace({ model: server })
      const turn = await place.say('Hello?')
      expect(turn).toMatchObject({ state: 'failed', reason: 'model_unavailable' })
      return turn.detail
    }
    expect(await failed(modelServer([facts('a-cloud', 'cloud'), facts('c-plain', 'this_machine', false)]))).toContain('ollama pull')
    expect(await failed(modelServer([]))).toContain('http://127.0.0.1:11434')
    expect(await failed(modelServer(null))).toBe('Ollama does not answer at http://127.0.0.1:11434. Start it.')
  })
})

it('[home.nothing-typed] an empty folder is enough: it has a configuration and keys, and answers', async () => {
  const place = await openPlace({ config: () => '' })
  expect(await place.say('Hello?')).toMatchObject({ state: 'completed', result: 'Hello.' })
  expect(place.caller.principal).toMatchObject({ id: 'local', roles: ['owner', 'operator'] })
  const sent = await place.harness.send({ message: 'Hello?', agent: 'assistant' }, place.caller)
  expect(await place.turn(sent.turn_id)).toMatchObject({ state: 'completed' })
})

it('[home.no-key-holds] until an approver has a key risky calls are held, and every answer about them names the command that makes one', async () => {
  const refund = { function_id: 'shop::refund', arguments: { order: 'A-1', amount: 20 } }
  const place = await openPlace({ config: (key) => shopConfig(key).replace(/approvers:\n.*\n/, ''), script: [{ calls: [refund] }] })
  expect(place.harness.authority().approvers).toEqual([])
  const held = await place.say('Refund.')
  expect(held).toMatchObject({ state: 'held', calls: [{ status: 'held' }] })
  expect(await place.run('shop::refund', refund.arguments)).toMatchObject({ state: 'held', pending: true })
  const named = expect.stringContaining('agent-harness init')
  expect(await place.harness.list_approvals({}, place.caller)).toMatchObject({ how_to_decide: named })
  expect(await place.harness.get_approval({ approval_id: held.approvals[0]!.approval_id }, place.caller)).toMatchObject({ how_to_decide: named })
  // a key that configuration does not know decides nothing
  await expect(place.decide(held.approvals[0]!.approval_id, 'approve')).rejects.toMatchObject({ code: 'forbidden' })
  expect(place.functions.sent).toEqual([])
})

describe('secrets', () => {
  const secrets = { SHOP_TOKEN: 'tok-4711-not-for-the-record', SHOP_SIGNING: 'sign-0815-not-for-the-record-either' }
  const config = (key: string, url: string): string => `${shopConfig(key)}
  shop::echo:
    description: Says what it got.
    side_effects: read
    risk: low
    schema: { type: object }
    http: { url: "${url}/echo", headers: { X-Auth-Token: "\${SHOP_TOKEN}" }, signing: { secret: "\${SHOP_SIGNING}" } }
`
  const filesOf = (folder: string): string[] =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => path.join(folder, name)).filter((file) => statSync(file).isFile())
  async function scene(body: unknown): Promise<{ place: Place; server: CountingServer }> {
    const server = await startCountingServer()
    servers.push(server)
    server.plan('/echo', { kind: 'answer', body })
    const place = await openPlace({ env: secrets, wrapSource: (source) => source, config: (key) => config(key, server.url), script: [
      { calls: [{ function_id: 'shop::echo', arguments: {} }] }, { text: 'Done.' }
    ] })
    return { place, server }
  }
  const written = (place: Place): string[] =>
    filesOf(place.folder).filter((file) => Object.values(secrets).some((secret) => readFileSync(file).includes(secret)))

  it('[home.secrets-not-stored] are sent, and stand in no file of the home', async () => {
    const { place, server } = await scene({ ok: true })
    expect(await place.say('Echo.')).toMatchObject({ state: 'completed', calls: [{ status: 'succeeded', result: { ok: true } }] })
    expect(server.requests[0]!.headers['x-auth-token']).toBe(secrets.SHOP_TOKEN)
    expect(written(place)).toEqual([])
    await place.close()
    expect(written(place)).toEqual([])
  })

  it('[home.secrets-not-stored] not even when a function says them back', async () => {
    const said = {
      headers: { 'x-auth-token': secrets.SHOP_TOKEN }, text: `You sent "${secrets.SHOP_TOKEN}".\n`, list: [secrets.SHOP_SIGNING, 7, null],
    }
    const { place } = await scene(said)
    const turn = await place.say('Echo.')
    expect(turn.calls[0]).toMatchObject({
      status: 'succeeded', result: { headers: { 'x-auth-token': '[masked]' }, text: 'You sent "[masked]".\n', list: ['[masked]', 7, null] },
    })
    expect(JSON.stringify(place.model.requests)).not.toContain(secrets.SHOP_TOKEN)
    await place.close()
    expect(written(place)).toEqual([])
  })
})
