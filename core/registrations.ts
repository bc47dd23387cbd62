/*
 * The functions that workflows brought: read from their rows, believed only by their seals, counted only as configuration lets them. And
 * which of them are *live*: known to this process to have a workflow that is active now. That is memory, not a row. Inside n8n nothing is
 * sent after a start before a workflow has said that it is there, which each does whenever n8n starts. Started apart from n8n, a harness
 * would wait in vain for that: there a row counts as live if it is the one that was registered last, which a file outside the database
 * remembers. So a row that was set back to an older one, though sealed, is called by neither.
 */
import type { Authority } from './authority'
import type { Clock } from './clock'
import { sealHolds } from './digest'
import { toHarnessError } from './errors'
import type { Log } from './log'
import type { FunctionEntry } from './policy/policy'
import { entryOf, entryUnder, mayStillOffer, registrationSealFacts, type RegistrationRow } from './policy/registration'
import type { Store } from './store/store'

/** A workflow registers a moment before n8n answers for it: only then its calls go out. */
const settleMs = 1_000
/** Longest time until a row that another process changed is seen, besides the hint's own. */
const rereadMs = 250

export interface Registrations {
  /** Changes whenever the rows did. */
  version(): number
  /** The row of an id, whatever its status, if its seal holds. */
  row(id: string): RegistrationRow | null
  /** The seal that stands in the row, whether or not it holds; null when there is no row. */
  standingSeal(id: string): string | null
  /** Rows that are active and sealed. */
  active(): readonly RegistrationRow[]
  /** From when a function can be called; 0 for one that is no workflow's, null when its workflow is not known to be active. */
  liveAt(entry: FunctionEntry): number | null
  /** The workflow of the row has said that it is active. Wakes the turns that wait for it. */
  becameLive(row: RegistrationRow): Promise<void>
  /** What the row will be from now on, before it is stored as taken back. */
  remember(row: RegistrationRow): Promise<void>
  /** A call found nobody there: not live until it registers again. `askedAt`: a registration after that moment stays. */
  lost(functionId: string, askedAt: number): void
  /** Reads the rows again, for who is about to write one or has just done so. */
  reread(): Promise<void>
  /** Reads the rows again if they may have changed. Contract: never throws; what cannot be read leaves what was known. */
  refresh(): Promise<void>
  close(): void
}

/** What each function was last registered as. Contract: not writable through the database; on disk when `remember` resolves. */
export interface RegistrationMemory {
  /** Seals by function id. */
  last(): Promise<ReadonlyMap<string, string>>
  remember(id: string, seal: string): Promise<void>
}

export interface RegistrationsOptions {
  readonly store: Store
  readonly sealKey: Buffer
  readonly clock: Clock
  readonly log: Log
  readonly actor: string
  /** Whether workflows say that they are there whenever this process starts. */
  readonly startsWithWorkflows: boolean
  readonly memory: RegistrationMemory
}

/** Loads the rows. Throws when they cannot be read. */
export async function openRegistrations(options: RegistrationsOptions): Promise<Registrations> {
  const { store, sealKey, clock, log, actor, memory } = options
  let standing: ReadonlyMap<string, RegistrationRow> = new Map()
  let sealed: ReadonlyMap<string, RegistrationRow> = new Map()
  let version = 0
  let isStale = false
  let timer: NodeJS.Timeout | null = null
  /** By id: the seal of the row that was registered here, and from when on it may be called. */
  const live = new Map<string, { readonly seal: string; readonly at: number }>()
  const told = new Set<string>()

  const read = async (): Promise<void> => {
    isStale = false
    const rows = await store.registrations()
    const holding = rows.filter((row) => sealHolds(sealKey, 'registration', registrationSealFacts(row), row.seal))
    const isSame = rows.length === standing.size && rows.every((row) => isEqual(row, standing.get(row.id)))
    if (isSame) return
    standing = new Map(rows.map((row) => [row.id, row]))
    sealed = new Map(holding.map((row) => [row.id, row]))
    version += 1
    const forged = rows.filter((row) => !holding.includes(row)).filter((row) => !told.has(JSON.stringify(row)))
    if (forged.length === 0) return
    for (const row of forged) told.add(JSON.stringify(row))
    const changes = forged.map(({ id }) => ({ type: 'tampering.found' as const, object: id.slice(0, 200), what: 'the registration of this function does not carry its seal; it is ignored' }))
    await store.commit({ actor, at: clock.now(), session_id: null, changes })
  }
  const refresh = async (): Promise<void> => {
    if (!isStale) return
    try {
      await read()
    } catch (error) {
      isStale = true
      log.warn({ error: toHarnessError(error).message }, 'the registrations of functions could not be read again')
    }
  }
  await read()
  const last = new Map(await memory.last())
  if (!options.startsWithWorkflows) {
    for (const row of sealed.values()) if (last.get(row.id) === row.seal) live.set(row.id, { seal: row.seal, at: 0 })
  }
  const remember = async (row: RegistrationRow): Promise<void> => {
    if (last.get(row.id) === row.seal) return
    await memory.remember(row.id, row.seal)
    last.set(row.id, row.seal)
  }
  const stopHints = store.onHint(() => {
    isStale = true
    timer ??= setTimeout(() => {
      timer = null
      void refresh()
    }, rereadMs).unref()
  })

  return {
    version: () => version,
    row: (id) => sealed.get(id) ?? null,
    standingSeal: (id) => standing.get(id)?.seal ?? null,
    active: () => [...sealed.values()].filter((row) => row.status === 'active'),
    liveAt: ({ id, target }) => {
      if (target['kind'] !== 'workflow') return 0
      const known = live.get(id)
      // a row set back to an older one, though sealed, is not what registered here
      return known !== undefined && known.seal === sealed.get(id)?.seal ? known.at : null
    },
    remember,
    async becameLive(row) {
      await read()
      await remember(row)
      const at = clock.now() + settleMs
      live.set(row.id, { seal: row.seal, at })
      await store.wakeWaiting(row.id, at)
    },
    lost(functionId, askedAt) {
      const known = live.get(functionId)
      if (known !== undefined && known.at <= askedAt) live.delete(functionId)
    },
    refresh,
    reread: read,
    close() {
      stopHints()
      if (timer !== null) clearTimeout(timer)
      timer = null
    },
  }
}

function isEqual(left: RegistrationRow, right: RegistrationRow | undefined): boolean {
  return right !== undefined && JSON.stringify(left) === JSON.stringify(right)
}

/**
 * Configuration, the functions of the harness itself, and those that workflows brought, as one authority: whoever looks a function up sees
 * all of them the same way. Configuration wins an id. What the harness brings is let through by its id; nothing else is opened by it.
 */
export function authorityWith<Base extends Authority>(base: Base, brought: { readonly rows: readonly RegistrationRow[]; readonly builtIn: readonly FunctionEntry[] }): Base {
  const workflows = brought.rows.filter((row) => mayStillOffer(row, base.grants)).flatMap((row): FunctionEntry[] => {
    const declared = entryOf(row)
    const entry = declared === null ? null : entryUnder(base.workflows, declared)
    return entry === null || entry.id !== row.id ? [] : [entry]
  })
  const functions = new Map([...workflows.map((entry) => [entry.id, entry] as const), ...base.functions, ...brought.builtIn.map((entry) => [entry.id, entry] as const)])
  const { allow, deny } = base.policy.functions ?? { allow: [], deny: [] }
  const policy = { ...base.policy, functions: { allow: [...allow, ...brought.builtIn.map(({ id }) => id)], deny } }
  return Object.freeze({ ...base, functions, policy })
}
