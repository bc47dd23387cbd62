import { isHarnessError } from '../../core/errors'
import { checkSchema, validateArguments } from '../../core/functions/validate'

const refund = {
  type: 'object',
  properties: {
    order: { type: 'string', pattern: '^A-\\d{4}$' },
    amount: { type: 'number', exclusiveMinimum: 0, multipleOf: 0.01 },
    currency: { enum: ['EUR', 'USD'] },
    items: { type: 'array', uniqueItems: true, items: { type: 'object', properties: { sku: { type: 'string' } }, required: ['sku'] } },
  },
  required: ['order', 'amount'],
  additionalProperties: false,
}

function problem(schema: object, value: unknown): string | null {
  const verdict = validateArguments(schema, value)
  return verdict.ok ? null : verdict.problem
}

function refusal(schema: unknown): string {
  try {
    checkSchema(schema, 'functions.x')
  } catch (error) {
    if (isHarnessError(error)) return `${error.code} ${error.message}`
  }
  throw new Error('the schema was not refused')
}

function withProperty(schema: object, more: object = {}): Record<string, unknown> {
  return { type: 'object', properties: { x: schema }, ...more }
}

/** Milliseconds; generous, since a hang is minutes to centuries. */
function timeOf(work: () => unknown): number {
  const start = performance.now()
  work()
  return performance.now() - start
}

