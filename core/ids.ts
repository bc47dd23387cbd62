/* Ids are prefixed and unguessable; a call's id is derived from its place, so that a step done again names the same call. */
import { createHash, randomBytes } from 'node:crypto'

/** s session, t turn, c call, x execution, a approval, m message, k content, i inbox item, w worker, d deployment. */
export type IdPrefix = 's' | 't' | 'c' | 'x' | 'a' | 'm' | 'k' | 'i' | 'w' | 'd'

export interface Ids {
  /** Contract: 128 random bits behind the prefix, e.g. `t_5f3c…` (34 characters); never repeats. */
  next(prefix: IdPrefix): string
  /** Random bytes as lower-case hex, for salts. */
  hex(bytes: number): string
}

export const randomIds: Ids = {
  next: (prefix) => `${prefix}_${randomBytes(16).toString('hex')}`,
  hex: (bytes) => randomBytes(bytes).toString('hex'),
}

/** The id of what comes from something else and must not come from it twice: of the same thing always the same. */
export function derivedId(prefix: IdPrefix, from: string): string {
  return `${prefix}_${createHash('sha256').update(`${prefix}\0${from}`).digest('hex').slice(0, 32)}`
}

/** The id of a call: from its turn, step and ordinal. As unguessable as the turn's id, which strangers never see. */
export function callId(turnId: string, step: number, ordinal: number): string {
  return `c_${createHash('sha256').update(`call\0${turnId}\0${String(step)}\0${String(ordinal)}`).digest('hex').slice(0, 32)}`
}
