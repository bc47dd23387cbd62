/* The port by which a worker learns that there may be work. Embedded it is the database's own hint and a slow look; a queue may stand here. */

export interface Scheduler {
  /** Resolves when there may be work, at the latest after `atMostMs`. Contract: may wake for nothing; never misses for longer than that. */
  wait(atMostMs: number): Promise<void>
  /** Wakes every waiter now. */
  wake(): void
  close(): void
}

/** Wakes by the store's hints. */
export function hintScheduler(onHint: (listener: () => void) => () => void): Scheduler {
  const waiting = new Set<() => void>()
  let missed = false
  const wake = (): void => {
    missed = waiting.size === 0
    for (const resolve of [...waiting]) resolve()
  }
  const stopHints = onHint(wake)
  return {
    wait(atMostMs) {
      if (missed) {
        missed = false
        // behind what else waits in this process: a worker that is woken again and again starves nobody
        return new Promise((resolve) => setImmediate(resolve))
      }
      return new Promise((resolve) => {
        const done = (): void => {
          clearTimeout(timer)
          waiting.delete(done)
          resolve()
        }
        const timer = setTimeout(done, atMostMs)
        waiting.add(done)
      })
    },
    wake,
    close: stopHints,
  }
}
