/* The one error class: recognised across copies of this package, with a code from one table, showing nothing it must not. */
import { errorCodes, HarnessError, isHarnessError, toHarnessError, unreachable, type ErrorCode } from '../../core/errors'

const codes = Object.keys(errorCodes) as ErrorCode[]

it('every code says whose fault it is, whether to try again, and an HTTP status that fits', () => {
  for (const code of codes) {
    const { fault, http } = errorCodes[code]
    if (fault === 'caller') expect(http).toBeGreaterThanOrEqual(400)
    if (fault === 'caller') expect(http).toBeLessThan(500)
    if (fault !== 'caller') expect(http).toBeGreaterThanOrEqual(500)
    expect(new HarnessError(code, 'text').retry).toBe(errorCodes[code].retry)
  }
})

it('is recognised by its brand, so that the error of another copy of this package counts too', () => {
  let other: unknown
  jest.isolateModules(() => {
    const copy = jest.requireActual<typeof import('../../core/errors')>('../../core/errors')
    other = new copy.HarnessError('conflict', 'from another copy')
  })
  expect(other).not.toBeInstanceOf(HarnessError)
  expect(isHarnessError(other)).toBe(true)
  for (const value of [null, undefined, 'text', {}, new Error('plain'), { code: 'conflict', message: 'x' }]) expect(isHarnessError(value)).toBe(false)
})

it('the brand, the data and the cause stay out of what is printed as JSON', () => {
  const error = new HarnessError('not_found', 'There is none.', { data: { id: 'x' }, cause: new Error('secret path') })
  expect(error).toMatchObject({ name: 'HarnessError', code: 'not_found', message: 'There is none.', data: { id: 'x' } })
  expect(JSON.stringify(error)).not.toContain('secret path')
  expect(Object.keys(error)).not.toContain('cause')
})

it('anything else that is thrown is our own fault, keeps its cause for the log and shows nothing of it', () => {
  const cause = new TypeError('reading /home/ann/harness.db')
  const error = toHarnessError(cause)
  expect(error).toMatchObject({ code: 'invariant_broken', cause })
  expect(error.message).not.toContain('/home')
  const known = new HarnessError('conflict', 'x')
  expect(toHarnessError(known)).toBe(known)
  expect(toHarnessError(undefined).code).toBe('invariant_broken')
})

it('what the compiler rules out is said when it happens all the same', () => {
  expect(() => unreachable('odd' as never)).toThrow(expect.objectContaining({ code: 'invariant_broken', message: 'Unexpected value "odd".' }))
})
