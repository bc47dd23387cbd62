-- Who waits to be called back, for what, and how far it is: the outbox. The address is a text like any other, and encrypted.

CREATE TABLE awaits (
  owner TEXT NOT NULL,
  await_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('turn', 'approval')),
  until TEXT NOT NULL CHECK (until IN ('held_or_ended', 'ended')),
  deadline BIGINT,
  seal TEXT NOT NULL,
  callback TEXT REFERENCES contents (content_id),
  status TEXT NOT NULL CHECK (status IN ('waiting', 'due', 'answered', 'delivered', 'orphaned', 'cancelled')),
  outcome TEXT CHECK (outcome IN ('done', 'timed_out')),
  answered TEXT,
  news BIGINT NOT NULL DEFAULT 0,
  attempts BIGINT NOT NULL DEFAULT 0,
  streak BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT,
  next_at BIGINT,
  last_answer TEXT,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (owner, await_id),
  CHECK (status <> 'due' OR next_at IS NOT NULL)
)
--
CREATE TABLE await_subjects (
  owner TEXT NOT NULL,
  await_id TEXT NOT NULL,
  ordinal BIGINT NOT NULL,
  subject_id TEXT NOT NULL,
  PRIMARY KEY (owner, await_id, ordinal)
)
--
-- every end of a turn looks here: it costs nothing when nobody waits
CREATE INDEX awaits_on_subject ON await_subjects (subject_id)
--
CREATE INDEX awaits_due ON awaits (next_at) WHERE status = 'due'
--
CREATE INDEX awaits_by_deadline ON awaits (deadline) WHERE status = 'waiting'
