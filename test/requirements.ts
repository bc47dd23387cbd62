/*
 * Every promise of this product as data. A test holds a promise by citing its id in its title: it('[stop.cascades] ...'). The coverage
 * test fails on a promise that no test cites, on an id that does not exist, and on a deferred promise that is cited after all.
 * A promise that cannot be reached yet says why, in the words of the product.
 */
export interface Requirement {
  readonly id: string
  readonly sentence: string
  /** The paragraph it comes from. */
  readonly source: string
  /** Why it cannot be held yet. */
  readonly deferred?: string
}

interface Group {
  readonly source: string
  /** Id, sentence, and why it is deferred. */
  readonly promises: readonly (readonly [id: string, sentence: string, deferred?: string])[]
}

const noAdmission = 'Executions are accepted without an approval of their own until the admission checks are built.'
const noChildren = 'No turn starts another one yet: spawn is not built.'
const noPending = 'Nothing answers later yet: deferred functions and pending calls are not built.'
const noPostgres = 'The only store is SQLite on one machine.'
const noCompaction = 'There is no compaction yet: a context that is too long ends the turn with `context_overflow`.'
const noBackOff = 'There is no model back-off yet: a model that fails ends the turn with its reason.'
const noOutputContract = 'A send cannot ask for a checked output yet.'
const overFloors = 'Measured at 2.9 to 3.7 floors on a quiet machine, up to 5.5 on a busy one. Syncing sent.log before each write is half a floor of it, the statements and seals of a commit most of the rest.'
const overBytes = 'Measured at 6.2 kB, the same at 5,000 messages as at 10. The record takes 4.2 kB of it: it repeats the reasons of each verdict.'

