/* The pure parts of the driver: names, lines, ids, versions, texts of errors. */
import fc from 'fast-check'
import { isFunctionId } from '../../core/policy/glob'
import { saidIn, shown } from '../../core/model/ollama-errors'
import { lineGate } from '../../core/model/ollama-lines'
import { wireNames } from '../../core/model/ollama-names'
import { readArguments } from '../../core/model/ollama-reply'
import { isAtLeast, readVersion, wireCallId } from '../../core/model/ollama-wire'

/** Of segments that are parts of one another, so that names contain one another often. */
const segment = fc.constantFrom('a', 'b', 'ab', 'a_b', 'list', 'list_all', 'my_list', '0', 'z9')
const functionId = fc.array(segment, { minLength: 2, maxLength: 4 }).map((parts) => parts.join('::')).filter(isFunctionId)

it('every offered name comes back as its function, is taken everywhere, and none contains another', () => {
  fc.assert(fc.property(fc.uniqueArray(functionId, { maxLength: 40 }), (ids) => {
    const names = wireNames(ids)
    const offered = ids.map((id) => names.encode(id))
    expect(offered.map((name) => names.decode(name))).toEqual(ids)
    for (const name of offered) {
      expect(name).toMatch(/^[A-Za-z0-9_]{1,64}$/)
      expect(offered.filter((other) => other.includes(name))).toEqual([name])
    }
  }), { numRuns: 500 })
})

it('names do not depend on the order of the offer', () => {
  const ids = ['files::list', 'files::list_all', 'a::b', 'a::b::c']
  const [one, other] = [wireNames(ids), wireNames([...ids].reverse())]
  expect(ids.map((id) => one.encode(id))).toEqual(ids.map((id) => other.encode(id)))
})

it('lines come out the same however the bytes are cut', () => {
  const text = '{"message":{"content":"ü🧪"}}\r\n\n{"done":false}\n{"done":true}\nnot looked at\n'
  const bytes = Buffer.from(text)
  fc.assert(fc.property(fc.array(fc.nat({ max: bytes.length }), { maxLength: 30 }), (cuts) => {
    const gate = lineGate()
    const places = [0, ...cuts.sort((left, right) => left - right), bytes.length]
    const lines: string[] = []
    for (const [index, place] of places.slice(1).entries()) {
      const gated = gate.push(bytes.subarray(places[index], place))
      expect(gated.trouble).toBeNull()
      lines.push(...gated.lines.map((line) => Buffer.from(line).toString()))
      if (gated.done) break
    }
    expect(lines).toEqual(['{"message":{"content":"ü🧪"}}\n', '{"done":false}\n', '{"done":true}\n'])
  }))
})

it('a broken character is a broken line, not a question mark', () => {
  const broken = Buffer.concat([Buffer.from('{"path":"'), Buffer.from([0xf0, 0x9f]), Buffer.from('"}\n')])
  expect(lineGate().push(broken).trouble?.trouble).toBe('bad_line')
})

it('a last line without its newline counts', () => {
  const gate = lineGate()
  gate.push(Buffer.from('{"done":'))
  gate.push(Buffer.from('true}'))
  expect(gate.end()).toMatchObject({ done: true, trouble: null })
})

it('the id of a call is nine letters and digits, always the same', () => {
  fc.assert(fc.property(fc.string(), (id) => {
    expect(wireCallId(id)).toMatch(/^[a-z0-9]{9}$/)
    expect(wireCallId(id)).toBe(wireCallId(id))
  }))
})

it('versions are compared by number, and an unknown one is older than any', () => {
  expect(isAtLeast(readVersion('0.18.0-rc1'), [0, 18, 0])).toBe(true)
  expect(isAtLeast(readVersion('0.9.12'), [0, 18, 0])).toBe(false)
  expect(isAtLeast(readVersion('1.0.0'), [0, 18, 0])).toBe(true)
  for (const unknown of ['0.0.0', '', 'dev', undefined, 7]) expect(isAtLeast(readVersion(unknown), [0, 0, 1])).toBe(false)
})

it('arguments are parsed once and no more', () => {
  expect(readArguments('{"a":"{}"}')).toEqual({ a: '{}' })
  expect(readArguments(JSON.stringify('{"a":1}'))).toBeNull()
})

it('the text of an error is found in its wrappings', () => {
  expect(saidIn('{"error":"plain"}')).toBe('plain')
  expect(saidIn(JSON.stringify({ error: JSON.stringify({ error: { code: 400, message: 'inner', type: 'kind' } }) }))).toBe('inner (kind)')
  for (const odd of ['', 'no JSON', '{', '[]', '{"error":null}']) expect(saidIn(odd)).toBe(odd)
})

it('what is shown is one short line without paths', () => {
  expect(shown('open /root/.ollama/models/blobs/sha256-1: no such file\nC:\\Users\\me\\x')).toBe('open [path]: no such file [path]')
  expect(shown('registry.ollama.ai/library/gemma3:4b does not support tools')).toBe('registry.ollama.ai/library/gemma3:4b does not support tools')
  expect(shown('x'.repeat(1_000))).toHaveLength(300)
  expect(shown('a\u001b[31m\u202eb')).toBe('a [31m b')
})
