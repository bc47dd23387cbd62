'use strict'
/*
 * The process that is killed: the built core on a home, with the scripted model and real HTTP functions, a person's steps, and the one
 * place where it ends itself with a real SIGKILL. Started again on the same home it does the same steps again, as a client would that got
 * no answer. Usage: node child.cjs CORE, where CORE is the folder of the built core; it reads names of plans, one a line (their form
 * stands in test/support/crash-child.ts), answers each with one line of JSON when it is done, and ends with its stdin.
 */
const { createPrivateKey } = require('node:crypto')
const { appendFileSync, readFileSync, writeSync } = require('node:fs')
const { flushCompileCache } = require('node:module')
const { performance } = require('node:perf_hooks')
const { createInterface } = require('node:readline')
const Database = require('better-sqlite3')

const built = process.argv[2]
/** Loaded when it is first needed: a start that dies in its first migration needs little of it. */
const core = (name) => require(`${built}/${name}.js`)

/** How long a turn may take that has all it needs; whoever takes longer is wedged. */
const patienceMs = 20_000

let plan = null
let kill = { at: 'nowhere' }
/** What was counted since the plan began. `turn`: commits that say something of a turn. */
let counts = { statements: 0, turn: 0, any: 0 }
let commits = []
/** Functions that were called. */
let sentTo = new Set()
/** What the person began, by the key of its step. */
let turns = new Map()

function begin(name) {
  plan = JSON.parse(readFileSync(name, 'utf8'))
  kill = plan.kill ?? { at: 'nowhere' }
  counts = { statements: 0, turn: 0, any: 0 }
  commits = []
  sentTo = new Set()
  turns = new Map()
}

function die(where) {
  appendFileSync(plan.trace, `${JSON.stringify({ killed: where })}\n`)
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}

// ------------------------------------------------------------------ where it can die

/** The statements inside transactions, of the driver itself, so that it can die between two of them. */
const { prepare } = Database.prototype
Database.prototype.prepare = function (text) {
  const statement = prepare.call(this, text)
  if (kill.at !== 'statement') return statement
  const { run } = statement
  statement.run = (...values) => {
    if (!this.inTransaction) return run.apply(statement, values)
    counts.statements += 1
    const where = `statement ${counts.statements}: ${text.slice(0, 60)}`
    if (counts.statements === kill.number) die(`before ${where}`)
    const done = run.apply(statement, values)
    if (counts.statements === kill.number - 0.5) die(`after ${where}`)
    return done
  }
  return statement
}

function wrapConnection(connection) {
  return {
    ...connection,
    async atomically(given) {
      const label = labelOf(given)
      counts.any += 1
      if (isTurn(label)) counts.turn += 1
      const isIt = isPlace(label)
      if (isIt && kill.when === 'before') die(`before commit: ${label}`)
      const from = counts.statements
      await connection.atomically(given)
      commits.push({ label, statements: [from + 1, counts.statements] })
      if (isIt && kill.when === 'after') die(`after commit: ${label}`)
    },
  }
}

const isTurn = (label) => label.startsWith('turn: ')

/** Whether the commit that was just counted is where it shall die. */
function isPlace(label) {
  if (kill.at !== 'commit') return false
  if (kill.label !== undefined) return label.includes(kill.label)
  return counts[kill.of] === kill.number && (kill.of === 'any' || isTurn(label))
}

const ofDeployment = ['deployment.opened', 'authority.loaded']

/** What a commit says, by the changes it puts on record; for the others what they are. */
function labelOf(given) {
  const audited = given.filter(({ text }) => text.startsWith('INSERT INTO audit_events'))
  const types = audited.flatMap(({ values }) => JSON.parse(values[4]).map((change) => change.type))
  if (types.length > 0) return `${types.every((type) => ofDeployment.includes(type)) ? 'deployment' : 'turn'}: ${types.join(' ')}`
  if (given.some(({ text }) => text.includes('INTO migrations'))) return `migration ${given[1].values[0]}`
  const table = /\b(workers|checkpoints)\b/.exec(given[0].text)?.[1] ?? given[0].text
  return `${given[0].text.split(' ')[0].toLowerCase()} ${table}`
}