describe('Arguments', () => {
  it('[bad.arguments-off-schema] off their schema get one sentence that names the place', () => {
    expect(problem(refund, { order: 'A-1001', amount: 19.99, currency: 'EUR', items: [{ sku: 'a' }, { sku: 'b' }] })).toBeNull()
    expect(problem(refund, { order: 'A-1001' })).toBe("The arguments must have required property 'amount'.")
    expect(problem(refund, { order: 'A-1001', amount: 'ten' })).toBe('Argument "amount" must be number.')
    expect(problem(refund, { order: 'A-1', amount: 1 })).toBe('Argument "order" must match pattern "^A-\\d{4}$".')
    expect(problem(refund, { order: 'A-1001', amount: 1, currency: 'GBP' })).toBe('Argument "currency" must be one of ["EUR","USD"].')
    expect(problem(refund, { order: 'A-1001', amount: 1, note: '' })).toBe('The arguments must not have "note".')
    expect(problem(refund, { order: 'A-1001', amount: 1, items: [{ sku: 'a' }, { sku: 1 }] })).toBe('Argument "items.1.sku" must be string.')
    expect(problem(refund, { order: 'A-1001', amount: 1, items: [{ sku: 'a' }, { sku: 'a' }] })).toContain('duplicate items')
    expect(problem(withProperty({ anyOf: [{ type: 'string' }, { type: 'null' }] }), { x: 1 })).toBe(
      'Argument "x" must match a schema in anyOf, for one: must be string.',
    )
  })

  it('[bad.null-arguments] that are null, missing or no object fit no schema', () => {
    expect(problem({ type: 'object' }, null)).toBe('The arguments must be an object, not null.')
    expect(problem({ type: 'object' }, undefined)).toBe('The arguments must be an object, not null.')
    expect(problem({ type: 'object' }, [])).toBe('The arguments must be an object, not an array.')
    expect(problem({ type: 'object' }, '{}')).toBe('The arguments must be an object, not a string.')
  })

  it('[bad.proto-key] with the key __proto__ fit no schema, and inherited names never stand in for required ones', () => {
    expect(problem({ type: 'object' }, JSON.parse('{"a":{"__proto__":{"admin":true}}}'))).toContain('__proto__')
    expect(problem({ type: 'object', required: ['toString'] }, {})).toBe("The arguments must have required property 'toString'.")
  })

  it('are never changed: no coercion, no default, nothing removed', () => {
    const schema = withProperty({ type: 'integer', default: 7 }, { additionalProperties: false })
    const value = {}
    expect(problem(schema, value)).toBeNull()
    expect(value).toEqual({})
    expect(problem(schema, { x: '7' })).toBe('Argument "x" must be integer.')
    const more = { x: 7, y: 1 }
    expect(problem(schema, more)).toBe('The arguments must not have "y".')
    expect(more).toEqual({ x: 7, y: 1 })
  })

  it('above 256 KiB or 64 levels fit no schema', () => {
    let deep: unknown = 1
    for (let level = 0; level < 64; level += 1) deep = { deep }
    expect(problem({ type: 'object' }, deep)).toBeNull()
    expect(problem({ type: 'object' }, { deep })).toContain('nested deeper than 64 levels')
    expect(problem({ type: 'object' }, { x: 'x'.repeat(262_136) })).toBeNull()
    expect(problem({ type: 'object' }, { x: 'x'.repeat(262_137) })).toContain('larger than 262144 bytes')
  })

  it('get a problem of at most 300 characters that never repeats a value of theirs', () => {
    const long = problem({ type: 'object', additionalProperties: false }, { ['k\u0000"\n😀'.repeat(200)]: 1 }) ?? ''
    expect(long.length).toBeLessThanOrEqual(300)
    expect(long).not.toContain('\n')
    expect(
      problem(withProperty({ type: 'object', properties: { ['y'.repeat(900)]: { type: 'string' } } }), { x: { ['y'.repeat(900)]: 1 } })?.length,
    ).toBeLessThanOrEqual(300)
    expect(problem(withProperty({ type: 'number' }), { x: 'hunter2' })).not.toContain('hunter2')
  })

  it('are checked for the formats we know, integer sizes included; an unknown format lets everything through', () => {
    const cases: [string, unknown, boolean][] = [
      ['date', '2026-02-29', false], ['date', '2028-02-29', true], ['uuid', 'x', false], ['email', 'a@b.example', true],
      ['uint32', 2 ** 32, false], ['uint32', 2 ** 32 - 1, true], ['uint8', -1, false], ['int64', 1.5, false], ['int64', -5, true],
      ['uint64', 5, true], ['of-ours', 'x', true], ['byte', 'QUJD'.repeat(60_000), true], ['binary', 'x'.repeat(9000), true],
      ['uri', `http://a/${'b'.repeat(3000)}`, false], ['regex', '(?=a)', false],
    ]
    for (const [format, x, fits] of cases) expect([format, problem(withProperty({ format }), { x }) === null]).toEqual([format, fits])
  })

  it('are told apart by their own pattern when a schema has several', () => {
    const schema = {
      type: 'object',
      properties: { a: { pattern: '^a$' }, b: { pattern: '^b$' } },
      patternProperties: { '^x_': { type: 'number' } },
    }
    expect(problem(schema, { a: 'a', b: 'b', x_1: 1 })).toBeNull()
    expect(problem(schema, { a: 'b' })).not.toBeNull()
    expect(problem(schema, { b: 'a' })).not.toBeNull()
    expect(problem(schema, { x_1: 'one' })).toBe('Argument "x_1" must be number.')
  })

  it('of a schema that was never checked and is unusable are refused, not let through', () => {
    expect(problem({ type: 'object', properties: { x: { pattern: '(a)\\1' } } }, { x: 'aa' })).toMatch(/^The arguments cannot be checked/)
    expect(problem({}, {})).toMatch(/^The arguments cannot be checked/)
  })
})

