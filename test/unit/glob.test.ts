/* Globs over function ids: what they match, what is refused, and that the fast matcher agrees with the plain definition. */
import fc from 'fast-check'
import { checkGlob, globMatches, isFunctionId, matchGlobs } from '../../core/policy/glob'

describe('matching', () => {
  it('a star stands for any run of characters, none and :: included, and nothing else is special', () => {
    expect(globMatches('*', 'shop::refund')).toBe(true)
    expect(globMatches('shop::*', 'shop::a::b')).toBe(true)
    expect(globMatches('shop::*', 'shop::')).toBe(true)
    expect(globMatches('shop::*', 'shopping::x')).toBe(false)
    expect(globMatches('*::refund', 'shop::refund')).toBe(true)
    expect(globMatches('s*p::*f*d', 'shop::refund')).toBe(true)
    expect(globMatches('shop::refun', 'shop::refund')).toBe(false)
    expect(globMatches('shop::.*', 'shop::refund')).toBe(false)
  })

  it('pieces never overlap', () => {
    expect(globMatches('ab*ba', 'aba')).toBe(false)
    expect(globMatches('ab*ba', 'abba')).toBe(true)
    expect(globMatches('a*b*b', 'ab')).toBe(false)
    expect(globMatches('**', '')).toBe(true)
  })

  it('says what the plain definition says, for any glob and text', () => {
    const letters = fc.array(fc.constantFrom('a', 'b', ':'), { maxLength: 8 }).map((parts) => parts.join(''))
    const globs = fc.array(fc.constantFrom('a', 'b', ':', '*'), { maxLength: 8 }).map((parts) => parts.join(''))
    const plain = (glob: string, text: string): boolean => {
      if (glob === '') return text === ''
      if (glob.startsWith('*')) return plain(glob.slice(1), text) || (text !== '' && plain(glob, text.slice(1)))
      return text.startsWith(glob.charAt(0)) && plain(glob.slice(1), text.slice(1))
    }
    fc.assert(fc.property(globs, letters, (glob, text) => globMatches(glob, text) === plain(glob, text)), { numRuns: 2_000 })
  })
})

describe('allow and deny', () => {
  it('deny wins, and an empty allow list allows nothing', () => {
    expect(matchGlobs({ allow: ['*'], deny: ['shop::refund'] }, 'shop::refund')).toEqual({ allowed: false, glob: 'shop::refund' })
    expect(matchGlobs({ allow: ['shop::*'], deny: ['shop::refund'] }, 'shop::note')).toEqual({ allowed: true, glob: 'shop::*' })
    expect(matchGlobs({ allow: [], deny: [] }, 'shop::note')).toEqual({ allowed: false, glob: null })
  })
})

describe('what may be a glob or an id', () => {
  it('a glob of anything but lower-case letters, digits, _, : and * is refused, and the refusal names it', () => {
    for (const glob of ['shop::*', 'a', '*', 'x'.repeat(80)]) expect(() => checkGlob(glob)).not.toThrow()
    for (const glob of ['', 'Shop::*', 'shop::{a,b}', 'shop::?', 'shop ::*', 'ѕhop::*', 'x'.repeat(81)]) {
      expect(() => checkGlob(glob)).toThrow(
        expect.objectContaining({ code: 'invalid_input', message: expect.stringContaining(JSON.stringify(glob.slice(0, 80))) })
      )
    }
  })

  it('an id has two or more segments in one spelling only', () => {
    for (const id of ['shop::refund', 'a::b', 'a::b::c', 'a_b::c_1']) expect(isFunctionId(id)).toBe(true)
    for (const id of ['shop', 'Shop::x', 'shop::', '::x', 'shop:x', 'shop::_x', 'shop::x_', 'shop::x__y', 'shop::x y', `a::${'b'.repeat(58)}`]) {
      expect(isFunctionId(id)).toBe(false)
    }
  })
})
