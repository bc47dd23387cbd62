/* Who is asking: what a principal may see by itself, and that nothing but configuration gives more. */
import { maySee, operatorRole, scopes, type Principal } from '../../core/identity/principal'
import { operations } from '../../core/protocol/operations'

const principal = (facts: Partial<Principal> = {}): Principal => ({
  id: 'ann', type: 'user', name: 'Ann', roles: [], scopes: [], active: true, ...facts,
})

it('its owner and an operator may see an object, nobody else, and nobody who is not active', () => {
  expect(maySee(principal(), 'ann')).toBe(true)
  expect(maySee(principal(), 'bob')).toBe(false)
  expect(maySee(principal({ roles: [operatorRole] }), 'bob')).toBe(true)
  expect(maySee(principal({ roles: ['approver', 'owner'] }), 'bob')).toBe(false)
  expect(maySee(principal({ active: false }), 'ann')).toBe(false)
  expect(maySee(principal({ active: false, roles: [operatorRole] }), 'bob')).toBe(false)
})

it('every operation needs a scope that there is', () => {
  for (const { scope } of Object.values(operations)) expect(scopes).toContain(scope)
})
