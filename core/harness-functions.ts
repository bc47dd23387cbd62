/* to come */
import { HarnessError } from './errors'
import type { HarnessParts } from './harness-parts'
import type { Caller } from './identity/principal'
import type { OutputOf, ParsedOf } from './protocol/operations'

export async function registerFunction(_input: ParsedOf<'register_function'>, _caller: Caller, _parts: HarnessParts): Promise<OutputOf<'register_function'>> {
  throw new HarnessError('invariant_broken', 'register_function is not there yet.')
}

export async function unregisterFunction(_input: ParsedOf<'unregister_function'>, _caller: Caller, _parts: HarnessParts): Promise<OutputOf<'unregister_function'>> {
  throw new HarnessError('invariant_broken', 'unregister_function is not there yet.')
}
