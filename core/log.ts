/* Logging is a port; programs give a pino logger on stderr, tests collect. Never log a text of a message, an argument or a secret. */

export interface Log {
  debug(fields: Record<string, unknown>, message: string): void
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
}

const nothing = (): void => undefined
export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