function wrapSource(source) {
  return {
    async call(call, signal) {
      const isIt = kill.at === 'function' && kill.function_id === call.entry.id
      if (isIt && kill.when === 'before') die(`before the request of ${call.entry.id}`)
      sentTo.add(call.entry.id)
      const outcome = await source.call(call, signal)
      if (isIt && kill.when === 'after') die(`after the answer of ${call.entry.id}`)
      return outcome
    },
  }
}

function wrapCallbacks(post) {
  return async (url, body, signal) => {
    if (kill.at === 'callback' && kill.when === 'before') die('before a callback')
    const answer = await post(url, body, signal)
    if (kill.at === 'callback' && kill.when === 'after') die('after the answer of a callback')
    return answer
  }
}

function tracedModel() {
  const { parseScript, scriptedModel } = core('model/scripted')
  const model = scriptedModel(parseScript(JSON.stringify(plan.script)))
  return {
    ...model,
    async generate(request, signal) {
      appendFileSync(plan.trace, `${JSON.stringify({ asked: request.messages })}\n`)
      if (kill.at === 'model') die('inside a model call')
      return model.generate(request, signal)
    },
  }
}

// ------------------------------------------------------------------ a person's steps

const log = {
  debug: () => undefined, info: () => undefined,
  warn: (fields, text) => writeSync(2, `${text} ${JSON.stringify(fields)}\n`),
  error: (fields, text) => writeSync(2, `${text} ${JSON.stringify(fields)} ${fields.cause?.stack ?? ''}\n`),
}

async function run() {
  if (plan.migrate_only) return migrateOnly()
  const { openHarness, openHome } = core('index')
  const home = await openHome(plan.folder)
  const harness = await openHarness({ home, env: {}, log, program: 'serve', worker: true, model: tracedModel(), wrapConnection, wrapSource, wrapCallbacks })
  const caller = harness.localCaller('crash-test')
  let stoodBy = false
  await until(() => {
    const { state, text } = harness.workerState()
    if (!stoodBy && text.startsWith('Another process')) {
      stoodBy = true
      appendFileSync(plan.trace, '{"stands_by":true}\n')
    }
    return state === 'working'
  })
  const workingAt = Date.now()
  for (const step of plan.steps) await perform[step.do](step, harness, caller)
  const views = {}
  for (const [key, { turn_id }] of turns) views[key] = await harness.status({ turn_id }, caller)
  await harness.close()
  flushCompileCache()
  return { commits, stood_by: stoodBy, working_at: workingAt, turns: views }
}

async function migrateOnly() {
  const { migrate, readMigrations } = core('store/migrate')
  const connection = core('store/sqlite').openSqlite({ file: `${plan.folder}/harness.db` })
  await migrate(connection, readMigrations('sqlite'), Date.now())
  await connection.close()
  return { commits, stood_by: false, working_at: 0, turns: {} }
}

const isOver = (view) => ['completed', 'failed', 'cancelled'].includes(view.state)

