/*
 * Text that a person decides on, made so that nothing in it hides: what does not print, what turns the reading direction and what has
 * no width is shown by its code point. Text from outside never reaches a terminal or a page in any other way.
 */
import type { Json } from '../digest'

/** Control, format, unassigned and ignorable characters, line separators, odd spaces, and fillers that look like nothing. */
export const hiddenCharacters = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu
const beyondAscii = /[^\x20-\x7e\n]/gu

export const codePoint = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`

/** One line of foreign text, safe to print. */
export function visible(text: string): string {
  return text.replace(hiddenCharacters, codePoint)
}

/** Arguments as a person reads them: indented, with what is hidden made visible. */
export function rawArguments(value: Json): string {
  return JSON.stringify(value, null, 2).split('\n').map(visible).join('\n')
}

/** The same on one line in ASCII alone, so that letters which only look alike show; null where that would add nothing. */
export function escapedArguments(value: Json): string | null {
  const text = JSON.stringify(value)
  const escaped = text.replace(beyondAscii, codePoint)
  return escaped === text ? null : escaped
}
