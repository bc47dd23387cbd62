-- Rows are the whole state. Columns are TEXT and BIGINT only, so that one set of statements serves both databases. Statements are
-- separated by lines that hold nothing but two dashes.

CREATE TABLE contents (
  content_id TEXT PRIMARY KEY,
  salt TEXT NOT NULL,
  digest TEXT NOT NULL,
  text TEXT,
  created_at BIGINT NOT NULL
)
--
CREATE TABLE executions (
  execution_id TEXT PRIMARY KEY,
  source_type TEXT NOT NULL CHECK (source_type IN ('astro', 'n8n', 'external_system', 'watcher')),
  source_id TEXT NOT NULL,
  actor_type TEXT NOT NULL CHECK (actor_type IN ('user', 'system')),
  actor_id TEXT NOT NULL,
  intent TEXT NOT NULL,
  payload TEXT NOT NULL REFERENCES contents (content_id),
  allow_cloud BIGINT NOT NULL CHECK (allow_cloud IN (0, 1)),
  require_audit BIGINT NOT NULL CHECK (require_audit IN (0, 1)),
  risk_level TEXT NOT NULL CHECK (risk_level IN ('low', 'medium', 'high')),
  event_hash TEXT NOT NULL,
  corrects_execution_id TEXT REFERENCES executions (execution_id),
  session_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  created_at BIGINT NOT NULL
)
--
CREATE TABLE sessions (
  session_id TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  title TEXT REFERENCES contents (content_id),
  created_at BIGINT NOT NULL
)
--
CREATE TABLE turns (
  turn_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions (session_id),
  ordinal BIGINT NOT NULL,
  execution_id TEXT NOT NULL REFERENCES executions (execution_id),
  owner TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('agent', 'function')),
  agent TEXT NOT NULL,
  spec TEXT NOT NULL REFERENCES contents (content_id),
  seal TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('waiting_approval', 'queued', 'running', 'awaiting_functions', 'completed', 'failed', 'cancelled')),
  reason TEXT,
  detail TEXT,
  park TEXT,
  wake_at BIGINT,
  rounds BIGINT NOT NULL DEFAULT 0,
  claims BIGINT NOT NULL DEFAULT 0,
  lease_owner TEXT,
  lease_epoch BIGINT NOT NULL DEFAULT 0,
  inbox_posted BIGINT NOT NULL DEFAULT 0,
  inbox_seen BIGINT NOT NULL DEFAULT 0,
  result TEXT REFERENCES contents (content_id),
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  deadline_at BIGINT NOT NULL,
  UNIQUE (session_id, ordinal),
  CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
)
--
-- a worker looks for work here; finished turns, the many, are left out
CREATE INDEX turns_unfinished ON turns (status, wake_at) WHERE finished_at IS NULL
--
CREATE INDEX turns_of_owner ON turns (owner, created_at)
--
CREATE TABLE messages (
  message_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions (session_id),
  turn_id TEXT NOT NULL REFERENCES turns (turn_id),
  ordinal BIGINT NOT NULL,
  step BIGINT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
  content TEXT NOT NULL REFERENCES contents (content_id),
  seal TEXT NOT NULL,
  reply TEXT,
  created_at BIGINT NOT NULL,
  UNIQUE (session_id, ordinal)
)
--
CREATE TABLE calls (
  call_id TEXT PRIMARY KEY,
  turn_id TEXT NOT NULL REFERENCES turns (turn_id),
  step BIGINT NOT NULL,
  ordinal BIGINT NOT NULL,
  function_id TEXT NOT NULL,
  arguments TEXT NOT NULL REFERENCES contents (content_id),
  seal TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('proposed', 'denied', 'held', 'allowed', 'started', 'succeeded', 'failed', 'interrupted', 'rejected', 'expired', 'pending', 'timed_out')),
  reason TEXT,
  reasons TEXT NOT NULL,
  function_digest TEXT,
  approval_id TEXT,
  started_epoch BIGINT,
  attempts BIGINT NOT NULL DEFAULT 0,
  result TEXT REFERENCES contents (content_id),
  late_result TEXT REFERENCES contents (content_id),
  proposed_at BIGINT NOT NULL,
  started_at BIGINT,
  settled_at BIGINT,
  UNIQUE (turn_id, step, ordinal),
  CHECK ((result IS NULL) = (status IN ('proposed', 'held', 'allowed', 'started', 'pending')))
)
--
CREATE TABLE inbox (
  inbox_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  turn_id TEXT NOT NULL REFERENCES turns (turn_id),
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('message', 'stop', 'decision')),
  principal TEXT NOT NULL,
  content TEXT REFERENCES contents (content_id),
  approval_id TEXT,
  seal TEXT NOT NULL,
  posted_at BIGINT NOT NULL,
  fate TEXT CHECK (fate IN ('done', 'moved', 'refused'))
)
--
-- not unique: the turn's row counts the places, and a row put here by hand must not keep anybody from posting
CREATE INDEX inbox_of_turn ON inbox (turn_id, seq)
--
CREATE TABLE approval_requests (
  approval_id TEXT PRIMARY KEY,
  execution_id TEXT NOT NULL REFERENCES executions (execution_id),
  session_id TEXT NOT NULL,
  turn_id TEXT NOT NULL REFERENCES turns (turn_id),
  call_id TEXT NOT NULL REFERENCES calls (call_id),
  owner TEXT NOT NULL,
  function_id TEXT NOT NULL,
  function_digest TEXT NOT NULL,
  approval_digest TEXT NOT NULL,
  assurance TEXT NOT NULL CHECK (assurance IN ('human-verified', 'channel-asserted', 'client-asserted')),
  approver_roles TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  decided TEXT,
  decided_by TEXT,
  decided_at BIGINT,
  CHECK ((status IN ('approved', 'rejected')) = (decided IS NOT NULL))
)
--
CREATE INDEX approvals_by_status ON approval_requests (status, created_at)
--
CREATE INDEX approvals_by_turn ON approval_requests (turn_id)
--
CREATE TABLE idempotency (
  principal TEXT NOT NULL,
  operation TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  response TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (principal, operation, idempotency_key)
)
--
CREATE TABLE approver_tries (
  approver TEXT PRIMARY KEY,
  failures BIGINT NOT NULL,
  locked_until BIGINT
)
--
CREATE TABLE workers (
  slot TEXT PRIMARY KEY CHECK (slot = 'worker'),
  worker_id TEXT NOT NULL,
  pid BIGINT NOT NULL,
  pid_start TEXT,
  host TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  program TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  lease_until BIGINT NOT NULL
)
--
CREATE TABLE chains (
  chain TEXT PRIMARY KEY,
  seq BIGINT NOT NULL,
  hash TEXT NOT NULL,
  checkpointed_seq BIGINT NOT NULL DEFAULT 0
)
--
CREATE INDEX chains_to_checkpoint ON chains (chain) WHERE checkpointed_seq < seq
--
CREATE TABLE audit_events (
  chain TEXT NOT NULL,
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  changes TEXT NOT NULL,
  prev_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (chain, seq)
)
--
CREATE TABLE checkpoints (
  number BIGINT PRIMARY KEY,
  at BIGINT NOT NULL,
  heads TEXT NOT NULL,
  root TEXT NOT NULL,
  signature TEXT NOT NULL
)
