/*
 * Function ids as tool names. `::` becomes `__`; ids hold no doubled, leading or trailing underscore, so the encoding has an inverse
 * and never collides.
 */
export function toWireName(functionId: string): string {
  return functionId.replaceAll('::', '__')
}
