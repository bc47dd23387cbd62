/*
 * What names a process for good on this host: the boot, the space its number counts in, and when it started. Where the system does not
 * tell, a dead worker is replaced only when its lease is over.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import type { WorkerRow } from './store/store'

interface Place {
  readonly boot: string
  readonly space: string
}

function place(): Place | null {
  try {
    return { boot: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(), space: readlinkSync('/proc/self/ns/pid') }
  } catch {
    return null // no such files: not Linux
  }
}

/** Start time in ticks since boot; null when there is no such process, or only one that is dead and not yet collected by its parent. */
function startTicks(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8')
    // the program's name may hold blanks and brackets; what follows its last bracket does not
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return state === 'Z' ? null : (rest[18] ?? null)
  } catch {
    return null
  }
}

export function thisProcess(): { readonly pid: number; readonly host: string; readonly pidStart: string | null } {
  const here = place()
  const ticks = startTicks(process.pid)
  return { pid: process.pid, host: hostname(), pidStart: here === null || ticks === null ? null : `${here.boot} ${here.space} ${ticks}` }
}

/** True only if that process is provably gone: same host, boot and number space, and no process of that number and start. */
export function isProvablyDead(other: Pick<WorkerRow, 'pid' | 'pid_start' | 'host'>): boolean {
  const here = place()
  if (here === null || other.pid_start === null || other.host !== hostname()) return false
  const [boot, space, ticks] = other.pid_start.split(' ')
  if (space !== here.space && boot === here.boot) return false
  return boot !== here.boot || startTicks(other.pid) !== ticks
}
