/* /healthz: whether this harness is well. Tells counts only, and only to programs on this machine. */
import { loopbackOnly, type Mount } from './http'

/** What `/healthz` answers; throwing means unwell. */
export type ReadHealth = () => Promise<Readonly<Record<string, unknown>>>

export function healthRoutes(read: ReadHealth): Mount {
  return (app) => {
    app.get('/healthz', loopbackOnly, async (context) => {
      try {
        return context.json({ status: 'ok', ...(await read()) })
      } catch {
        return context.json({ status: 'unavailable' }, 503)
      }
    })
  }
}
