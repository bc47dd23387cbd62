import { isHarnessError } from '../../core/errors'
import { type JsonLimits, jsonProblem, parseStrictJson } from '../../core/json'

const limits = { bytes: 1000 }

function refusal(text: string, given: JsonLimits = limits): { code: string; message: string } {
  try {
    parseStrictJson(text, given)
  } catch (error) {
    if (isHarnessError(error)) return { code: error.code, message: error.message }
  }
  throw new Error(`${text.slice(0, 50)} was not refused`)
}

describe('JSON from outside', () => {
  it('is read as JSON.parse reads it when nothing is wrong', () => {
    for (const text of [
      '{}',
      'null',
      '"a"',
      '-0.5e3',
      '[1,[2,{"a":[{"a":1},{"a":2}]}]]',
      '{"a":"}{\\"a\\":1,","b":{"a":[],"b":{}}}',
      ' { "ä" : "\\u00e4\\\\" } ',
    ]) {
      expect(parseStrictJson(text, limits)).toEqual(JSON.parse(text))
    }
  })

  it('[bad.duplicate-keys] never has a key twice in one object, at any depth, and the error names the key', () => {
    expect(refusal('{"amount":1,"amount":1000}')).toEqual({ code: 'invalid_input', message: 'The key "amount" occurs twice in one object.' })
    expect(refusal('[{"x":{"a":[{}],"b":"a","a":2}}]').message).toContain('"a"')
    expect(refusal('{"a":1,"\\u0061":2}').message).toContain('"a"')
    expect(refusal('{"":1,"":2}').message).toContain('""')
  })

  it('keeps equal keys of different objects apart', () => {
    expect(parseStrictJson('{"a":{"a":[{"a":1},{"a":1}]},"b":["a","a"]}', limits)).toEqual({ a: { a: [{ a: 1 }, { a: 1 }] }, b: ['a', 'a'] })
  })

  it('[bad.proto-key] never has the keys __proto__, constructor and prototype, at any depth or in escapes, and the error names the key', () => {
    for (const key of ['__proto__', 'constructor', 'prototype']) {
      expect(refusal(`{"a":[{"${key}":{"admin":true}}]}`)).toEqual({
        code: 'invalid_input',
        message: `The JSON has the key "${key}", which is not allowed.`,
      })
    }
    expect(refusal('{"\\u005f_proto__":1}').message).toContain('__proto__')
    expect(({} as { admin?: boolean }).admin).toBeUndefined()
    expect(parseStrictJson('["__proto__"]', limits)).toEqual(['__proto__'])
  })

  it('is refused above its limits of size and depth before anything walks it by recursion', () => {
    expect(refusal(`"${'ä'.repeat(500)}"`)).toEqual({ code: 'too_large', message: 'The JSON text is longer than 1000 bytes.' })
    expect(parseStrictJson(`"${'ä'.repeat(499)}"`, limits)).toHaveLength(499)
    expect(refusal('[[[1]]]', { bytes: 100, depth: 2 }).message).toBe('The JSON is nested deeper than 2 levels.')
    expect(refusal(`${'['.repeat(100_000)}${']'.repeat(100_000)}`, { bytes: 1_000_000 }).message).toContain('deeper than 64')
    expect(parseStrictJson(`${'['.repeat(64)}${']'.repeat(64)}`, limits)).toBeDefined()
  })

  it('that is none, or holds a number out of range, is refused with the place and without its text', () => {
    expect(refusal('{"password":"hunter2",}').message).not.toContain('hunter2')
    expect(refusal('{"a":01}').message).toMatch(/^The text is not valid JSON/)
    expect(refusal('').code).toBe('invalid_input')
    expect(refusal('{"a":1e999}').message).toBe('The JSON holds a number that JSON cannot hold.')
  })
})

describe('A value', () => {
  it('is measured as its JSON without white space', () => {
    for (const value of [{ a: [1, 'ä"\n', null, true], b: {} }, [], 'x', [[], {}], { k: -1.5 }]) {
      const bytes = Buffer.byteLength(JSON.stringify(value))
      expect(jsonProblem(value, { bytes })).toBeNull()
      expect(jsonProblem(value, { bytes: bytes - 1 })).toBe(`is larger than ${String(bytes - 1)} bytes`)
    }
  })

  it('that is not JSON is a problem, never an exception', () => {
    const cycle: unknown[] = []
    cycle.push(cycle)
    for (const value of [undefined, { a: undefined }, () => 1, 10n, Symbol('x'), NaN, new Map(), new Date(), cycle, Buffer.from('x')]) {
      expect(jsonProblem({ value }, { bytes: 10_000 })).toEqual(expect.any(String))
    }
  })
})
