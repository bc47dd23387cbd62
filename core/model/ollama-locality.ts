/*
 * Does a model stay on this machine or its local network? Ollama forwards to ollama.com by the name of a model or by what its manifest
 * says, also through a local address; so name, address and server are asked, and whatever is not known to be local is remote.
 */
import { lookup as resolveName } from 'node:dns'
import { BlockList, isIP } from 'node:net'
import type { Locality } from './model'

const thisMachine = new BlockList()
thisMachine.addSubnet('127.0.0.0', 8, 'ipv4')
thisMachine.addAddress('::1', 'ipv6')

/** RFC 1918, link-local and their IPv6 kin. Not 100.64.0.0/10: providers use it for strangers. */
const localNetwork = new BlockList()
localNetwork.addSubnet('10.0.0.0', 8, 'ipv4')
localNetwork.addSubnet('172.16.0.0', 12, 'ipv4')
localNetwork.addSubnet('192.168.0.0', 16, 'ipv4')
localNetwork.addSubnet('169.254.0.0', 16, 'ipv4')
localNetwork.addSubnet('fc00::', 7, 'ipv6')
localNetwork.addSubnet('fe80::', 10, 'ipv6')

/**
 * Does the name alone send a request to ollama.com? True for a last part `cloud` or one that ends in `-cloud` (`gpt-oss:120b-cloud`),
 * in any case and with white space around; `my-cloud-model` is local. Servers from 0.18.0 forward such a name without any pull.
 */
export function isCloudName(name: string): boolean {
  const parts = name.trim().split(':')
  if (parts.length < 2) return false
  const last = (parts.pop() ?? '').trim().toLowerCase()
  // behind `:local` stands the name proper; a server refuses the pair, we refuse it before
  if (last === 'local') return isCloudName(parts.join(':'))
  return last === 'cloud' || (last.endsWith('-cloud') && !last.includes('/'))
}

/** True for a name that carries `:local`, by which a server from 0.18.0 refuses to forward it. */
export function hasLocalSuffix(name: string): boolean {
  return /:\s*local$/i.test(name.trim())
}

/** A manifest or a chunk that names a remote model: the server forwards it, whatever its name says. */
export function saysRemote(answer: object): boolean {
  const { remote_model, remote_host } = answer as Record<string, unknown>
  return isSet(remote_model) || isSet(remote_host)
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}

/** Of an IP address. */
export function addressLocality(address: string): Locality {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
  if (thisMachine.check(address, family)) return 'this_machine'
  return localNetwork.check(address, family) ? 'local_network' : 'remote'
}

export function staysLocal(locality: Locality): boolean {
  return locality === 'this_machine' || locality === 'local_network'
}

/** Of the host in a URL, without asking anybody; null for a name whose addresses have to be looked at. */
export function hostLocality(url: string): Locality | null {
  const host = new URL(url).hostname.toLowerCase().replace(/^\[|\]$|\.$/g, '')
  if (isIP(host) !== 0) return addressLocality(host)
  if (host === 'ollama.com' || host.endsWith('.ollama.com')) return 'cloud'
  return null
}

/** Of the server at a URL, its name resolved; the farthest of its addresses counts. A name that does not resolve (in time) is remote. */
export async function serverLocality(url: string, signal: AbortSignal): Promise<Locality> {
  const known = hostLocality(url)
  if (known !== null) return known
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => { resolve('remote') }, { once: true })
    resolveName(new URL(url).hostname, { all: true }, (error, addresses) => {
      const found = error === null ? addresses.map((entry) => addressLocality(entry.address)) : []
      const order = ['this_machine', 'local_network', 'remote'] as const
      resolve(found.length === 0 ? 'remote' : (order.findLast((locality) => found.includes(locality)) ?? 'remote'))
    })
  })
}