const groups: readonly Group[] = [
  // ------------------------------------------------------------------ the six decisions
  {
    source: 'design D1',
    promises: [
      ['loop.same-code', 'First run, going on after an approval and recovery after a crash plan the same steps from the same rows.'],
      ['loop.planner-pure', 'The planner answers the same for the same turn and time, and changes nothing.'],
      ['write.started-first', 'A write is committed as started before anything of it is sent.'],
      ['write.at-most-once', 'A write that is not declared idempotent is sent at most once, whatever crashes.'],
      ['write.undeclared-is-write', 'A function that declares nothing is treated as a write that is not idempotent.'],
      ['write.cut-not-resent', 'A write that is not idempotent and was started under an earlier lease becomes `interrupted` and is not sent.'],
      ['write.cut-is-told', 'The model, or the caller, is told that the outcome of an interrupted call is unknown.'],
      ['call.idempotent-resent', 'A started idempotent call is sent again after a crash, under the same call id, and the record says so.'],
      ['call.sent-stays-sent', 'A write that was sent as one that must not be repeated is never sent again, whatever its function says of itself since.'],
      ['call.reads-side-by-side', 'Reads run side by side and need no started commit.'],
    ],
  },
  {
    source: 'design D2',
    promises: [
      ['commit.atomic', 'A commit applies all its changes or none.'],
      ['commit.fenced', 'A worker whose lease epoch is over can commit nothing, not even an outcome.'],
      ['commit.outsiders-never-stale', 'Sends, stops and decisions never make a step of the worker fail.'],
      ['commit.settle-same-epoch', 'Settling a started call is legal under its epoch whatever was posted meanwhile.'],
      ['commit.send-is-one', 'Session, execution, turn, message and their record come into being in one commit.'],
      ['commit.decide-once', 'Of racing decisions on one approval exactly one counts.'],
      ['commit.idempotency-key', 'A request repeated under its key gets its first answer; the key with another request is a conflict.'],
    ],
  },
  {
    source: 'design D3',
    promises: [
      ['audit.every-commit', 'Every commit writes one audit row in the chain of each object it changed.'],
      ['audit.folds-to-rows', 'Folding the audit of a turn gives every status and digest that its rows have.'],
      ['audit.texts-by-digest', 'The record holds salted digests of texts, never the texts.'],
      ['audit.erasure-keeps-chain', 'Erasing a text leaves its chain standing.'],
      ['audit.checkpoint-signed', 'A checkpoint signs the heads and counts of the chains with a key kept outside the database.'],
      ['audit.checkpoint-in-file', 'A checkpoint is also appended to a file outside the database.'],
      ['audit.texts-masked', 'A secret in a text is masked in what leaves the harness and never refuses a turn.'],
    ],
  },
  {
    source: 'design D4',
    promises: [
      ['operations.one-table', 'The MCP tools and their schemas come from the table of operations.'],
      ['operations.no-model-decides', 'No operation that decides an approval is offered to a model.'],
      ['operations.seed-names', 'A request valid under its seed schema is accepted; an answer is valid under its response schema.'],
    ],
  },
  {
    source: 'design D5',
    promises: [
      ['authority.from-configuration', 'Policy, functions, agents and approvers are what configuration says, whatever the database says.'],
      ['authority.judged-at-start', 'Starting a call judges it again from configuration.'],
      ['authority.verified-at-start', 'Starting a held call verifies the signature of its approval, whatever its status says.'],
      ['authority.reload-audited', 'The fingerprint of the configuration is in the record, and a new one is a record of its own.'],
      ['authority.fingerprint-guards', 'A worker claims nothing while a live worker with another configuration holds the database.'],
    ],
  },
  {
    source: 'design D6',
    promises: [
      ['home.nothing-typed', 'Without any configuration the harness makes its home, file and keys at first use and answers.'],
      ['home.private', 'The home can be read by its owner only.'],
      ['home.precedence', 'The home is --home, else $AGENT_HARNESS_HOME, else ~/.agent-harness, for every command.'],
      ['home.no-key-holds', 'Until an approver has a key, risky calls are held, and the answers name the command that makes one.'],
      ['home.default-model', 'Without a model named, it is the configured one, else the first by name that is local and has tools.'],
      ['home.secrets-not-stored', 'Secrets from configuration are never written to the database.'],
      ['home.one-worker', 'Of the processes on one database one runs turns; the others read and write rows and say so.'],
    ],
  },

  // ------------------------------------------------------------------ state machines
  {
    source: 'design §6, turn',
    promises: [
      ['turn.begins-queued', 'An accepted turn begins as queued.'],
      ['turn.claim-runs', 'Only a claim takes a turn from queued or parked to running.'],
      ['turn.parks', 'A running turn parks as awaiting_functions with the reason beside it.'],
      ['turn.ends', 'Only a running turn ends, as completed, failed or cancelled, with its reason.'],
      ['turn.terminal-absorbs', 'A turn that is over never changes again.'],
      ['turn.no-other-move', 'Any other move of a turn is refused, in memory and by the store.'],
      ['turn.waits-for-admission', 'A turn whose execution waits for a person is waiting_approval, then queued or cancelled.', noAdmission],
    ],
  },
  {
    source: 'design §6, call',
    promises: [
      ['call.judged-first', 'A proposed call becomes denied, held or allowed, and nothing else.'],
      ['call.held-answered', 'A held call becomes allowed, rejected or expired, or is refused when its turn ends first.'],
      ['call.allowed-runs', 'Only an allowed call runs.'],
      ['call.started-settles', 'A started call ends as succeeded, failed or interrupted.'],
      ['call.settled-absorbs', 'A settled call never changes again.'],
      ['call.no-other-move', 'Any other move of a call is refused, in memory and by the store.'],
      ['call.pending', 'A started call may become pending and then succeeded, failed or timed_out.', noPending],
    ],
  },
  {
    source: 'design §6, approval',
    promises: [
      ['approval.decided', 'A pending approval becomes approved or rejected by a signed decision.'],
      ['approval.expires', 'A pending approval past its deadline is expired, and its call does not run.'],
      ['approval.cancelled', 'The end of a turn cancels its pending approvals.'],
      ['approval.closed-absorbs', 'An approval that is closed is never decided again.'],
    ],
  },
  {
    source: 'design §6, execution',
    promises: [
      ['execution.view-of-turn', 'The status of an admitted execution is that of its turn.'],
      ['execution.ids-at-send', 'The ids of execution, session and turn are given at send.'],
      ['execution.immutable', 'The columns of an execution event cannot be changed.'],
      ['execution.own-status', 'Until admitted an execution is accepted, failed, waiting_approval, rejected or expired.', noAdmission],
      ['execution.admission-in-send', 'Admission is pure and part of the commit of send.', noAdmission],
      ['execution.refused-cancels', 'An execution refused, rejected or expired ends its turn cancelled with that reason.', noAdmission],
      ['execution.approval-covers-call', 'An execution approval of the same function digest satisfies the call.', noAdmission],
      ['execution.approval-covers-child', 'A child is covered by the approval of its root.', noChildren],
      ['execution.awaits-end', 'Awaits end on rejected and expired too.'],
    ],
  },
  {
    source: 'design §6, functions that are away',
    promises: [
      ['function.live-apart', 'A harness that starts apart from n8n calls what is registered without waiting to be told again.'],
      ['function.away-parks', 'A known function that is not registered at the moment parks its call, naming it.'],
      ['function.deactivated-denies', 'A function deactivated by hand denies its calls.'],
    ],
  },
  {
    source: 'workflows as functions',
    promises: [
      ['workflow.registers', 'A workflow registers as a function; registering the same again is no change and makes it callable.'],
      ['workflow.id-is-taken', 'An id of the configuration, of another workflow or of another namespace is refused.'],
      ['workflow.checked', 'A registration with a bad schema, an address outside the caller\'s callbacks, or by one without the scope stores nothing.'],
      ['workflow.config-rules', 'Namespace, risk floor and whether own limits count come from configuration, at each use.'],
      ['workflow.own-limits', 'A write passes within the limits of its workflow only below high risk, where no rule speaks of it and every test answers yes.'],
      ['workflow.result-is-last-item', 'The last item of the last node is the result.'],
      ['workflow.failure-is-a-result', 'A workflow that failed or did not accept the signature gives an error result that says so.'],
      ['workflow.slow-is-unknown', 'A workflow that takes longer than its limit is an unknown outcome and is not called again.'],
      ['workflow.away-did-not-run', 'A write that finds its workflow not active is known not to have run, and says so.'],
      ['workflow.read-waits', 'A read that finds its workflow not active waits for it.'],
      ['workflow.waits-and-stops', 'A turn that waits for a workflow can be stopped.'],
      ['workflow.edit-asks-anew', 'After an edit of the workflow a person is asked anew.'],
      ['workflow.forged-row', 'A registration without its seal is no function, and is on record once.'],
      ['workflow.row-set-back', 'A registration set back to an older row sends nothing.'],
      ['workflow.own-only', 'A function that a workflow brought is replaced and taken back by who registered it or an operator, and is gone when who registered it is, or has lost the right.'],
      ['workflow.own-address', 'No principal offers a function under the address of a function that is not its own.'],
    ],
  },
  {
    source: 'an agent asks a person',
    promises: [
      ['ask-person.ends-turn', 'A question to a person ends the turn as completed, with the question to show.'],
      ['ask-person.answer-is-a-message', 'The answer is a message to the session; the model sees question, result and answer.'],
      ['ask-person.message-first', 'A message that came meanwhile is read before a question ends the turn.'],
      ['ask-person.for-agents', 'It is offered to agents alone, opens no other function, and can be denied by configuration.'],
    ],
  },
  {
    source: 'design §6, words for people',
    promises: [
      ['words.working', 'A turn that is queued, running or parked for anything but a person is shown as working.'],
      ['words.held', 'A turn with a call that waits for a person is shown as held.'],
      ['words.ended', 'A turn that is over is shown as completed, failed or cancelled with the reason beside it.'],
    ],
  },
  {
    source: 'design §6, planner precedence',
    promises: [
      ['planner.terminal', 'Before all else, a turn that is over is left alone.'],
      ['planner.cancel', 'A turn asked to stop finishes before limits, calls and messages are looked at.'],
      ['planner.limit', 'A turn past a limit finishes before its calls are looked at.'],
      ['planner.judge', 'A call to judge is judged before any other is recovered or run.'],
      ['planner.recover', 'A call started by an earlier lease is recovered before anything new runs.'],
      ['planner.await-started', 'A call started by this lease is seen to its outcome before anything new runs.'],
      ['planner.run-allowed', 'Allowed calls run before the turn parks for others.'],
      ['planner.park-held', 'A turn with a held call parks until it is answered or out of time, and calls no model.'],
      ['planner.deliver', 'Messages in the inbox are delivered before the model is called.'],
      ['planner.finish', 'A turn whose last answer asks for nothing finishes.'],
      ['planner.call-model', 'Only when nothing else applies is the model called.'],
      ['planner.admission', 'A turn whose admission is undecided parks before its calls are judged.', noAdmission],
      ['planner.park-pending', 'A turn with a pending call parks.', noPending],
      ['planner.back-off', 'While a model back-off runs the turn parks until its end.', noBackOff],
      ['planner.output-contract', 'An answer is checked against the output contract before the turn finishes.', noOutputContract],
      ['planner.compact', 'A context that is too long is compacted before the model is called.', noCompaction],
    ],
  },

  // ------------------------------------------------------------------ rules worth a test each
  {
    source: 'design §6, rules',
    promises: [
      ['stop.any-moment', 'Stop works in every state of a turn that is not over.'],
      ['stop.inside-model', 'Stop works inside a model call.'],
      ['stop.inside-function', 'Stop works inside a function call.'],
      ['stop.cascades', 'Stop cascades to the children of a turn.', noChildren],
      ['stop.cut-is-interrupted', 'A started call that is cut by a stop is interrupted.'],
      ['late.recorded', 'The late outcome of a cut call is recorded on the call.'],
      ['late.no-message', 'The late outcome of a cut call adds no message and changes no status.'],
      ['message.waits-in-inbox', 'A message to a running turn waits in the inbox.'],
      ['message.never-between', 'A message never lands between a call and its result.'],
      ['message.follow-up', 'A message that came too late for its turn is answered by a follow-up turn.'],
      ['message.joins-if-equal', 'A message joins a running turn only if owner and constraints are equal.'],
      ['message.else-own-turn', 'A message with another owner or other constraints gets a turn of its own.'],
      ['result.exactly-one', 'Every call that a model asks for gets exactly one result.'],
      ['result.after-cancel', 'Every call has exactly one result after its turn was cancelled.'],
      ['result.after-failure', 'Every call has exactly one result after its turn failed.'],
      ['send.no-orphans', 'Racing sends to one session orphan no turn and lose no message.'],
      ['child.rights', 'A turn started from inside a turn never has more rights than its parent.', noChildren],
      ['child.depth', 'A turn started from inside a turn never has more depth than its parent.', noChildren],
      ['child.budget', 'A turn started from inside a turn never has more budget than its parent.', noChildren],
      ['stranger.as-unknown', 'A stranger gets for a foreign id exactly what an unknown id gets.'],
      ['crash-loop.fails', 'A turn whose worker dies three times without a commit fails with crash_loop.'],
      ['lease.never-own-twice', 'A process never claims a turn that it still runs.'],
      ['lease.monotonic', 'A lease is measured by a clock that never goes back inside its process.'],
      ['lease.dead-owner-replaced', 'A worker that is provably dead on this host is replaced at once.'],
      ['lease.database-time', 'Between processes on several hosts leases use the time of the database.', noPostgres],
    ],
  },

  // ------------------------------------------------------------------ awaits
  {
    source: 'design §7 and §11, awaits',
    promises: [
      ['await.at-once', 'Who asks for what is over already is answered at once with the results, and is not called.'],
      ['await.held-is-news', 'A turn that waits for a person is news, with the exact arguments and the key of its page.'],
      ['await.held-again', 'A turn that needs a person only after the await was opened is news then.'],
      ['await.until-ended', 'An await until the end is not told of a turn that waits for a person.'],
      ['await.approval', 'An await on approvals ends when none of them is open any more.'],
      ['await.all-turns', 'An await on many turns is called once, when the last of them has ended.'],
      ['await.same-commit', 'The commit that ends what somebody waits for makes the await due; there is no moment between.'],
      ['await.called', 'Whoever waits for a turn is called when it ends.'],
      ['await.same-id', 'The same await id is the same await; asked again for something else it is a conflict.'],
      ['await.foreign', 'Turns, approvals and awaits of others are as unknown ones to whoever awaits.'],
      ['await.registered-base', 'Nobody is called at an address that is not below a base registered for whoever asks.'],
      ['await.readdressed', 'An await that is asked again with another address is called there.'],
      ['await.early', 'A receiver that has not stored its waiting yet is called again within half a second.'],
      ['await.deadline', 'At its deadline an await ends as timed out, once, and stays so.'],
      ['await.unawait', 'An await that was given up is not called, and its turns go on.'],
      ['await.orphaned', 'A receiver that has nobody waiting any more is not called again, and the turn stays as it is.'],
      ['await.ambiguous', 'An error that may have been a success is tried once more; then it counts as taken if the caller has asked.'],
      ['await.not-lost', 'A callback that is not taken is made again, later and later, and its receiver goes on once.'],
      ['await.answers', 'Every answer of a receiver has one meaning, and what is not known is taken as "not now".'],
      ['await.restart', 'Callbacks and deadlines that fell due while nothing ran are seen to at the next start.'],
      ['await.crash', 'Killed around every commit, and between a callback and its answer, nobody who waits is left untold.'],
      ['await.sealed-address', 'The address of a callback is encrypted and bound to its await.'],
      ['await.attacker-called', 'No await that was made or edited by hand gets anybody called for what is not so.'],
      ['await.attacker-reads', 'No await that was made or edited by hand tells anybody of turns that are not theirs.'],
    ],
  },

  // ------------------------------------------------------------------ speed
  {
    source: 'design §16',
    promises: [
      ['speed.ten-rounds', 'A ten-round turn with nine writes costs at most 3 floors of two durable commits a round.', overFloors],
      ['speed.long-session', 'A round at 5,000 messages costs at most 1.5 times a round at 10.'],
      ['speed.file-growth', 'A round adds at most 2 kB to the file beyond its texts, however long the session is.', overBytes],
      ['speed.stop', 'Stop, in any state, takes effect within 250 ms at the 95th percentile.'],
      ['speed.zero-doubled', 'Over all crash runs no write that is not idempotent is sent twice.'],
      ['speed.zero-lost', 'Over all crash runs no turn is lost or wedged.'],
      ['speed.two-workers', 'Two workers on PostgreSQL make at least 300 steps a second over 64 sessions.', noPostgres],
      ['speed.takeover', 'A worker on another machine takes over within 15 s.', noPostgres],
      ['speed.callback', 'From the end of a turn to the first byte of its callback it is at most 50 ms at the median.'],
    ],
  },

  // ------------------------------------------------------------------ the first slice, "done when"
  {
    source: 'first slice, item 1',
    promises: [
      ['setup.fresh-clone', 'On a fresh clone npm test does all its set-up, also where the Node on PATH is too old.'],
      ['demo.approve', 'The demo with approve ends 0 and the shop saw exactly one POST, over two real kills.'],
      ['demo.reject', 'The demo with reject ends 0 and the shop saw no POST, over two real kills.'],
      ['verify.good', 'audit verify says good and exits 0 on an untouched database.'],
      ['verify.broken', 'audit verify says what is broken and exits 1 on a changed one.'],
      ['verify.could-not-tell', 'audit verify exits 2 where it could not tell.'],
      ['verify.key-and-checkpoints', 'audit verify takes key and checkpoints from the home of the file; --key and --checkpoints override.'],
      ['start.leaves-nothing', 'Ended by SIGTERM or SIGINT, npm start leaves no process.'],
    ],
  },
  {
    source: 'first slice, item 2',
    promises: [
      ['package.installs', 'The packed package installs without running scripts and its command works.'],
      ['package.no-n8n', 'Installing the package brings no n8n-workflow.'],
      ['package.old-node-told', 'On a Node that is too old the command says which Node is needed.'],
    ],
  },
  {
    source: 'first slice, item 3',
    promises: [
      ['mcp.sdk-client', 'With the official SDK client over stdio a call is held, decided by command line, and completed.'],
      ['mcp.inspector', 'With the command line of the Inspector over stdio a call is held, decided, and completed.'],
      ['mcp.ollama-wire', 'The same works with a model server that is strict about the wire of Ollama.'],
      ['mcp.sample', 'The same works with --sample and no model server.'],
    ],
  },
  {
    source: 'first slice, item 4',
    promises: [
      ['crash.around-commits', 'Killed before and after every commit, a turn goes on.'],
      ['crash.request-to-answer', 'Killed between a request sent and its answer, a turn goes on.'],
      ['crash.first-migration', 'Killed between the statements of the first migration, the next start finds a usable database.'],
      ['crash.no-double-write', 'After a kill no write that is not idempotent was sent twice.'],
      ['crash.nothing-unallowed', 'After a kill no denied, undecided or forged call was sent.'],
      ['crash.one-result', 'After a kill every call has one result.'],
      ['crash.terminal-or-parked', 'After a kill every turn is over, or parked for a stated reason.'],
      ['crash.chains-verify', 'After a kill the chains verify.'],
      ['crash.chains-fold', 'After a kill the chains fold to the statuses of the rows.'],
      ['crash.without-kill', 'Without a kill every script completes.'],
      ['crash.all-but-the-cut', 'After a kill all calls but the cut write complete.'],
    ],
  },
  {
    source: 'first slice, item 5',
    promises: [
      ['property.interleavings', '2,000 random interleavings of sends, stops, decisions, late answers, lease loss and crashes break no rule.'],
      ['property.pairs-met', 'Every reachable pair of status (with park reason) and event was met.'],
      ['property.unreachable-listed', 'A pair that cannot be reached is listed with the reason.'],
      ['mutants.five', 'There are at least five mutants, each against a named guarantee.'],
      ['mutants.small', 'Each mutant builds and changes at most ten lines.'],
      ['mutants.red', 'Each mutant turns the test red that is named for its guarantee.'],
      ['mutants.clean-green', 'Without a mutant the same tests are green.'],
    ],
  },
  {
    source: 'first slice, item 6, one who may write the database',
    promises: [
      ['attacker.status-set', 'A call whose status was set to allowed is not sent.'],
      ['attacker.forged-approval', 'A call with a forged approval is not sent.'],
      ['attacker.replayed-approval', 'A call with a replayed approval is not sent.'],
      ['attacker.other-function', 'A call with the approval of another function is not sent.'],
      ['attacker.edited-argument', 'A call whose argument was edited after the approval is not sent.'],
      ['attacker.session-rule', 'A hand-made session rule gets no call sent.'],
      ['attacker.identity-row', 'A hand-made identity row gets no call sent.'],
      ['attacker.token-row', 'A hand-made token row gets no call sent.'],
    ],
  },
  {
    source: 'first slice, item 6, audit tampering with recomputed hashes',
    promises: [
      ['tamper.changed-row', 'A changed audit row is found and named.'],
      ['tamper.removed-row', 'A removed audit row is found and named.'],
      ['tamper.swapped-pair', 'A swapped pair of audit rows is found and named.'],
      ['tamper.truncated-tail', 'A truncated tail up to the last checkpoint is found and named.'],
      ['tamper.removed-execution', 'A removed execution is found and named.'],
    ],
  },
  {
    source: 'first slice, item 7, bad input gets a clear error and loses nothing',
    promises: [
      ['bad.unknown-id', 'Unknown ids.'],
      ['bad.glob', 'A bad glob.'],
      ['bad.arguments-off-schema', 'Arguments off their schema.'],
      ['bad.null-arguments', 'Null arguments.'],
      ['bad.duplicate-keys', 'Duplicate keys in JSON.'],
      ['bad.proto-key', 'A `__proto__` key.'],
      ['bad.hostile-pattern', 'A hostile regular expression in a schema.'],
      ['bad.large-message', 'A message of 5 MB.'],
      ['bad.read-only-database', 'A database that is read-only.'],
      ['bad.newer-schema', 'A database with a newer schema.'],
      ['bad.locked-database', 'A database that is locked.'],
      ['bad.second-process', 'A second process on the database.'],
      ['bad.ollama-down', 'Ollama that does not answer.'],
      ['bad.ollama-without-model', 'Ollama without the model.'],
      ['bad.ollama-cut', 'Ollama cut in mid-stream.'],
      ['bad.ollama-redirects', 'Ollama that redirects.'],
      ['bad.tool-not-offered', 'An answer with a tool that was not offered.'],
      ['bad.wrong-passphrase', 'A wrong passphrase.'],
      ['bad.broken-configuration', 'A broken harness.yaml.'],
    ],
  },
  // ------------------------------------------------------------------ n8n
  {
    source: 'design D6, issue 3 (Done when 4 and 5)',
    promises: [
      ['n8n.installs', 'The tarball installs with the flags of n8n in less than a minute, without a compiler.'],
      ['n8n.shows-nodes', 'n8n shows every node of the package, and a Tool form of those alone that an agent may use.'],
      ['n8n.commands-open-nothing', 'A first start of n8n makes no harness, and its commands beside a running n8n open none.'],
      ['n8n.start-cost', 'The start of n8n spends less than 150 ms inside our files.'],
    ],
  },
  {
    source: 'the approval page',
    promises: [
      ['page.get-decides-nothing', 'Looking at the approval page decides nothing and changes no row.'],
      ['page.post-decides-once', 'Of any number of posts to the approval page exactly one counts.'],
      ['page.link-key', 'Without the key of its link the page tells of an approval what it tells of an unknown id.'],
      ['page.link-of-living', 'The command line names a page only while the serve that has its port lives.'],
      ['page.key-by-right', 'The key of a link is told only to whoever has the scope to decide and may see the call by configuration and seals, and opens that call alone.'],
      ['page.assurance', 'A decision by name counts only where configuration and risk let it; for high risk on a server it takes a passphrase.'],
      ['page.name-unverified', 'A name that was given on the page is shown as not verified wherever it is shown.'],
      ['page.signed', 'A decision of the page counts only under the key that configuration names, for the approval it was made for, whatever the rows say.'],
      ['page.shown-is-signed', 'The page signs what it showed; what changed since is refused.'],
      ['page.four-eyes', 'With four eyes on, the name of who asked does not decide, in whatever case it is written.'],
      ['page.lockout', 'Wrong passphrases on the page count as those of the command line.'],
      ['page.exact', 'The page shows the exact arguments, and what else a person decides on.'],
      ['page.plain', 'The page works without script, cookie or anything from elsewhere.'],
      ['page.escaped', 'Nothing that a model or a stranger wrote is more than text on the page.'],
      ['page.nothing-hides', 'Characters that do not show, or turn text around, are written out on the page.'],
      ['page.too-large', 'What the page cannot show whole cannot be approved there.'],
      ['page.loopback', 'The page answers to names of loopback and takes forms of its own origin alone.'],
      ['page.not-for-models', 'No answer to a model holds the link of an approval.'],
      ['page.crash', 'Killed between a post and its answer, the decision counts once or not at all.'],
      ['page.key', 'The key of the page is made with the home, is private, and a lost one is not replaced while configuration names it.'],
    ],
  },
  {
    source: 'first slice, item 8',
    promises: [
      ['house.imports', 'Every folder imports only what the table of the architecture allows.'],
      ['house.pure', 'Pure folders read no clock, no random numbers, no process and no files.'],
      ['house.file-size', 'No source file is longer than 350 lines.'],
      ['house.reading-path', 'Every file that the reading path in core/README.md names exists.'],
      ['house.coverage', 'Every promise is cited by a test or says why it cannot be held yet.'],
    ],
  },
  {
    source: 'first slice, approvals and MCP',
    promises: [
      ['approvals.exact-arguments', 'The command line shows the exact arguments of what it asks about.'],
      ['approvals.lockout', 'Five wrong passphrases lock that approver for 15 minutes, on record.'],
      ['mcp.stdout-clean', 'Over stdio, stdout carries JSON-RPC only.'],
      ['mcp.ends-with-stdin', 'The stdio server ends within 2 s of the end of its stdin.'],
      ['mcp.loose-arguments', 'Null and stringified arguments are accepted over MCP.'],
      ['mcp.wrong-node', 'On a wrong Node, initialize is answered with an error that says what to install.'],
      ['mcp.beside-owner', 'Beside the process that holds the database the stdio server writes and reads rows, and says so.'],
      ['ollama.local-or-cloud', 'A model is local only if configuration, its address and its server all say so.'],
    ],
  },
  {
    source: 'the same in n8n, tokens and HTTP',
    promises: [
      ['http.token-only', 'Without a token in force every request under /v1 is answered 401, whatever it asks for, and told nothing else.'],
      ['http.removed-token', 'A removed or expired token counts no more from the next request on, without a restart.'],
      ['http.narrowed', 'A token has only those scopes of its principal that it names, and never more than the principal.'],
      ['http.no-browser', 'A request with an Origin, or under a name that is not loopback, gets nothing.'],
      ['http.no-body', 'A request without a body is the empty input.'],
      ['http.bounded', 'What is too large, no JSON or of another kind is refused with its own status, without a stack or a path.'],
      ['http.gone-client', 'A client that goes away, or is killed, ends its waiting and nothing else.'],
      ['http.decisions-by-scope', 'Over HTTP only a token with the scope reaches an operation that decides, and none of them is a tool.'],
      ['tokens.hash-only', 'A token is shown once; configuration, database and log never hold it.'],
      ['tokens.edit-keeps', 'Adding and removing a token keeps the comments and the rest of harness.yaml.'],
      ['tokens.strict', 'A token with an unknown principal, a name or hash of another one, or a bad address is refused with its line.'],
      ['remote.same', 'A harness behind HTTP answers and refuses as the one in the process does.'],
      ['remote.every-operation', 'The suite of the Harness meets every operation of the table, in the process and behind HTTP.'],
      ['remote.unreachable', 'Where no harness answers the error names the address.'],
      ['remote.checked', 'An answer that is not one of its operation becomes an error that names the operation.'],
    ],
  },
  {
    source: 'design §11, nodes of n8n',
    promises: [
      ['n8n.await-id', 'A wait of a node has the same id whenever n8n asks again, and no other wait has it.'],
      ['n8n.await-outputs', 'Await Turn gives each turn once, through the output it belongs to.'],
      ['n8n.await-timeout', 'A wait that timed out leaves through Not Done or Timed Out, marked as such.'],
      ['n8n.approve-closed', 'Nothing but the status approved, read from the harness, leaves through Approved.'],
      ['n8n.approve-timeout', 'What n8n lets out by its own timer is stamped as timed out beforehand.'],
      ['n8n.strangers-ignored', 'A callback that does not name the await of the node, and any error on the way, leaves the execution waiting.'],
      ['n8n.strangers-told-nothing', 'What goes wrong behind an address of n8n is told in the log; a visitor is told no folder, process or server.'],
      ['n8n.get-decides-nothing', 'Opening the address of a waiting execution decides nothing and resumes nothing.'],
      ['n8n.send-key', 'An item of an execution is sent once, however often n8n runs its node again.'],
      ['n8n.tool-fixed', 'As a tool of an agent a node takes no expression where rights are given.'],
      ['n8n.tool-no-link', 'What a model reads of an await holds no key of an approval.'],
      ['n8n.no-nested-send', 'A workflow that runs as a function starts no turn.'],
      ['n8n.call-once', 'A signed call that comes again does not run a workflow again.'],
      ['n8n.limits-read', 'A limit of a workflow function that cannot be read is refused, never dropped.'],
      ['n8n.queue-refused', 'Queue mode without a server, and a Node that is too old, are refused with what to do.'],
      ['n8n.first-minutes', 'The refund example needs no credential and no typing: published and executed it asks a person by a link, and approving refunds once.'],
      ['n8n.rejected', 'A rejection leaves through Rejected; led back to Await Turn the model is told, the turn ends Done with the decision, and nothing ran.'],
      ['n8n.timed-out', 'An unanswered approval leaves through Timed Out and never through Approved, and nothing ran.'],
      ['n8n.kill', 'After SIGKILL of n8n in a model call, in the refund or while held, the workflow ends right with no node run by hand, and the refund is sent at most once.'],
      ['n8n.callbacks', 'Racing, early and late callbacks resume an execution once, with what the harness says.'],
      ['n8n.gone', 'An execution that was stopped or deleted while it waits ends its await, never the turn.'],
      ['n8n.ask-a-person', 'A question of the agent goes out through Done, and the answer goes into the same conversation.'],
      ['n8n.credential-test', 'The test of the server credential says OK for a good token, and not for a bad one or where nobody listens.'],
      ['n8n.server', 'Against agent-harness serve the refund example asks an approver for a passphrase on its page, and approving refunds once.'],
      ['n8n.server-kill', 'After SIGKILL of the server while held, or of n8n while the turn ends, the workflow ends right.'],
      ['n8n.ollama-unreachable', 'Where no Ollama answers, what comes out of Not Done names the address that was tried and the one from inside Docker.'],
      ['n8n.no-model', 'No model, or none that can call functions, is said with what to do.'],
      ['n8n.publish-first', 'Executed before it is published, a workflow with a function is told to be published, and nothing is sent.'],
      ['n8n.changed-refused', 'A call that was judged for a workflow function that was edited meanwhile runs nothing.'],
      ['n8n.own-settings', 'A credential with a folder of its own works, and n8n says when its turns go on after a restart.'],
      ['n8n.one-folder', 'A second n8n on the folder of another is refused clearly.'],
    ],
  },
]

export const requirements: readonly Requirement[] = groups.flatMap(({ source, promises }) =>
  promises.map(([id, sentence, deferred]) => (deferred === undefined ? { id, sentence, source } : { id, sentence, source, deferred })),
)
