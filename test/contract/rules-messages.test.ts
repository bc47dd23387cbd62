/* What becomes of a message: it waits, joins, follows or gets a turn of its own; it is never lost, doubled or put where it does not belong. */
import type { ModelMessage } from '../../core/model/model'
import { makeWorld, type World } from '../property/world'
import { closePlaces, openPlace, type Place } from '../support/place'
import { until } from '../support/until'

const worlds: World[] = []
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close()
  await closePlaces()
})

const note = { function_id: 'shop::note', arguments: { text: 'n' } }
const lookUp = { function_id: 'shop::look_up', arguments: { order: 'A-1' } }

/** A world whose model asks for these calls first and then answers in words. */
async function worldThatCalls(...calls: readonly { function_id: string; arguments: { readonly [key: string]: string } }[]): Promise<World> {
  const world = await makeWorld((request, count) => ({ text: `answer to ${lastUser(request.messages)}`, calls: count === 0 ? calls : [] }))
  worlds.push(world)
  return world
}
const lastUser = (messages: readonly ModelMessage[]): string => {
  const last = messages.findLast((message) => message.role === 'user')
  return last?.role === 'user' ? last.text : ''
}
const say = (world: World, message: string, more: object = {}): ReturnType<World['harness']['send']> =>
  world.harness.send({ message, ...more }, world.caller)
const told = (messages: readonly ModelMessage[]): string[] =>
  messages.slice(1).map((message) => (message.role === 'user' ? `user ${message.text}` : message.role))

