-- Functions that workflows brought. A row counts only with its seal, and only beside a configuration that lets it.

CREATE TABLE registrations (
  id TEXT PRIMARY KEY,
  workflow_id TEXT NOT NULL,
  entry TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'deactivated')),
  seal TEXT NOT NULL,
  registered_by TEXT NOT NULL,
  updated_at BIGINT NOT NULL
)
