/*
 * Unlocks an approver's key, and counts tries. A try is on record as failed before its outcome is known, so that killing the process
 * or racing it saves nobody a count. Never says more about a passphrase than right or wrong.
 */
import type { KeyObject } from 'node:crypto'
import { openApproverKey, publicKeyOfFile } from './approvals/key-file'
import type { Clock } from './clock'
import { HarnessError, isHarnessError } from './errors'
import type { Store } from './store/store'
import type { DeploymentChange } from './turn/changes'

/** So many wrong tries in a row lock an approver, for so long (ms). */
export const triesBeforeLock = 5
export const lockMs = 15 * 60_000

/** How often a count that somebody else moved meanwhile is read again. */
const raceRetries = 64

export interface UnlockDependencies {
  /** The text of the approver's key file; null when there is none. */
  readonly readKeyFile: (name: string) => Promise<string | null>
  readonly store: Pick<Store, 'approverTries' | 'commit'>
  readonly clock: Clock
  /** Who tries: a principal's id, for the record. */
  readonly actor: string
}

/**
 * The approver's private key. Failures in a row are counted in the store; the fifth, tenth, … locks for {@link lockMs}, and success
 * forgets them. Throws `not_found` (no key file), `bad_config` (it is broken), `approver_locked` (with `data.locked_until`; nothing was
 * tried), `wrong_passphrase` (with `data.tries_left`), and what the store throws.
 */
export async function unlockApprover(dependencies: UnlockDependencies, name: string, passphrase: string): Promise<KeyObject> {
  const { store, clock, actor } = dependencies
  const file = await dependencies.readKeyFile(name)
  if (file === null) throw new HarnessError('not_found', `Approver ${name.slice(0, 64)} has no key here. agent-harness init makes one.`)
  publicKeyOfFile(file) // a broken file must not cost a try
  const record: Recorder = (change) => store.commit({ actor, at: clock.now(), changes: [change], session_id: null })

  const counted = await countTry(dependencies, name, record)
  let key: KeyObject
  try {
    key = await openApproverKey(file, passphrase)
  } catch (error) {
    if (!isHarnessError(error) || error.code !== 'wrong_passphrase') throw error
    throw wrongPassphrase(name, counted)
  }
  await record({ type: 'approver.unlocked', approver: name, at: clock.now() })
  return key
}

type Recorder = (change: DeploymentChange) => Promise<unknown>

interface CountedTry {
  readonly failures: number
  readonly locked_until: number | null
}

/** Puts the try on record as a failure. The store takes a count only on top of the one it has; a loser of a race looks again. */
async function countTry({ store, clock }: UnlockDependencies, name: string, record: Recorder): Promise<CountedTry> {
  for (let retry = 0; ; retry++) {
    const now = clock.now()
    const tries = await store.approverTries(name)
    if (tries.locked_until !== null && tries.locked_until > now) throw locked(name, tries.locked_until)
    const failures = tries.failures + 1
    const locked_until = failures % triesBeforeLock === 0 ? now + lockMs : null
    try {
      await record({ type: 'approver.failed', approver: name, failures, locked_until, at: now })
      return { failures, locked_until }
    } catch (error) {
      if (!isHarnessError(error) || error.code !== 'conflict' || retry >= raceRetries) throw error
    }
  }
}

function locked(name: string, until: number): HarnessError {
  const why = `after ${String(triesBeforeLock)} wrong passphrases`
  const text = `Approver ${name} is locked until ${new Date(until).toISOString()} ${why}. Nothing was tried; try again then.`
  return new HarnessError('approver_locked', text, { data: { approver: name, locked_until: until } })
}

function wrongPassphrase(name: string, { failures, locked_until }: CountedTry): HarnessError {
  const left = (triesBeforeLock - (failures % triesBeforeLock)) % triesBeforeLock
  const next =
    locked_until === null
      ? `${String(left)} ${left === 1 ? 'try is' : 'tries are'} left before it is locked.`
      : `It is locked until ${new Date(locked_until).toISOString()}.`
  return new HarnessError('wrong_passphrase', `The passphrase does not open the key of approver ${name}. ${next}`, {
    data: { approver: name, tries_left: left, locked_until },
  })
}
