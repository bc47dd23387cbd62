/* One canonical form of JSON, the digests and seals over it, the ids made from it, and texts by salted digest. */
import fc from 'fast-check'
import { canonical, digestOf, seal, sealHolds, sha256 } from '../../core/digest'
import { callId, randomIds } from '../../core/ids'
import { contentDigest, newContent } from '../../core/turn/content'

const key = Buffer.alloc(32, 1)

describe('the canonical form', () => {
  it('is the same for equal values, whatever the order of their keys, and is JSON that means the same', () => {
    const shuffled = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shuffled)
      if (typeof value !== 'object' || value === null) return value
      return Object.fromEntries(Object.entries(value).reverse().map(([name, member]) => [name, shuffled(member)]))
    }
    fc.assert(fc.property(fc.jsonValue(), (value) => {
      expect(canonical(shuffled(value))).toBe(canonical(value))
      expect(JSON.parse(canonical(value))).toEqual(JSON.parse(JSON.stringify(value)))
    }))
  })

  it('differs for values that differ', () => {
    fc.assert(fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
      const equal = JSON.stringify(JSON.parse(canonical(left))) === JSON.stringify(JSON.parse(canonical(right)))
      expect(canonical(left) === canonical(right)).toBe(equal)
    }))
    expect(canonical('1')).not.toBe(canonical(1))
    expect(canonical([1, 2])).not.toBe(canonical([2, 1]))
  })

  it('sorts keys by code units, leaves out what is undefined, and writes numbers as JavaScript does', () => {
    expect(canonical({ b: 1, a: undefined, B: [undefined, 1e21, -0], 'ä': true })).toBe('{"B":[null,1e+21,0],"b":1,"ä":true}')
  })

  it('refuses what JSON cannot hold', () => {
    for (const value of [NaN, Infinity, -Infinity, 1n, undefined, () => 1, Symbol('s')]) {
      expect(() => canonical({ value: [value ?? (() => 1)] })).toThrow(expect.objectContaining({ code: 'invalid_input' }))
    }
  })
})

describe('digests and seals', () => {
  it('a digest of one kind is never that of another', () => {
    expect(digestOf('function', { a: 1 })).not.toBe(digestOf('definition', { a: 1 }))
    expect(digestOf('function', { a: 1 })).toBe(digestOf('function', { a: 1 }))
    expect(sha256('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  })

  it('a seal holds for its key, kind and value, and for nothing else', () => {
    const made = seal(key, 'turn', { a: 1 })
    expect(sealHolds(key, 'turn', { a: 1 }, made)).toBe(true)
    expect(sealHolds(key, 'turn', { a: 2 }, made)).toBe(false)
    expect(sealHolds(key, 'call', { a: 1 }, made)).toBe(false)
    expect(sealHolds(Buffer.alloc(32, 2), 'turn', { a: 1 }, made)).toBe(false)
    for (const given of [null, '', made.slice(1), `${made}0`, made.toUpperCase()]) expect(sealHolds(key, 'turn', { a: 1 }, given)).toBe(false)
  })
})

describe('ids', () => {
  it('are prefixed, of one length, and never the same', () => {
    const made = Array.from({ length: 500 }, () => randomIds.next('t'))
    expect(new Set(made).size).toBe(500)
    for (const id of made) expect(id).toMatch(/^t_[0-9a-f]{32}$/)
    expect(randomIds.hex(4)).toMatch(/^[0-9a-f]{8}$/)
  })

  it('a call done again in its place has the same id, in another place another one', () => {
    const places = [['t_1', 1, 0], ['t_1', 1, 1], ['t_1', 2, 0], ['t_2', 1, 0], ['t_1', 11, 0], ['t_1', 1, 10]] as const
    const ids = places.map(([turnId, step, ordinal]) => callId(turnId, step, ordinal))
    expect(new Set(ids).size).toBe(places.length)
    expect(callId('t_1', 1, 0)).toBe(ids[0])
    for (const id of ids) expect(id).toMatch(/^c_[0-9a-f]{32}$/)
  })
})

describe('texts', () => {
  it('equal texts have different digests, which their salt explains', () => {
    const [first, second] = [newContent(randomIds, 'yes'), newContent(randomIds, 'yes')]
    expect(first.digest).not.toBe(second.digest)
    expect(first.content_id).not.toBe(second.content_id)
    expect(contentDigest(first.salt, 'yes')).toBe(first.digest)
    expect(contentDigest(first.salt, 'no')).not.toBe(first.digest)
  })
})
