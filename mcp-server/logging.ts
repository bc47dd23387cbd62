/* Log lines as JSON on stderr; stdout belongs to answers. A stack shows only when the user asked for everything. */
import { pino, stdSerializers } from 'pino'
import type { Log } from '../core/index'

export interface LogOptions {
  readonly verbose: boolean
  /** `$AGENT_HARNESS_LOG`: one of pino's levels. */
  readonly level?: string | undefined
}

/** Writes at once, so that nothing is lost when the process ends. */
export function stderrLog({ verbose, level }: LogOptions): Log {
  const known = level !== undefined && Object.hasOwn(pino.levels.values, level) ? level : 'warn'
  return pino(
    {
      level: verbose ? 'debug' : known,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: verbose ? stdSerializers.err : withoutStack },
    },
    pino.destination({ fd: 2, sync: true }),
  )
}

function withoutStack(error: unknown): unknown {
  return error instanceof Error ? { type: error.name, message: error.message } : error
}
