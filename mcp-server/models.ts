/* Which model a turn would get, in words for a screen; or which address was tried, and what to do. */
import type { Authority, ModelFacts, ModelProbe } from '../core/index'

const places: Readonly<Record<ModelFacts['locality'], string>> = {
  this_machine: 'on this machine',
  local_network: 'in the local network',
  cloud: 'in the cloud',
  remote: 'on a remote server',
}

/** Whether an agent can be asked now, and the lines that say why. */
export function modelText(probe: ModelProbe, authority: Authority): { readonly found: boolean; readonly text: string } {
  if (!probe.reachable) {
    return { found: false, text: `none: ${probe.problem ?? `nothing answers at ${probe.address}.`}\nFunctions can be run without a model.` }
  }
  const wanted = authority.models.default
  const isLocal = (model: ModelFacts): boolean => model.locality === 'this_machine' || model.locality === 'local_network'
  const chosen =
    wanted === null
      ? probe.models.find((model) => model.functions && isLocal(model))
      : probe.models.find((model) => model.name === wanted || model.name === `${wanted}:latest`)
  if (chosen === undefined) {
    const what =
      wanted === null
        ? 'has no local model that can call functions; get one, e.g. with "ollama pull qwen3:8b"'
        : `does not have ${wanted}, which harness.yaml names; get it with "ollama pull ${wanted}"`
    return { found: false, text: `none: the server at ${probe.address} ${what}.` }
  }
  const others = probe.models.length - 1
  const able = chosen.functions ? '' : '; it cannot call functions'
  return {
    found: true,
    text: `${chosen.name} at ${probe.address}, ${places[chosen.locality]}${able}${others > 0 ? ` (and ${String(others)} more there)` : ''}`,
  }
}
