/* Which model a turn calls: as asked for, as its agent says, as configured, else the first by name that is local and can call functions. */
import type { ModelProbe } from '../model/model'
import type { Turn } from '../turn/turn'
import type { Engine } from './engine'

export type ResolvedModel = { readonly name: string } | { readonly name: null; readonly problem: string }

export async function resolveModel(turn: Turn, engine: Engine, signal: AbortSignal): Promise<ResolvedModel> {
  const authority = engine.authority()
  // a turn keeps the model it began with
  const begun = turn.messages.findLast((message) => message.turn_id === turn.turn_id && message.reply !== null)?.reply?.model
  const chosen = begun ?? turn.spec.model ?? authority.agents.get(turn.agent)?.model ?? authority.models.default
  if (chosen !== null) return { name: chosen }
  const probe = await probeUntil(signal, engine)
  if (probe === null) return { name: null, problem: 'The turn was stopped before it was known which models there are.' }
  if (!probe.reachable) return { name: null, problem: probe.problem ?? `No model server answers at ${probe.address}.` }
  const fitting = probe.models.find((model) => model.functions && (model.locality === 'this_machine' || model.locality === 'local_network'))
  if (fitting !== undefined) return { name: fitting.name }
  return { name: null, problem: `The model server at ${probe.address} has no local model that can call functions. Get one, for example with "ollama pull qwen3:8b".` }
}

/** Null when the signal aborted first: a stop does not wait for a model server that is slow. */
function probeUntil(signal: AbortSignal, engine: Engine): Promise<ModelProbe | null> {
  return new Promise((resolve, reject) => {
    const stopped = (): void => resolve(null)
    signal.addEventListener('abort', stopped, { once: true })
    if (signal.aborted) stopped()
    engine.model.probe().then(resolve, reject).finally(() => signal.removeEventListener('abort', stopped))
  })
}
