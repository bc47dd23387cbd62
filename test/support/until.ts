/* Waits for something to become true, and fails when it does not. */
export async function until(holds: () => boolean | Promise<boolean>, seconds = 15): Promise<void> {
  const latest = performance.now() + seconds * 1_000
  while (!(await holds())) {
    if (performance.now() > latest) throw new Error(`It did not come true within ${String(seconds)} s: ${holds.toString()}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
