/* What the command ends with. One table, so that scripts can rely on it; the guide repeats it. */

export const exitCodes = {
  /** Done. For `audit verify`: good. */
  done: 0,
  /** An error, told on stderr. For `audit verify`: broken. */
  failed: 1,
  /** `audit verify` could not tell; elsewhere: the command line was not understood. */
  unclear: 2,
  /** The turn waits for a person. */
  held: 3,
  /** The waiting ended before the turn did. */
  working: 4,
  /** The turn ended without what was asked: failed, cancelled, denied, rejected, expired. */
  notDone: 5,
  /** Ended by SIGINT. */
  interrupted: 130,
} as const

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]
