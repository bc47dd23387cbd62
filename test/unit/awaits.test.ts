/* Awaits without a database: their seals, how they stand, and what the answers of a receiver mean. */
import { conceal, reveal } from '../../core/digest'
import { kindOf, pauseAfter, shortAnswer, type CallbackAnswer } from '../../core/hooks/callback'
import { randomIds } from '../../core/ids'
import { answeredSeal, awaitHolds, callbackOf, outcomeOf, sealAwait, sealedCallback, wasAnswered, type Await, type AwaitFacts } from '../../core/turn/await'

const key = Buffer.alloc(32, 1)
const from = { ids: randomIds, sealKey: key }
const url = 'http://127.0.0.1:5678/webhook-waiting/1?signature=secret'
const facts: AwaitFacts = { await_id: 'await_0123456789', owner: 'local', kind: 'turn', until: 'ended', subjects: ['t_1', 't_2'], deadline: 1_000, created_at: 10 }
const anAwait = (change: Partial<Await> = {}): Await => ({
  ...facts, seal: sealAwait(facts, key), callback: sealedCallback(url, facts, from), status: 'waiting', outcome: null, answered: null, news: 0, attempts: 0, streak: 0,
  due_at: null, next_at: null, last_answer: null, ...change,
})

it('[await.sealed-address] the address opens under its key for its await alone, and never the same twice', () => {
  const row = anAwait()
  expect([awaitHolds(row, key), callbackOf(row, key)]).toEqual([true, url])
  expect(row.callback?.text).not.toBe(anAwait().callback?.text)
  const changes: Partial<Await>[] = [
    { await_id: 'await_of_another' }, { owner: 'second' }, { kind: 'approval' }, { until: 'held_or_ended' }, { subjects: ['t_1'] }, { subjects: ['t_2', 't_1'] },
    { deadline: null }, { deadline: 1_001 }, { created_at: 11 },
  ]
  for (const change of changes) expect([awaitHolds(anAwait(change), key), callbackOf(anAwait(change), key)]).toEqual([false, null])
  expect(callbackOf(row, Buffer.alloc(32, 2))).toBeNull()
})

it('[await.sealed-address] a text that was cut, edited or is none at all opens as nothing', () => {
  const bound = { id: 'w' }
  const hidden = conceal(key, 'kind', { bound, text: 'secret', nonce: randomIds.hex(12) })
  expect(reveal(key, 'kind', { bound, hidden })).toBe('secret')
  expect(reveal(key, 'another kind', { bound, hidden })).toBeNull()
  const bytes = Buffer.from(hidden, 'base64')
  for (let place = 0; place < bytes.length; place += 1) {
    const edited = Buffer.from(bytes)
    edited[place] = (edited[place] ?? 0) ^ 1
    expect(reveal(key, 'kind', { bound, hidden: edited.toString('base64') })).toBeNull()
    expect(reveal(key, 'kind', { bound, hidden: bytes.subarray(0, place).toString('base64') })).toBeNull()
  }
})

describe('how it stands', () => {
  const stands = (change: Partial<Await>, isDone: boolean, now: number): string | null => outcomeOf(anAwait(change), isDone, now, key)
  const answered = (outcome: 'done' | 'timed_out'): Partial<Await> => ({ outcome, answered: answeredSeal(facts, outcome, key) })

  it('is pending, done or timed out; what ends in time is due before its deadline', () => {
    expect([stands({}, false, 999), stands({ status: 'due' }, true, 999), stands({ status: 'due' }, true, 1_001)]).toEqual([null, 'done', 'done'])
    expect([stands({}, false, 1_000), stands({ status: 'due' }, false, 1_000)]).toEqual(['timed_out', 'timed_out'])
    expect(stands({}, true, 1_000)).toBe('timed_out')
    expect(stands({ deadline: null }, false, 9e15)).toBeNull()
  })

  it('[await.deadline] a deadline that was missed stays so, and so does what the caller was told', () => {
    expect(stands({ status: 'due', outcome: 'timed_out' }, true, 1_000)).toBe('timed_out')
    expect(stands({ status: 'answered', ...answered('done') }, false, 5_000)).toBe('done')
    expect(stands({ status: 'answered', ...answered('timed_out') }, true, 5_000)).toBe('timed_out')
  })

  it('[await.attacker-called] an outcome that was put into the row is not believed', () => {
    expect(stands({ status: 'due', outcome: 'timed_out' }, false, 999)).toBeNull()
    expect(stands({ status: 'due', outcome: 'done', answered: 'x' }, false, 999)).toBeNull()
    expect(wasAnswered(anAwait({ ...answered('done'), outcome: 'timed_out' }), key)).toBe(false)
  })
})

describe('what a receiver answers', () => {
  const said = (message: string): string => JSON.stringify({ code: 0, message })
  const id = facts.await_id
  it.each<[string, CallbackAnswer, string]>([
    ['yes, for this await', { status: 200, body: JSON.stringify({ accepted: true, awaitId: id }) }, 'taken'],
    ['yes, for another await', { status: 200, body: JSON.stringify({ accepted: true, awaitId: 'another' }) }, 'unready'],
    ['not yet', { status: 200, body: '{"pending":true}' }, 'unready'],
    ['a page', { status: 200, body: '<html>accepted</html>' }, 'unready'],
    ['null', { status: 200, body: 'null' }, 'unready'],
    ['nothing', { status: 204, body: '' }, 'unready'],
    ['running already', { status: 409, body: said('The execution "1" is running already.') }, 'early'],
    ['finished', { status: 409, body: said('The execution "1" has finished already.') }, 'gone'],
    ['finished with error', { status: 409, body: said('The execution "1" has finished with error.') }, 'gone'],
    ['no such execution', { status: 404, body: said('The execution "1" does not exist.') }, 'gone'],
    ['a proxy that knows nothing', { status: 404, body: 'Not Found' }, 'unready'],
    ['a wrong token', { status: 401, body: '' }, 'unauthorized'],
    ['an error', { status: 500, body: said('There was a problem executing the workflow') }, 'ambiguous'],
    ['a redirect', { status: 302, body: '' }, 'unready'],
    ['a proxy before nothing', { status: 502, body: '' }, 'unready'],
    ['too much', { status: 429, body: '' }, 'unready'],
    ['no answer', { failed: 'ECONNREFUSED' }, 'unready'],
  ])('[await.answers] %s', (_what, answer, kind) => {
    expect(kindOf(answer, id)).toBe(kind)
  })

  it('[await.not-lost] it is called again soon at first, then every few minutes', () => {
    expect([0, 1, 2, 3, 4].map((streak) => pauseAfter('early', streak))).toEqual([100, 300, 1_000, 3_000, 10_000])
    for (const kind of ['early', 'ambiguous', 'unready'] as const) {
      const pauses = Array.from({ length: 100 }, (_, streak) => pauseAfter(kind, streak))
      expect([...pauses].sort((left, right) => left - right)).toEqual(pauses)
      expect([pauses[0]! >= 100, pauses[4]! <= 60_000, pauses.at(-1)]).toEqual([true, true, 300_000])
    }
  })

  it('what is kept of it is short, on one line and printable', () => {
    expect(shortAnswer('unready', { status: 502, body: `a\n\u001b[31m${'x'.repeat(500)}` })).toMatch(/^unready: 502 a \[31mx{1,160}$/)
  })
})
