/*
 * Errors on their way to a model: text alone, and only from our own error class. What anything else says stays in the log, since it
 * could hold a path, a secret, or words of strangers.
 */
import { isHarnessError, type Log } from '../core/index'

export interface ToolError {
  [key: string]: unknown
  content: { type: 'text'; text: string }[]
  isError: true
}

export function toolError(text: string): ToolError {
  return { content: [{ type: 'text', text }], isError: true }
}

/** What a tool answers instead of throwing. */
export function toToolError(error: unknown, log: Log, tool: string): ToolError {
  if (isHarnessError(error)) {
    log.info({ tool, code: error.code }, 'tool refused')
    return toolError(error.retry ? `${error.message} The same call may work later.` : error.message)
  }
  log.error({ tool, err: error }, 'tool failed unexpectedly')
  return toolError(
    'Something unexpected happened inside the harness; its log has the details. ' +
      'A turn that was started goes on: look with get_turn before you send anything again.',
  )
}
