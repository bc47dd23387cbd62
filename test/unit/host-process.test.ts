/* A worker is taken for dead only when that is proven: same host, boot and number space, and no process of that number and start. */
import { execFileSync } from 'node:child_process'
import { hostname } from 'node:os'
import { isProvablyDead, thisProcess } from '../../core/host-process'

const me = thisProcess()
const row = { pid: me.pid, pid_start: me.pidStart, host: me.host }
const [boot = '', space = '', ticks = ''] = (me.pidStart ?? '').split(' ')
const onLinux = process.platform === 'linux' ? it : it.skip

it('this process is not dead, and names itself by its number and start', () => {
  expect(me).toMatchObject({ pid: process.pid, host: hostname() })
  expect(thisProcess()).toEqual(me)
  expect(isProvablyDead(row)).toBe(false)
})

it('nothing is proven of another host, of another number space, or where the start is not known', () => {
  expect(isProvablyDead({ ...row, host: 'elsewhere', pid: 4_000_000 })).toBe(false)
  expect(isProvablyDead({ ...row, pid_start: null, pid: 4_000_000 })).toBe(false)
  expect(isProvablyDead({ ...row, pid_start: `${boot} pid:[1] ${ticks}`, pid: 4_000_000 })).toBe(false)
})

onLinux('[lease.dead-owner-replaced] a process that is gone, one whose number is another process now, and one before the last boot are dead', () => {
  const gone = Number(execFileSync(process.execPath, ['-p', 'process.pid'], { encoding: 'utf8' }))
  expect(isProvablyDead({ ...row, pid: gone, pid_start: `${boot} ${space} 17` })).toBe(true)
  expect(isProvablyDead({ ...row, pid_start: `${boot} ${space} ${String(Number(ticks) - 1)}` })).toBe(true)
  expect(isProvablyDead({ ...row, pid_start: `another-boot ${space} ${ticks}` })).toBe(true)
})
