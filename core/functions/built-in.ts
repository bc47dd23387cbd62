/* The functions that are part of the harness itself. For agents: a caller who runs one function has no conversation to end. */
import type { FunctionEntry } from '../policy/policy'
import { askPersonId } from '../turn/ask-person'
import type { FunctionSource } from './function'

const askPerson: FunctionEntry = {
  id: askPersonId,
  description:
    'Ask a person something that you cannot find out or must not decide yourself. Your turn ends with this question; the answer comes as the next message. ' +
    'Ask one clear question, and give choices where there are few answers. Call no other function in the same answer.',
  schema: {
    type: 'object',
    properties: {
      question: { type: 'string', minLength: 1, maxLength: 4_000, description: 'The question, with all that a person needs to answer it.' },
      choices: { type: 'array', maxItems: 20, items: { type: 'string', minLength: 1, maxLength: 200 }, description: 'Possible answers, if there are few.' },
    },
    required: ['question'],
    additionalProperties: false,
  },
  risk: 'low', side_effects: 'none', idempotent: true, roles: [], approver_roles: ['approver'], approval_ttl_ms: 86_400_000, timeout_ms: 1_000,
  unattended: [], target: { kind: 'built_in' },
}

export const builtInFunctions: readonly FunctionEntry[] = [askPerson]

/** Answers at once; reaches nothing. */
export function builtInSource(): FunctionSource {
  return {
    call: () => Promise.resolve({ kind: 'answered', value: 'Asked. The answer comes as the next message.', is_error: false }),
  }
}
