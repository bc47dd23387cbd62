/* Reading sorted streams side by side. */

export interface Cursor<T> {
  /** The next item without taking it; undefined at the end. */
  peek(): Promise<T | undefined>
  take(): Promise<T | undefined>
  /** Takes every item whose key comes before `key` (null: all that is left), giving each to `passed`; then takes and answers the one that has it. */
  seek(key: string | null, passed: (item: T) => void): Promise<T | undefined>
}

/** `keyOf` must ascend along the stream. */
export function cursor<T>(source: AsyncIterable<T>, keyOf: (item: T) => string): Cursor<T> {
  const iterator = source[Symbol.asyncIterator]()
  let ahead: IteratorResult<T, unknown> | null = null
  const peek = async (): Promise<T | undefined> => {
    ahead ??= await iterator.next()
    return ahead.done === true ? undefined : ahead.value
  }
  const take = async (): Promise<T | undefined> => {
    const item = await peek()
    if (ahead?.done !== true) ahead = null
    return item
  }
  return {
    peek,
    take,
    async seek(key, passed) {
      for (;;) {
        const item = await peek()
        if (item === undefined) return undefined
        const found = keyOf(item)
        if (key !== null && found > key) return undefined
        await take()
        if (found === key) return item
        passed(item)
      }
    },
  }
}
