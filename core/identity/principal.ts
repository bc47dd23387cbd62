/* Who is asking. A principal comes from configuration and from an edge that authenticated it, never from an argument or a row. */

/** What an operation needs. A channel may narrow a principal's scopes, never widen them. */
export const scopes = ['turns:write', 'turns:read', 'identity:read', 'awaits', 'approvals:decide', 'functions:register', 'admin'] as const
export type Scope = (typeof scopes)[number]

export type PrincipalType = 'user' | 'system' | 'agent'

export interface Principal {
  /** As in configuration, e.g. `local`. */
  readonly id: string
  readonly type: PrincipalType
  readonly name: string
  readonly roles: readonly string[]
  readonly scopes: readonly Scope[]
  /** An inactive principal may do nothing, and its turns stop. */
  readonly active: boolean
}

/** Who calls an operation, and by which door: the principal and the source that its executions record. */
export interface Caller {
  readonly principal: Principal
  /** The seed's `source`: `external_system` for the command line and MCP. */
  readonly source: { readonly type: 'astro' | 'n8n' | 'external_system' | 'watcher'; readonly id: string }
  /** Where it may be called back: bases of addresses; null for any, which only a caller inside this process has. */
  readonly callbacks: readonly string[] | null
}

/** The named role that sees and stops everybody's turns. */
export const operatorRole = 'operator'

/** Owner, or an operator. Approvers see their approvals by their own rule (harness-approvals.ts). */
export function maySee(principal: Principal, owner: string): boolean {
  return principal.active && (principal.id === owner || principal.roles.includes(operatorRole))
}

/**
 * Whether the harness may call this address for this caller. Same origin, and a path below the base's: a longer host or folder name that
 * begins the same is another one, and an escaped slash might be another folder to who receives it.
 */
export function mayBeCalledAt({ callbacks }: Pick<Caller, 'callbacks'>, url: URL): boolean {
  if (callbacks === null) return true
  if (/%2f|%5c/i.test(url.pathname)) return false
  return callbacks.filter((base) => URL.canParse(base)).some((given) => {
    const { origin, pathname } = new URL(given)
    const folder = pathname.endsWith('/') ? pathname : `${pathname}/`
    return origin !== 'null' && url.origin === origin && (url.pathname === pathname || url.pathname.startsWith(folder))
  })
}
