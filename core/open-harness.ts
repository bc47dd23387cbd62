/*
 * The composition root: home and configuration in, an open Harness out. The only file that knows the drivers. Opening makes what is
 * missing at first use and migrates; closing leaves nothing running.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { statSync } from 'node:fs'
import { maskSecrets } from './audit/redact'
import type { AuditReport } from './audit/report'
import type { Authority } from './authority'
import { appendLine, readLines } from './checkpoint-file'
import { startCheckpointer } from './checkpointer'
import { systemClock, type Clock } from './clock'
import { configName, loadAuthority, type LoadedAuthority } from './config'
import { ownerGrant, type Engine } from './engine/engine'
import { startWorker, type Worker } from './engine/worker'
import { HarnessError, toHarnessError } from './errors'
import type { FunctionSource } from './functions/function'
import { httpSource } from './functions/http'
import { checkSchema, validateArguments } from './functions/validate'
import { builtInFunctions, builtInSource } from './functions/built-in'
import { workflowSource } from './functions/workflow'
import { makeHarness } from './harness'
import { linkKey } from './harness-views'
import { isDone } from './harness-awaits'
import type { PostCallback } from './hooks/callback'
import { postOverHttp } from './hooks/http-callback'
import { startOutbox } from './hooks/outbox'
import type { Home } from './home'
import { isProvablyDead, thisProcess } from './host-process'
import type { Caller, Scope } from './identity/principal'
import { callerOfToken, findToken } from './identity/tokens'
import { randomIds } from './ids'
import type { Log } from './log'
import type { Model } from './model/model'
import type { FunctionEntry } from './policy/policy'
import type { Harness } from './protocol/operations'
import { authorityWith, openRegistrations, type RegistrationMemory, type Registrations } from './registrations'
import { openSentLog, type SentLog } from './sent-log'
import { migrate, readMigrations } from './store/migrate'
import type { Connection } from './store/sql'
import { sqlStore } from './store/sql-store'
import type { Store, WorkerRow } from './store/store'
import { unlockApprover } from './unlock'
import { verifyStore } from './verify-database'
import { version } from './version'

export interface OpenOptions {
  readonly home: Home
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** For the workers table. */
  readonly program: 'serve' | 'stdio' | 'n8n' | 'command'
  /** False: rows only, no worker (short commands). */
  readonly worker: boolean
  /** Functions beside those of harness.yaml (`--sample`). */
  readonly overlay?: readonly FunctionEntry[]
  readonly clock?: Clock
  /** In place of Ollama: the scripted model. */
  readonly model?: Model
  /** Wraps the connection, for tests that count or cut at a commit. */
  readonly wrapConnection?: (connection: Connection) => Connection
  /** Wraps the source of function calls, likewise. */
  readonly wrapSource?: (source: FunctionSource) => FunctionSource
  /** Wraps what calls back, likewise. */
  readonly wrapCallbacks?: (post: PostCallback) => PostCallback
}

export interface OpenHarness extends Harness {
  readonly home: Home
  readonly model: Model
  authority(): Authority
  /** The caller of this machine: the configured `local_principal` by the given door. `narrowTo` keeps only these of its scopes. */
  localCaller(sourceId: string, narrowTo?: readonly Scope[]): Caller
  /** Who holds this token, by the configuration as it is now; null when it is none, was removed or has expired. */
  tokenCaller(token: string): Promise<Caller | null>
  overview(): Promise<Overview>
  /** Unlocks an approver's key. Counts wrong tries: see core/unlock.ts. */
  unlock(approver: string, passphrase: string): Promise<KeyObject>
  /** The key of the link to an approval's page; of one that does not exist it opens nothing. For programs that show a person the way; never for a model. */
  linkKey(approvalId: string): Promise<string>
  /** This process's worker: working, standing by beside another process, or none. */
  workerState(): { readonly state: 'working' | 'standing_by' | 'none'; readonly text: string }
  /** Orderly end: running model and function calls are aborted, leases given up, a last checkpoint made. */
  close(): Promise<void>
}

