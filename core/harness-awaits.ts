/* to come */
import { HarnessError } from './errors'
import type { HarnessParts } from './harness-parts'
import type { Caller } from './identity/principal'
import type { OutputOf, ParsedOf } from './protocol/operations'

export async function awaitAny(_input: ParsedOf<'await'>, _caller: Caller, _parts: HarnessParts): Promise<OutputOf<'await'>> {
  throw new HarnessError('invariant_broken', 'await is not there yet.')
}

export async function unawait(_input: ParsedOf<'unawait'>, _caller: Caller, _parts: HarnessParts): Promise<OutputOf<'unawait'>> {
  throw new HarnessError('invariant_broken', 'unawait is not there yet.')
}
