"""What a database of tests checks: what holds for each row, and which moves each statement may make."""

from pathlib import Path

import asyncpg

from common.jobs.transitions import VERBS

_ROWS = Path(__file__).with_name("checks.sql")
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


async def add_checks(url: str) -> None:
    """Add the checks to a database. The moves of statements without a name, which are those of tests, are free."""
    moves = [
        f"('{each.statement}', '{move.before}', '{move.after}')"
        for verb in VERBS.values()
        for each in verb
        for move in each.allowed
    ]
    connection = await asyncpg.connect(url)
    await connection.execute(_ROWS.read_text())
    await connection.execute(_TRIGGER.format(moves=", ".join(moves)))
    await connection.close()