export interface Overview {
  readonly turns: Readonly<Record<string, number>>
  readonly pending_approvals: number
  readonly oldest_hold: { readonly approval_id: string; readonly function_id: string; readonly since: number } | null
  readonly schema: number
  readonly worker: string
  readonly audit_rows: number
}

/**
 * Opens the harness of a home.
 * Errors: `bad_config`, `schema_too_new`, `store_unavailable`; nothing stays open when it fails.
 */
export async function openHarness(options: OpenOptions): Promise<OpenHarness> {
  const { home, log } = options
  const clock = options.clock ?? systemClock

  const authority = await watchedAuthority(options)
  if (authority.current().channels.some((channel) => channel.active && channel.public_key !== home.pagePublicKey)) {
    log.warn({}, `channels.page of ${configName} names the key of another home; the page here asks for a passphrase`)
  }
  // drivers are loaded where they are needed only
  const { openSqlite } = await import('./store/sqlite.js')
  const connection = (options.wrapConnection ?? ((plain) => plain))(openSqlite({ file: home.databasePath }))
  const store = sqlStore(connection)
  let sentLog: Awaited<ReturnType<typeof openSentLog>>
  let registrations: Registrations
  try {
    await migrate(connection, readMigrations('sqlite'), clock.now())
    registrations = await openRegistrations({ store, sealKey: home.sealKey, clock, log, actor: options.program, startsWithWorkflows: options.program === 'n8n', memory: registrationMemory(home.registeredPath) })
    sentLog = await openSentLog(home.sentLogPath)
  } catch (error) {
    await store.close()
    throw error
  }
  const model = options.model ?? (await import('./model/ollama.js')).ollamaModel(authority.current().models.ollama, { log })
  const engine = makeEngine({ options, store, authority, registrations, sentLog, clock, model })
  authority.onLoaded(async (fingerprint) => {
    await store.commit({ actor: options.program, at: clock.now(), session_id: null, changes: [{ type: 'authority.loaded', worker: `${options.program}:${String(process.pid)}`, fingerprint }] })
  })
  const checkpointer = startCheckpointer({ store, home, clock, log })
  const worker = options.worker ? startWorker(engine, { program: options.program, version, isDead: isProvablyDead, ...thisProcess() }) : null
  const outbox = worker === null ? null : startOutbox({
    store, clock, log, sealKey: engine.sealKey,
    post: (options.wrapCallbacks ?? ((plain) => plain))(postOverHttp),
    isWorking: () => worker.state().state === 'working',
    isDone: (row) => isDone(row, engine),
    mayBeCalled: (owner) => ownerGrant(engine.authority(), owner) !== null,
  })
  const verifyAudit = (): Promise<AuditReport> =>
    verifyStore(store, { publicKey: home.checkpointPublicKey, checkpointLines: () => home.readCheckpointLines() })

  const unlock = (approver: string, passphrase: string): Promise<KeyObject> =>
    unlockApprover({ readKeyFile: (name) => home.readApproverKey(name), store, clock, actor: authority.current().local_principal }, approver, passphrase)
  const harness = makeHarness({
    engine, verifyAudit,
    deciding: {
      pagePublicKey: home.pagePublicKey, unlock,
      pageKey: () => createPrivateKey(home.pagePrivateKey),
      hasKey: async (approver) => {
        try {
          return (await home.readApproverKey(approver)) !== null
        } catch (error) {
          log.warn({ error: toHarnessError(error).message }, `the key of approver ${approver} cannot be used`)
          return false
        }
      },
    },
    workerText: () => workerText(worker, store, clock), howToDecide: (approvalId) => howToDecide(engine.authority(), approvalId),
  })
  return {
    ...harness,
    home,
    model: engine.model,
    authority: () => engine.authority(),
    localCaller: (sourceId, narrowTo) => localCaller(authority.current(), sourceId, narrowTo),
    tokenCaller: async (token) => {
      await authority.refresh()
      const { tokens, grants } = authority.current()
      const found = findToken(tokens, token, clock.now())
      const grant = found === null ? undefined : grants.get(found.principal)
      return found === null || grant === undefined ? null : callerOfToken(found, grant.principal)
    },
    overview: () => overview(store, () => workerText(worker, store, clock)),
    unlock,
    linkKey: async (approvalId) => linkKey(home.sealKey, { approval_id: approvalId, call_id: (await store.findApproval(approvalId))?.call_id ?? '' }),
    workerState: () => {
      if (worker === null) return { state: 'none', text: 'This process runs no turns.' }
      const { state, holder } = worker.state()
      return { state, text: state === 'working' ? 'This process runs the turns.' : standingBy(holder) }
    },
    async close() {
      await outbox?.stop()
      await worker?.stop()
      await checkpointer.stop()
      registrations.close()
      await sentLog.close()
      await store.close()
    },
  }
}

