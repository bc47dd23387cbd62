/* Foreign text made safe for a terminal; the page does the same, so both have it from the core. */
export { escapedArguments, rawArguments, visible } from '../core/index'
