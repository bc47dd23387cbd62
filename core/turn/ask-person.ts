/*
 * `harness::ask_person`: the one function that ends a turn. The agent asks, the turn is over, and the answer is a new message to the
 * session. Here is what planner, end and view must agree on: which call it was, and what it asks.
 */
import { isSettled, type Call } from './call'
import { jsonOf } from './content'

export const askPersonId = 'harness::ask_person'

export interface Question {
  readonly text: string
  readonly choices: readonly string[]
}

/** The questions that the turn's last round asked, once all of that round is settled. */
export function askedIn(calls: readonly Call[], round: number): readonly Call[] {
  const asked = calls.filter((call) => call.step === round)
  return asked.every((call) => isSettled(call.status)) ? asked.filter((call) => call.function_id === askPersonId && call.status === 'succeeded') : []
}

/** What a person is shown. Several questions become one text; choices only where there is one question. Null when nothing was asked. */
export function questionOf(asked: readonly Call[]): Question | null {
  const questions = asked.map((call): Question => {
    const given = jsonOf(call.arguments.text)
    const { question, choices } = (typeof given === 'object' && given !== null ? given : {}) as { question?: unknown; choices?: unknown }
    return {
      text: typeof question === 'string' ? question : '[erased]',
      choices: Array.isArray(choices) ? choices.filter((choice): choice is string => typeof choice === 'string') : [],
    }
  })
  if (questions.length === 0) return null
  return { text: questions.map(({ text }) => text).join('\n\n'), choices: questions.length === 1 ? (questions[0]?.choices ?? []) : [] }
}