const perform = {
  async send({ key, message, session_of: sessionOf }, harness, caller) {
    const session = sessionOf === undefined ? {} : { session_id: turns.get(sessionOf).session_id }
    turns.set(key, await harness.send({ message, idempotency_key: key, ...session }, caller))
  },
  async trigger({ key, function_id, arguments: given }, harness, caller) {
    turns.set(key, await harness.trigger({ call: { function_id, arguments: given }, idempotency_key: key, wait_seconds: 0 }, caller))
  },
  /** Every question of the turn, until it is over. */
  async decide({ of, decision }, harness, caller) {
    for (;;) {
      const view = await look(of, harness, caller)
      if (isOver(view)) return
      for (const { approval_id, status } of view.approvals) if (status === 'pending') await decideOne(approval_id, decision, harness, caller)
      if (view.state === 'held') await new Promise((resolve) => setTimeout(resolve, 5))
    }
  },
  /** The same on the approval page; a client that got no answer posts again. */
  async answer({ of, decision }, harness, caller) {
    for (;;) {
      const view = await look(of, harness, caller)
      if (isOver(view)) return
      for (const { approval_id, status } of view.approvals) if (status === 'pending') await answerOne(approval_id, decision, harness, caller)
      if (view.state === 'held') await new Promise((resolve) => setTimeout(resolve, 5))
    }
  },
  async stop({ of }, harness, caller) {
    const { session_id, turn_id } = turns.get(of)
    await harness.stop({ session_id, turn_id }, caller)
  },
  /** Until a call of the function is under way, or the turn is past it. */
  async until_sent({ of, function_id }, harness, caller) {
    const { turn_id } = turns.get(of)
    await until(async () => sentTo.has(function_id) || isOver(await harness.status({ turn_id }, caller)))
  },
  async until_held({ of }, harness, caller) {
    await until(async () => (await look(of, harness, caller)).state !== 'working')
  },
  /** Until every turn of the database is over. */
  async until_over(_step, harness) {
    await until(async () => {
      const { turns: byStatus } = await harness.overview()
      return ['queued', 'running', 'awaiting_functions', 'waiting_approval'].every((status) => (byStatus[status] ?? 0) === 0)
    })
  },
  async await({ of }, harness, caller) {
    if (readFileSync(plan.trace, { encoding: 'utf8', flag: 'a+' }).includes('"awaited"')) return
    const { await_id, url } = plan.await
    const { status } = await harness.await({ await_id, turn_ids: [turns.get(of).turn_id], until: 'ended', callback: { url } }, caller)
    appendFileSync(plan.trace, `${JSON.stringify({ awaited: status })}\n`)
  },
  async until_told() {
    const database = new Database(`${plan.folder}/harness.db`, { readonly: true })
    try {
      await until(() => !['waiting', 'due'].includes(database.prepare('SELECT status FROM awaits').pluck().get()))
    } finally {
      database.close()
    }
  },
  wait: ({ ms }) => new Promise((resolve) => setTimeout(resolve, ms)),
}

async function look(key, harness, caller) {
  return harness.status({ turn_id: turns.get(key).turn_id, wait_seconds: 10 }, caller)
}

async function decideOne(approvalId, decision, harness, caller) {
  const approval = await harness.get_approval({ approval_id: approvalId }, caller)
  const reason = decision === 'reject' ? 'Not without a receipt.' : null
  const facts = { decision, approver: 'alice', decided_at: Date.now(), reason, channel: 'command_line' }
  const signed = core('index').signDecision(createPrivateKey(plan.approver_key), approval.approval_digest, facts)
  try {
    await harness.decide_approval({ approval_id: approvalId, ...signed }, caller)
  } catch (error) {
    if (error.code !== 'approval_closed') throw error
  }
}

async function answerOne(approval_id, decision, harness, caller) {
  const reason = decision === 'reject' ? 'Not without a receipt.' : null
  try {
    await harness.answer_approval({ approval_id, link_key: await harness.linkKey(approval_id), decision, responder: 'Ann', reason }, caller)
  } catch (error) {
    if (error.code !== 'approval_closed') throw error
  }
}

async function until(holds) {
  for (const end = performance.now() + patienceMs; !(await holds()); ) {
    if (performance.now() > end) throw new Error(`wedged: not reached within ${patienceMs} ms: ${holds}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    begin(line)
    const report = await run()
    writeSync(1, `${JSON.stringify(report)}\n`)
  }
}

main().catch((error) => {
  writeSync(2, `${error.stack}\n`)
  process.exit(3)
})