describe('a message to a turn that runs', () => {
  it('[message.waits-in-inbox] [message.never-between] waits while functions run, and comes after their results', async () => {
    const world = await worldThatCalls(note, lookUp)
    const first = await say(world, 'one')
    let sent = 0
    await world.work({
      inside: async (where) => {
        if (where === 'model' || sent > 1) return
        const again = await say(world, `more ${String((sent += 1))}`, { session_id: first.session_id })
        expect(again).toMatchObject({ turn_id: first.turn_id, merged: true })
        expect(await world.store.readInbox(first.turn_id)).toHaveLength(sent)
        expect(await world.rows('SELECT 1 FROM messages')).toHaveLength(2)
      },
    })
    // reads come first, and at the end of the first function both went on to the model together
    expect(told(world.requests[1]!.messages)).toEqual(['user one', 'assistant', 'function_result', 'function_result', 'user more 1', 'user more 2'])
    expect(await world.store.findTurn(first.turn_id)).toMatchObject({ status: 'completed' })
  })

  it('[message.waits-in-inbox] one that comes while the last answer is written is answered too, in the same turn', async () => {
    const world = await worldThatCalls()
    const first = await say(world, 'one')
    let sent: Awaited<ReturnType<typeof say>> | null = null
    await world.work({ inside: async () => { sent ??= await say(world, 'two', { session_id: first.session_id }) } })
    expect(sent).toMatchObject({ merged: true, turn_id: first.turn_id })
    expect(world.requests.map((request) => lastUser(request.messages))).toEqual(['one', 'two'])
    expect(await world.rows('SELECT status FROM turns')).toEqual([{ status: 'completed' }])
  })

  it('[message.follow-up] one that comes when the turn may ask its model no more is answered by a turn that follows', async () => {
    const world = await worldThatCalls(note)
    const options = { options: { max_turns: 1 } }
    const first = await say(world, 'one', options)
    let sent = false
    await world.work({
      inside: async (where) => {
        if (where === 'model' || sent) return
        sent = true
        await say(world, 'two', { session_id: first.session_id, ...options })
      },
    })
    expect(await world.store.findTurn(first.turn_id)).toMatchObject({ status: 'failed', reason: 'max_turns' })
    expect(await world.rows('SELECT 1 FROM turns WHERE finished_at IS NULL')).toHaveLength(1)
    while ((await world.work({})) !== null) continue
    expect(world.requests.map((request) => lastUser(request.messages))).toEqual(['one', 'two'])
    expect(await world.rows('SELECT 1 FROM turns')).toHaveLength(2)
  })

  it('[message.follow-up] one that comes while the last answer it may give is written is answered by a turn that follows', async () => {
    const world = await worldThatCalls()
    const options = { options: { max_turns: 1 } }
    const first = await say(world, 'one', options)
    let sent = false
    await world.work({ inside: async () => { if (!sent) await say(world, 'two', { session_id: first.session_id, ...options }); sent = true } })
    expect(await world.store.findTurn(first.turn_id)).toMatchObject({ status: 'completed' })
    while ((await world.work({})) !== null) continue
    expect(world.requests.map((request) => lastUser(request.messages))).toEqual(['one', 'two'])
  })

  it('[message.follow-up] one that comes after a stop is answered by a turn of the same owner, agent and limits', async () => {
    const world = await worldThatCalls(note)
    const first = await say(world, 'one', { options: { max_turns: 3, system_prompt: 'Be brief.' } })
    let asked = false
    await world.work({
      inside: async (where) => {
        if (where === 'model' || asked) return
        asked = true
        await say(world, 'before the stop', { session_id: first.session_id, options: { max_turns: 3, system_prompt: 'Be brief.' } })
        await world.harness.stop({ session_id: first.session_id, turn_id: first.turn_id }, world.caller)
        expect(
          await say(world, 'after the stop', { session_id: first.session_id, options: { max_turns: 3, system_prompt: 'Be brief.' } })
        ).toMatchObject({ merged: true })
      },
    })
    expect(await world.store.findTurn(first.turn_id)).toMatchObject({ status: 'cancelled', reason: 'stopped' })
    const [follower] = await world.rows(`SELECT turn_id FROM turns WHERE turn_id <> '${first.turn_id}'`)
    expect(await world.store.findTurn(String(follower?.['turn_id']))).toMatchObject({
      status: 'queued', owner: 'local', agent: 'assistant', spec: { max_turns: 3, system_prompt: 'Be brief.' },
    })
    await world.work({})
    const answered = world.requests.find((request) => lastUser(request.messages) === 'after the stop')
    expect(told(answered!.messages)).toEqual(['user one', 'assistant', 'function_result', 'user before the stop', 'user after the stop'])
    expect(await world.problems()).toEqual([])
  })

  it('[message.follow-up] one that comes to a held turn waits until the question is answered, and then is heard', async () => {
    const refund = { function_id: 'shop::refund', arguments: { order: 'A', amount: 1 } }
    const place = await openPlace({ script: (request) => (told(request.messages).length === 1 ? { calls: [refund] } : { text: 'Done.' }) })
    const held = await place.say('one')
    const more = await place.harness.send({ message: 'two', session_id: held.session_id }, place.caller)
    expect(more).toMatchObject({ merged: true, turn_id: held.turn_id })
    expect(await place.turn(held.turn_id)).toMatchObject({ state: 'held' })
    expect(place.model.requests).toHaveLength(1)
    await place.decide(held.approvals[0]!.approval_id, 'approve')
    await place.turn(held.turn_id)
    expect(told(place.model.requests[1]!.messages)).toEqual(['user one', 'assistant', 'function_result', 'user two'])
  })
})