describe('A schema', () => {
  it('of any of the three drafts works, with references into itself and names that look like keywords', () => {
    const tree = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'https://example.org/tree',
      type: 'object',
      properties: {
        $ref: { type: 'string' },
        id: { type: 'number' },
        pair: { type: 'array', items: [{ type: 'number' }, { type: 'string' }] },
        'a/b~c d': true,
        child: { $ref: '#' },
      },
      definitions: { name: { type: 'string' } },
      patternProperties: { '^n': { $ref: '#/definitions/name' } },
    }
    checkSchema(tree, 'x')
    checkSchema(structuredClone(tree), 'the same $id twice')
    expect(problem(tree, { $ref: 'x', id: 1, pair: [1, 'a'], child: { child: { nick: 'n' } } })).toBeNull()
    expect(problem(tree, { child: { child: { nick: 1 } } })).toBe('Argument "child.child.nick" must be string.')
    expect(problem(tree, { pair: ['a', 1] })).toBe('Argument "pair.0" must be number.')
    const modern = {
      $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object',
      properties: { pair: { prefixItems: [{ $ref: '#/$defs/a~1b%25' }], items: false } }, $defs: { 'a/b%': { type: 'number' } },
      unevaluatedProperties: false,
    }
    checkSchema(modern, 'x')
    expect(problem(modern, { pair: [1] })).toBeNull()
    expect(problem(modern, { pair: [1, 2] })).not.toBeNull()
    expect(problem(modern, { other: 1 })).toBe('The arguments must not have "other".')
    checkSchema({ $schema: 'https://json-schema.org/draft/2019-09/schema', type: 'object', dependentRequired: { a: ['b'] } }, 'x')
  })

  it('is refused by name when it is no usable schema, with the code of where it came from', () => {
    expect(refusal(null)).toBe('bad_config functions.x: A schema must be an object, not null.')
    expect(refusal({ type: 'array' })).toContain('"type": "object" at its root')
    expect(refusal(withProperty({ type: 'strnig' }))).toMatch(/not valid JSON Schema: "properties.x.type" must .* one of \["array"/)
    expect(refusal({ type: 'object', $schema: 'http://json-schema.org/draft-04/schema#' })).toContain('draft-04')
    expect(refusal(withProperty({ description: 'x'.repeat(65_536) }))).toContain('larger than 65536 bytes')
    let deep: object = {}
    for (let level = 0; level < 20; level += 1) deep = { properties: { deep } }
    expect(refusal({ type: 'object', ...deep })).toContain('nested deeper than 32 levels')
    expect(() => {
      checkSchema({}, 'x', 'invalid_input')
    }).toThrow(expect.objectContaining({ code: 'invalid_input' }))
  })

  it('reaches for nothing outside itself, and for nothing inside that is no subschema', () => {
    for (const $ref of ['https://example.org/schema', 'file:///etc/passwd', 'other.json', '#anchor', '//example.org#/x', 7]) {
      expect(refusal(withProperty({ $ref }))).toContain('only references into the schema itself')
    }
    expect(refusal(withProperty({ $ref: '#/$defs/none' }))).toContain('where the schema has no subschema')
    expect(refusal(withProperty({ $ref: '#/default/hidden' }, { default: { hidden: { pattern: '(a)\\1' } } }))).toContain('no subschema')
  })

  it('with dynamic references, an own base or an asynchronous mode is refused', () => {
    for (const keyword of ['$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor', '$async', '$id']) {
      expect(refusal(withProperty({ [keyword]: '#x' }))).toContain(`uses ${keyword}`)
    }
    expect(refusal({ type: 'object', $async: true })).toContain('$async')
  })

  it('[bad.hostile-pattern] with a pattern that is exponential elsewhere is matched in linear time', () => {
    const schema = withProperty({ pattern: '^(a+)+$' }, { patternProperties: { '^(x|x)*$': true } })
    checkSchema(schema, 'x')
    const text = `${'a'.repeat(50_000)}!`
    expect(timeOf(() => expect(problem(schema, { x: text, [`${'x'.repeat(50_000)}!`]: 1 })).toContain('must match pattern'))).toBeLessThan(2000)
  })

  it('[bad.hostile-pattern] with a pattern that is not linear, repeats too much or is none is refused by name', () => {
    for (const pattern of [
      '(a)\\1', '(?=a)b', '(?<!a)b', '(', '\\Aa', '(?i)a', 'a{1001}', '(x{1000}){1000}', 'x{1000}'.repeat(50), 'a'.repeat(2000),
    ]) {
      expect(refusal(withProperty({ pattern }))).toMatch(/has the pattern .*, which/)
      expect(refusal({ type: 'object', patternProperties: { [pattern]: true } })).toMatch(/has the pattern .*, which/)
    }
    const many = Array.from({ length: 60 }, (_, index) => ({ pattern: `${String(index)}${'(x?){30}'.repeat(20)}` }))
    expect(timeOf(() => expect(refusal(withProperty({ anyOf: many }))).toContain('in all'))).toBeLessThan(5000)
  })

  it('[bad.hostile-pattern] with a pattern of large states or a slow format never hangs on a long text', () => {
    const bits = Array.from({ length: 200_000 }, (_, index) => String(((index * index) % 7) % 2)).join('')
    expect(timeOf(() => problem(withProperty({ pattern: '1[01]{900}2' }), { x: bits }))).toBeLessThan(3000)
    expect(problem(withProperty({ pattern: '1[01]{900}2' }), { x: bits })).toBe(
      'The arguments cannot be checked: they are too large for this schema.',
    )
    expect(timeOf(() => problem(withProperty({ items: { format: 'url' } }), { x: Array(100).fill(`http://${':'.repeat(2000)}`) }))).toBeLessThan(
      3000,
    )
  })

  it('that multiplies through its references, or refers to itself without end, never hangs', () => {
    const doubling = Object.fromEntries(
      Array.from({ length: 60 }, (_, index) => [`d${String(index)}`, { allOf: Array(2).fill({ $ref: `#/$defs/d${String(index + 1)}` }) }]),
    )
    const schema = withProperty({ $ref: '#/$defs/d0' }, { $defs: { ...doubling, d60: { type: 'string' } } })
    expect(timeOf(() => expect(problem(schema, { x: 'x' })).toContain('too large for this schema'))).toBeLessThan(5000)
    const level = { allOf: Array(2).fill({ properties: { x: { $ref: '#' } } }) }
    let nested: object = {}
    for (let depth = 0; depth < 60; depth += 1) nested = { x: nested }
    expect(timeOf(() => expect(problem({ type: 'object', ...level }, nested)).toContain('too large for this schema'))).toBeLessThan(5000)
    expect(refusal({ type: 'object', $ref: '#' })).toContain('without end')
    expect(problem(withProperty({ $ref: '#/$defs/a' }, { $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } } }), { x: 1 })).toContain('without end')
  })

  it('that is too wide to be compiled in time is refused', () => {
    for (const keyword of ['allOf', 'anyOf', 'oneOf', 'prefixItems'])
      expect(refusal(withProperty({ [keyword]: Array(257).fill({}) }))).toContain('more than 256')
    expect(
      refusal({ type: 'object', properties: Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`p${String(index)}`, {}])) }),
    ).toContain('256')
    const wide = { oneOf: Array(256).fill({}) }
    expect(timeOf(() => expect(refusal({ type: 'object', allOf: Array(8).fill(wide) })).toContain('more than 2048 subschemas'))).toBeLessThan(5000)
    expect(
      timeOf(() => {
        checkSchema({ type: 'object', allOf: Array(7).fill(wide) }, 'x')
      }),
    ).toBeLessThan(5000)
    expect(
      refusal({ type: 'object', dependentRequired: Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`p${String(index)}`, ['a']])) }),
    ).toContain('too large')
  })

  it('with many alternatives, unique items or lengths over large arguments never hangs', () => {
    const rows = Array.from({ length: 25_000 }, (_, index) => [index])
    expect(timeOf(() => expect(problem(withProperty({ type: 'array', uniqueItems: true }), { x: rows })).toBeNull())).toBeLessThan(3000)
    const many = { items: { anyOf: Array.from({ length: 250 }, (_, index) => ({ const: [index, index] })) } }
    expect(timeOf(() => problem(withProperty(many), { x: rows }))).toBeLessThan(3000)
    const lengths = { allOf: Array(250).fill({ $ref: '#/$defs/all' }) }
    const $defs = { all: { allOf: Array(250).fill({ minLength: 1 }) } }
    expect(timeOf(() => problem(withProperty(lengths, { $defs }), { x: 'ä'.repeat(120_000) }))).toBeLessThan(3000)
  })
})