interface EngineParts {
  readonly options: OpenOptions
  readonly store: Store
  readonly authority: WatchedAuthority
  readonly registrations: Registrations
  readonly sentLog: SentLog
  readonly clock: Clock
  readonly model: Model
}

function makeEngine(parts: EngineParts): Engine {
  const { options, store, authority, registrations, sentLog, clock, model } = parts
  const { home, log } = options
  const wire = { signingKey: home.callSigningKey, secret: (name: string) => authority.current().secret(name), clock }
  const wrap = options.wrapSource ?? ((plain: FunctionSource) => plain)
  const sources: Readonly<Record<string, FunctionSource>> = { http: wrap(httpSource(wire)), workflow: wrap(workflowSource(wire)), built_in: builtInSource() }
  const whole = wholeAuthority(authority, registrations)
  return {
    store, clock, log, sentLog,
    ids: randomIds,
    sealKey: home.sealKey,
    model,
    authority: whole,
    async refreshAuthority() {
      await authority.refresh()
      await registrations.refresh()
    },
    registrations,
    checkSchema: (schema, where) => { checkSchema(schema, where, 'invalid_input') },
    source: (entry) => {
      const { kind } = entry.target
      const source = typeof kind === 'string' ? sources[kind] : undefined
      if (source !== undefined) return source
      throw new HarnessError('bad_config', `Function ${entry.id} has a target of a kind this version does not know.`)
    },
    validateArguments,
    mask: (text) => maskSecrets(text, authority.current().secrets),
  }
}

/** What everything looks functions up in: made anew when the configuration or a registration changed. */
function registrationMemory(path: string): RegistrationMemory {
  return {
    async last() {
      const seals = new Map<string, string>()
      for await (const line of readLines(path)) {
        const { id, seal } = JSON.parse(line) as { id?: unknown; seal?: unknown }
        if (typeof id === 'string' && typeof seal === 'string') seals.set(id, seal)
      }
      return seals
    },
    remember: (id, seal) => appendLine(path, JSON.stringify({ id, seal })),
  }
}

function wholeAuthority(authority: WatchedAuthority, registrations: Registrations): () => LoadedAuthority {
  let made: { readonly from: LoadedAuthority; readonly version: number; readonly whole: LoadedAuthority } | null = null
  return () => {
    const [from, version] = [authority.current(), registrations.version()]
    if (made?.from !== from || made.version !== version) {
      made = { from, version, whole: authorityWith(from, { rows: registrations.active(), builtIn: builtInFunctions }) }
    }
    return made.whole
  }
}

interface WatchedAuthority {
  current(): LoadedAuthority
  refresh(): Promise<void>
  onLoaded(listener: (fingerprint: string) => Promise<void>): void
}

