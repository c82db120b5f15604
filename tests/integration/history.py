"""What a job's row has been through, kept by the database itself, and what each step leaves behind."""

from collections import Counter
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids, messages, topology
from common.database import Database
from common.jobs import TERMINAL, TRANSITIONS, Status
from common.messages import CancelJob, JobEvent, Message
from tests.integration.jobs import LEASE, JobState

RUNNING = frozenset({Status.PROCESSING, Status.CANCELING})
TABLE = """
CREATE TABLE history (
  number bigserial PRIMARY KEY,
  job_id uuid NOT NULL,
  before text NOT NULL, after text NOT NULL,
  claim_before bigint NOT NULL, claim bigint NOT NULL,
  attempt_before integer NOT NULL, attempt integer NOT NULL
);
CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO history (job_id, before, after, claim_before, claim, attempt_before, attempt)
  VALUES (NEW.id, OLD.status, NEW.status, OLD.claim, NEW.claim, OLD.attempt, NEW.attempt);
  RETURN NULL;
END $$;
CREATE TRIGGER remembered AFTER UPDATE ON jobs FOR EACH ROW
WHEN ((OLD.status, OLD.claim, OLD.attempt) IS DISTINCT FROM (NEW.status, NEW.claim, NEW.attempt))
EXECUTE FUNCTION remember();
"""


class Step(NamedTuple):
    """One change of a job's state, claim or attempt."""

    before: Status
    after: Status
    claim_before: int
    claim: int
    attempt_before: int
    attempt: int

    @property
    def revives(self) -> bool:
        return self.before in TERMINAL

    @property
    def ends_attempt(self) -> bool:
        return self.before in RUNNING and self.after is not Status.CANCELING


class Kept(NamedTuple):
    """All that is kept of a job; attempts are (claim, attempt, status), messages everybody's."""

    steps: list[Step]
    attempts: list[tuple[int, int, str]]
    events: list[str]
    event_ids: list[UUID]
    messages: list[Message]


async def install(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(TABLE)


async def read(database: Database, job: UUID) -> Kept:
    columns = ", ".join(Step._fields)
    steps = await database.fetch(f"SELECT {columns} FROM history WHERE job_id = $1 ORDER BY number", job)  # noqa: S608
    attempts = await database.fetch(
        "SELECT claim, attempt, status FROM job_attempts WHERE job_id = $1 ORDER BY claim", job
    )
    events = await database.fetch("SELECT id, type, body FROM events WHERE job_id = $1", job)
    outbox = await database.fetch("SELECT body FROM outbox WHERE exchange <> $1", topology.JOBS)
    for event in events:
        check_body(job, event["type"], event["body"])
    return Kept(
        [Step(Status(before), Status(after), *counts) for before, after, *counts in steps],
        [(record["claim"], record["attempt"], record["status"]) for record in attempts],
        [record["type"] for record in events],
        [record["id"] for record in events],
        [messages.decode(record["body"]) for record in outbox],
    )


def check_findable(state: JobState) -> None:
    """Whatever has not ended will be found again: by its next ring, no later than promised, or by its lease."""
    assert (state.status in TERMINAL) == (state.finished_at is not None)
    assert (state.status in RUNNING) == (state.lease_until is not None)
    assert (state.status is Status.QUEUED) == (state.ring_at is not None)
    if state.ring_at is not None:
        longest = max(timedelta(minutes=1), state.now - state.run_at)
        assert state.ring_at <= max(state.run_at, state.now) + longest
    if state.status is Status.EXPIRED:
        assert state.started_at is None
        assert state.expires_at is not None
        assert state.expires_at <= state.now
    if state.lease_until is not None:
        assert state.lease_until <= state.now + timedelta(seconds=LEASE)


def check_body(job: UUID, kind: str, body: bytes) -> None:
    told = msgspec.json.decode(body)
    status = "processing" if kind == "job.started" else kind.removeprefix("job.")
    assert (told["type"], told["data"]["status"]) == (kind, status)
    assert told["data"]["id"] == ids.show(ids.Kind.JOB, job)


def check(job: UUID, kept: Kept, *, revived: int, wants_started: bool) -> None:
    """Every step was legal, and left what belongs to it, once. The client had the job `revived` so often."""
    for step in kept.steps:
        check_step(step)
    assert sum(step.revives for step in kept.steps) == revived, kept
    assert kept.attempts == [describe_attempt(step) for step in kept.steps if step.ends_attempt], kept
    starts = [step for step in kept.steps if step.after is Status.PROCESSING and wants_started]
    ends = [f"job.{step.after}" for step in kept.steps if step.after in TERMINAL]
    assert Counter(kept.events) == Counter([*ends, *("job.started" for _ in starts)]), kept
    rung = Counter(message.event_id for message in kept.messages if isinstance(message, JobEvent))
    assert [rung[event] for event in kept.event_ids] == [1] * len(kept.event_ids), kept
    cancels = [step for step in kept.steps if step.after is Status.CANCELING]
    assert kept.messages.count(CancelJob(job)) == len(cancels), kept


def check_step(step: Step) -> None:
    assert step.after in TRANSITIONS[step.before], step
    claims, attempts = step.claim - step.claim_before, step.attempt - step.attempt_before
    if step.after is Status.PROCESSING:
        assert (claims, attempts) == (1, 1), step
    elif step.revives:
        assert (claims, step.attempt) == (1, 0), step  # so that nothing known of the life before fits this one
    elif step.after is Status.QUEUED:
        assert (claims, attempts) in {(0, 0), (0, -1)}, step  # it counts, or it was given back
    else:
        assert (claims, attempts) == (0, 0), step


def describe_attempt(step: Step) -> tuple[int, int, str]:
    """How it is kept, given the step that ended it."""
    if step.after is Status.QUEUED:
        status = "returned" if step.attempt < step.attempt_before else "failed"
    else:
        status = str(step.after)
    return step.claim_before, step.attempt_before, status
