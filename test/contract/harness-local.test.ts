/* The harness in the process. */
import { openPlace } from '../support/place'
import { harnessSuite, readerScopes } from './harness-suite'

harnessSuite('in the process', async (options) => {
  const place = await openPlace(options)
  return {
    place,
    as: (party) => ({ harness: place.harness, caller: party === 'reader' ? place.callerOf('local', readerScopes) : place.callerOf(party) }),
    close: () => Promise.resolve(),
  }
})