/** The configuration, read again when its file changes. A file that is broken then changes nothing: the last good one stays in force. */
async function watchedAuthority(options: OpenOptions): Promise<WatchedAuthority> {
  const { home, env, log, overlay } = options
  const read = async (): Promise<LoadedAuthority> =>
    loadAuthority({ configText: await home.readConfig(), env, deployment: home.defaultDeployment, checkSchema, ...(overlay === undefined ? {} : { overlay }) })
  const stamp = (): string => {
    const { mtimeMs, size, ino } = statSync(home.configPath)
    return `${String(mtimeMs)} ${String(size)} ${String(ino)}`
  }
  let seen = stamp()
  let authority = await read()
  let reading: Promise<void> | null = null
  let listener: (fingerprint: string) => Promise<void> = () => Promise.resolve()
  return {
    current: () => authority,
    onLoaded: (given) => { listener = given },
    async refresh() {
      // one who comes while the file is being read waits for it: what was taken away there must not pass once more
      reading ??= readWhatChanged().finally(() => { reading = null })
      await reading
    },
  }

  async function readWhatChanged(): Promise<void> {
    try {
      const now = stamp()
      if (now === seen) return
      seen = now
      const loaded = await read()
      if (loaded.fingerprint === authority.fingerprint) return
      authority = loaded
      await listener(loaded.fingerprint)
      log.info({ fingerprint: loaded.fingerprint }, `${configName} was loaded anew`)
    } catch (error) {
      log.error({ error: toHarnessError(error).message }, `${configName} changed and cannot be used; the last good one stays in force`)
    }
  }
}

function localCaller(authority: Authority, sourceId: string, narrowTo: readonly Scope[] | undefined): Caller {
  const grant = authority.grants.get(authority.local_principal)
  if (grant === undefined) throw new HarnessError('bad_config', `local_principal ${authority.local_principal} is not among the principals of ${configName}.`)
  const scopes = narrowTo === undefined ? grant.principal.scopes : grant.principal.scopes.filter((scope) => narrowTo.includes(scope))
  return { principal: { ...grant.principal, scopes }, source: { type: 'external_system', id: sourceId }, callbacks: null }
}

async function overview(store: Store, worker: () => Promise<string>): Promise<Overview> {
  const oldest = await store.oldestPendingApproval()
  return {
    turns: await store.countTurnsByStatus(),
    pending_approvals: await store.countPendingApprovals(),
    oldest_hold: oldest === null ? null : { approval_id: oldest.approval_id, function_id: oldest.function_id, since: oldest.created_at },
    schema: await store.schemaVersion(),
    worker: await worker(),
    audit_rows: await store.auditCount(),
  }
}

function standingBy(holder: WorkerRow | null): string {
  return holder === null
    ? 'This process stands by to run the turns.'
    : `Another process (${holder.program}, pid ${String(holder.pid)}) holds the database and runs the turns; this one writes and reads rows only.`
}

async function workerText(worker: Worker | null, store: Store, clock: Clock): Promise<string> {
  if (worker?.state().state === 'working') return 'This process runs the turns.'
  const holder = await store.currentWorker()
  if (holder !== null && holder.lease_until > clock.now() && !isProvablyDead(holder)) {
    return worker === null ? `Turns are run by ${holder.program} (pid ${String(holder.pid)}).` : standingBy(holder)
  }
  return worker === null ? 'Nobody runs turns at the moment: start "agent-harness serve".' : 'This process is about to run the turns.'
}

function howToDecide(authority: Authority, approvalId: string | null): string {
  const byName = authority.channels.some((channel) => channel.active)
  if (authority.approvers.length === 0 && byName) return 'A person decides on the page of the approval, whose link goes to the person who asked; nothing that a model calls tells it.'
  if (authority.approvers.length === 0) return 'Nobody can decide yet: a person runs "agent-harness init" to make an approver\'s key, then "agent-harness approvals".'
  return `A person decides with "agent-harness approvals approve ${approvalId ?? 'ID'}" or "… reject ${approvalId ?? 'ID'}", and an approver's passphrase.`
}
