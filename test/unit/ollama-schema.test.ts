/* A schema for Ollama holds only what Ollama keeps, and says the rest in words. */
import fc from 'fast-check'
import type { Json } from '../../core/digest'
import { reduceSchema } from '../../core/model/ollama-schema'

type Schema = { readonly [key: string]: Json }

/** What becomes of one property. */
function property(schema: Json, root: Schema = {}): unknown {
  return reduceSchema({ ...root, type: 'object', properties: { it: schema } }).parameters.properties['it']
}

it('a schema without anything still has a type and properties', () => {
  expect(reduceSchema({})).toEqual({ parameters: { type: 'object', properties: {} }, note: null })
})

it('what Ollama keeps is kept', () => {
  const members = { a: { type: ['string', 'null'], enum: ['x', null] } }
  const kept = { type: 'array', description: 'Names', items: { type: 'object', properties: members, required: ['a'] } }
  expect(property(kept)).toEqual(kept)
})

it('what it drops is said in the description', () => {
  expect(property({ type: 'string', format: 'date', description: 'Day', default: 'today' }))
    .toEqual({ type: 'string', description: 'Day (format: date; default: today)' })
  expect(property({ type: 'integer', minimum: 1, maximum: 5 })).toEqual({ type: 'integer', description: 'at least: 1; at most: 5' })
  expect(property({ type: 'array', items: { type: 'string', pattern: '^a' } }))
    .toEqual({ type: 'array', items: { type: 'string', description: 'pattern: ^a' } })
})

it('constants, alternatives and conjunctions become what it knows', () => {
  expect(property({ const: 7 })).toEqual({ enum: [7] })
  expect(property({ oneOf: [{ type: 'string' }, { type: 'null' }] })).toEqual({ anyOf: [{ type: 'string' }, { type: 'null' }] })
  expect(property({ allOf: [{ type: 'object', properties: { a: {} } }, { properties: { b: {} }, required: ['a', 'b'] }] }))
    .toEqual({ type: 'object', properties: { a: {}, b: {} }, required: ['a', 'b'] })
  expect(property({ type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }] }))
    .toEqual({ type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'number' }] } })
})

it('a property that is true may be anything, one that is false is not offered', () => {
  const { properties } = reduceSchema({ properties: { yes: true, no: false }, required: ['yes', 'no'] }).parameters
  expect(properties).toEqual({ yes: {} })
  expect(reduceSchema({ properties: { yes: true, no: false }, required: ['yes', 'no'] }).parameters.required).toEqual(['yes'])
})

it('local references are put in their place; others are anything', () => {
  const root = { $defs: { 'a/b': { type: 'string' } } }
  expect(property({ $ref: '#/$defs/a~1b', description: 'It' }, root)).toEqual({ type: 'string', description: 'It' })
  expect(property({ $ref: 'https://example.com/schema' })).toEqual({})
  expect(property({ $ref: '#/$defs/none' })).toEqual({})
})

it('a schema that refers to itself ends', () => {
  const tree = { type: 'object', properties: { children: { type: 'array', items: { $ref: '#' } } } }
  expect(JSON.stringify(reduceSchema(tree).parameters).length).toBeLessThan(500)
})

it('a schema that unfolds without end is cut', () => {
  const level = (number: number): Json => ({ anyOf: Array<Json>(4).fill({ $ref: `#/$defs/l${String(number + 1)}` }) })
  const $defs = Object.fromEntries(Array.from({ length: 30 }, (_, number) => [`l${String(number)}`, level(number)]))
  const started = performance.now()
  expect(JSON.stringify(reduceSchema({ $defs, properties: { it: { $ref: '#/$defs/l0' } } })).length).toBeLessThan(200_000)
  expect(performance.now() - started).toBeLessThan(1_000)
})

it('alternatives at the root are offered together and explained', () => {
  const oneOf = ['id', 'name'].map((name) => ({ properties: { [name]: {} }, required: [name] }))
  const { parameters, note } = reduceSchema({ oneOf })
  expect(parameters).toEqual({ type: 'object', properties: { id: {}, name: {} } })
  expect(note).toBe('Give one of these sets of arguments: id | name.')
})

it('a property may be called like a member of every object', () => {
  const members = '"properties":{"__proto__":{"type":"string"},"constructor":{"type":"number"}},"required":["__proto__"]}'
  expect(JSON.stringify(reduceSchema(JSON.parse(`{${members}`) as Schema).parameters)).toBe(`{"type":"object",${members}`)
})

it('whatever the schema, only keywords that Ollama keeps come out', () => {
  const keywords = fc.constantFrom(
    'type', 'properties', 'items', 'required', 'anyOf', 'oneOf', 'allOf', '$ref', 'enum', 'const', 'pattern', 'description', 'default', 'not')
  const { schema } = fc.letrec<{ schema: Json }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 5, withCrossShrink: true }, fc.constantFrom<Json>('object', '#', '#/properties/x', 1, null, true, false),
      fc.array(tie('schema'), { maxLength: 3 }), fc.dictionary(keywords, tie('schema'), { maxKeys: 4 })),
  }))
  const check = (node: Json): void => {
    if (typeof node !== 'object' || node === null || Array.isArray(node)) throw new Error('no schema')
    const { properties, items, anyOf, ...rest } = node as { properties?: Schema; items?: Json; anyOf?: Json[] }
    expect(['type', 'description', 'enum', 'required']).toEqual(expect.arrayContaining(Object.keys(rest)))
    for (const child of [...Object.values(properties ?? {}), ...(anyOf ?? []), ...(items === undefined ? [] : [items])]) check(child)
  }
  fc.assert(fc.property(schema, (root) => {
    const whole = typeof root === 'object' && root !== null && !Array.isArray(root)
    const { parameters } = reduceSchema(whole ? (root as Schema) : { properties: { x: root } })
    expect(parameters.type).toBe('object')
    check(parameters as unknown as Json)
  }), { numRuns: 300 })
})
