/* A worker that sleeps is woken by a hint, misses none, and wakes by itself after a while. */
import { hintScheduler } from '../../core/engine/scheduler'

const scene = (): { scheduler: ReturnType<typeof hintScheduler>; hint: () => void; stopped: () => boolean } => {
  let listener: (() => void) | null = null
  const scheduler = hintScheduler((given) => {
    listener = given
    return () => { listener = null }
  })
  return { scheduler, hint: () => listener?.(), stopped: () => listener === null }
}

it('a hint wakes who waits, long before the time is over', async () => {
  const { scheduler, hint } = scene()
  const waits = [scheduler.wait(60_000), scheduler.wait(60_000)]
  hint()
  await Promise.all(waits)
})

it('a hint that came while nobody waited wakes the next one who does, once', async () => {
  const { scheduler, hint } = scene()
  hint()
  hint()
  await scheduler.wait(60_000)
  const second = scheduler.wait(60_000).then(() => 'woken')
  expect(await Promise.race([second, new Promise((resolve) => setTimeout(() => resolve('asleep'), 30))])).toBe('asleep')
  scheduler.wake()
  expect(await second).toBe('woken')
})

it('without a hint the wait ends by itself, and closing ends the listening', async () => {
  const { scheduler, stopped } = scene()
  await scheduler.wait(5)
  scheduler.close()
  expect(stopped()).toBe(true)
})
