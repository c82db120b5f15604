"""A trigger that checks each statement against the moves that its verb declares. For tests only."""

import asyncpg

from common.jobs.transitions import VERBS

_TRIGGER = """
CREATE FUNCTION check_move() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  statement text := substring(current_query() FROM '^-- (\\w+)\\n');
BEGIN
  IF statement IS NOT NULL AND (statement, OLD.status, NEW.status) NOT IN (VALUES {moves}) THEN
    RAISE EXCEPTION '% moves a job from % to %, which its verb does not declare', statement, OLD.status, NEW.status;
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER check_move BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION check_move();
"""


async def add_trigger(url: str) -> None:
    """Add the trigger to a database. It leaves the statements of tests alone, because they have no names."""
    moves = [
        f"('{each.statement}', '{move.before}', '{move.after}')"
        for verb in VERBS.values()
        for each in verb
        for move in each.allowed
    ]
    connection = await asyncpg.connect(url)
    await connection.execute(_TRIGGER.format(moves=", ".join(moves)))
    await connection.close()
