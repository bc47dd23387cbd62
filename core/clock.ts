/* Time is a port, so that a test owns it. All times are integer milliseconds UTC. */

export interface Clock {
  /** Wall time, milliseconds since 1970 UTC. Contract: an integer. */
  now(): number
  /** Milliseconds that never go backwards; for measuring a lease inside one process. Contract: unaffected by changes of the wall clock. */
  monotonic(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Math.floor(performance.now()),
}
