-- What was asked for, and the record of what was done, never change. Honest code never tries; these triggers stop the dishonest or
-- mistaken statement, and the checkpoints show the one who drops the triggers first.

CREATE TRIGGER executions_are_immutable BEFORE UPDATE ON executions
BEGIN SELECT RAISE(ABORT, 'executions are immutable'); END
--
CREATE TRIGGER executions_stay BEFORE DELETE ON executions
BEGIN SELECT RAISE(ABORT, 'executions are immutable'); END
--
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit_events
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END
--
CREATE TRIGGER audit_stays BEFORE DELETE ON audit_events
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END
--
CREATE TRIGGER checkpoints_are_immutable BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are immutable'); END
--
CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are immutable'); END