describe('which turn a message joins', () => {
  const running = async (more: object = {}): Promise<{
    place: Place; first: Awaited<ReturnType<Place['harness']['send']>>; session: { session_id: string },
  }> => {
    const place = await openPlace({ script: [{ text: 'Slowly.', delay_ms: 30_000 }], config: (key) => twoAgents(key) })
    const first = await place.harness.send({ message: 'one', ...more }, place.caller)
    await until(() => place.model.requests.length === 1)
    return { place, first, session: { session_id: first.session_id } }
  }

  it('[message.joins-if-equal] one of the same owner with the same agent and options joins the turn that runs', async () => {
    const options = { max_turns: 5, mode: 'agent' as const, functions: { allow: ['shop::*'] }, metadata: { a: 1, b: 2 } }
    const { place, first, session } = await running({ options })
    const again = await place.harness.send({ message: 'two', ...session, options: { ...options, metadata: { b: 2, a: 1 } } }, place.caller)
    expect(again).toMatchObject({ merged: true, turn_id: first.turn_id, session_id: first.session_id })
    expect(again.execution_id).not.toBe(first.execution_id)
  })

  it('[message.else-own-turn] with any other constraint it gets a turn of its own, behind the one that runs', async () => {
    const { place, first, session } = await running()
    const others = [
      { agent: 'helper' }, { model: 'other' }, {
        options: { max_turns: 3 },
      }, { options: { mode: 'plan' as const } }, { options: { functions: { allow: ['shop::look_up'] } } },
      { options: { system_prompt: 'Be brief.' } }, { options: { thinking_level: 'low' as const } }, { options: { metadata: 1 } },
    ]
    const turns = new Set([first.turn_id])
    for (const other of others) {
      const sent = await place.harness.send({ message: 'two', ...session, ...other }, place.caller)
      expect(sent).toMatchObject({ merged: false, session_id: first.session_id })
      turns.add(sent.turn_id)
    }
    expect(turns.size).toBe(others.length + 1)
    expect(place.model.requests).toHaveLength(1)
  })

  it('[message.else-own-turn] another owner does not even get into the session', async () => {
    const { place, session } = await running()
    await expect(place.harness.send({ message: 'two', ...session }, place.callerOf('second'))).rejects.toMatchObject({ code: 'not_found' })
    // seeing all is not being the owner
    await expect(place.harness.send({ message: 'two', ...session }, place.callerOf('watcher'))).rejects.toMatchObject({ code: 'not_found' })
  })

  it('[message.else-own-turn] a message never joins a function that runs', async () => {
    const place = await openPlace()
    const held = await place.run('shop::refund', { order: 'A', amount: 1 })
    const sent = await place.harness.send({ message: 'two', session_id: held.session_id }, place.caller)
    expect(sent).toMatchObject({ merged: false })
    expect(sent.turn_id).not.toBe(held.turn_id)
  })
})

const twoAgents = (publicKey: string): string => `
deployment: d_00000000000000000000000000000000
principals:
  local: { roles: [owner], scopes: ["turns:write", "turns:read"] }
  second: { roles: [owner] }
  watcher: { roles: [operator] }
approvers: [{ name: alice, public_key: "${publicKey}" }]
agents: { helper: { description: Helps. } }
functions:
  shop::look_up: { side_effects: read, http: { url: "http://127.0.0.1:1/" } }
`

describe('sends that race', () => {
  it('[send.no-orphans] 20 at once to one session: no turn is left over, no message lost or said twice', async () => {
    const place = await openPlace({ script: (request) => ({ text: `answer to ${lastUser(request.messages)}` }) })
    const first = await place.say('message 0')
    const messages = Array.from({ length: 20 }, (_, index) => `message ${String(index + 1)}`)
    const sends = await Promise.all(messages.map((message) => place.harness.send({ message, session_id: first.session_id }, place.caller)))
    for (const turnId of new Set(sends.map((sent) => sent.turn_id))) expect(await place.turn(turnId)).toMatchObject({ state: 'completed' })
    // a message that was moved is answered by a turn that nobody was given the id of
    await until(async () => Object.keys((await place.harness.overview()).turns).join() === 'completed')
    const last = await place.say('the end', { session_id: first.session_id })
    expect(last.state).toBe('completed')
    const said = place.model.requests.at(-1)!.messages.flatMap((message) => (message.role === 'user' ? [message.text] : []))
    expect(said).toHaveLength(22)
    expect([...said].sort()).toEqual(['message 0', ...messages, 'the end'].sort())
    expect(sends.every((sent) => sent.accepted && sent.session_id === first.session_id)).toBe(true)
    expect(new Set(sends.map((sent) => sent.execution_id)).size).toBe(20)
    expect(await place.harness.verify_audit({}, place.caller)).toMatchObject({ problems: [] })
  })

  it('[send.no-orphans] 20 at once with other constraints each get a turn, one after the other', async () => {
    const place = await openPlace({ script: [{ text: 'Yes.' }] })
    const { session_id } = await place.say('first')
    const sends = await Promise.all(
      Array.from({ length: 20 }, (_, index) => place.harness.send({ message: String(index), session_id, options: { metadata: index } }, place.caller))
    )
    expect(new Set(sends.map((sent) => sent.turn_id)).size).toBe(20)
    for (const sent of sends) expect(await place.turn(sent.turn_id)).toMatchObject({ state: 'completed', result: 'Yes.' })
  })
})
