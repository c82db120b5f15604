"""The history of a job's row, recorded by a trigger, and the checks of each step."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.job_states import TERMINAL, Status
from common.jobs.transitions import TRANSITIONS
from common.postgres.database import Database
from common.rabbitmq.messages import CancelJob, EventsRecorded
from common.rabbitmq.wake_ups import WakeUp
from common.views.batch import BatchBody
from tests.integration.jobs import LEASE, JobState

RUNNING = frozenset({Status.PROCESSING, Status.CANCELING})
SCHEMA = """
CREATE TABLE history (
  number bigserial PRIMARY KEY,
  job_id uuid NOT NULL,
  before text NOT NULL, after text NOT NULL,
  claim_before bigint NOT NULL, claim bigint NOT NULL,
  attempt_before integer NOT NULL, attempt integer NOT NULL
);
CREATE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO history (job_id, before, after, claim_before, claim, attempt_before, attempt)
  VALUES (NEW.id, OLD.status, NEW.status, OLD.claim, NEW.claim, OLD.attempt, NEW.attempt);
  RETURN NEW;
END $$;
CREATE TRIGGER record_change BEFORE UPDATE ON jobs FOR EACH ROW
WHEN ((OLD.status, OLD.claim, OLD.attempt) IS DISTINCT FROM (NEW.status, NEW.claim, NEW.attempt))
EXECUTE FUNCTION record_change();
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


class JobHistory(NamedTuple):
    """The records of a job. Attempts are (claim, attempt, status)."""

    steps: list[Step]
    attempts: list[tuple[int, int, str]]
    events: list[str]
    event_ids: list[UUID]
    erased: bool


async def install_history(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(SCHEMA)


async def read(database: Database, jobs: Sequence[UUID]) -> dict[UUID, JobHistory]:
    """Read in one statement of each kind, because tests read after every step."""
    columns = ", ".join(Step._fields)
    steps = await database.fetch(
        f"SELECT job_id, {columns} FROM history WHERE job_id = ANY($1) ORDER BY number",  # noqa: S608 -- field names
        jobs,
    )
    attempts = await database.fetch(
        "SELECT job_id, claim, count, attempt, status FROM ended_attempts WHERE job_id = ANY($1) ORDER BY claim", jobs
    )
    events = await database.fetch("SELECT job_id, id, type, body FROM events WHERE job_id = ANY($1)", jobs)
    erased = await database.fetch("SELECT id FROM jobs WHERE id = ANY($1) AND erased_at IS NOT NULL", jobs)
    found = {job: JobHistory([], [], [], [], job in {record["id"] for record in erased}) for job in jobs}
    for job, before, after, *counts in steps:
        found[job].steps.append(Step(Status(before), Status(after), *counts))
    for job, last, count, attempt, status in attempts:
        found[job].attempts.extend((claim, attempt, status) for claim in range(last - count + 1, last + 1))
    for job, event, kind, body in events:
        check_body(job, kind, body)
        found[job].events.append(kind)
        found[job].event_ids.append(event)
    return found


async def list_completions(database: Database) -> list[BatchBody]:
    found = await database.fetch("SELECT body FROM events WHERE type = 'batch.completed'")
    return [msgspec.json.decode(record["body"], type=BatchBody) for record in found]


def check_findable(state: JobState) -> None:
    """Check that a job that has not ended is claimable, scheduled or leased, for a bounded time."""
    assert (state.status in TERMINAL) == (state.finished_at is not None)
    assert (state.status in RUNNING) == (state.lease_until is not None)
    if state.scheduled_at is not None:
        assert state.status is Status.QUEUED
        assert state.scheduled_at == state.run_at
    if state.status is Status.EXPIRED:
        assert state.started_at is None
        assert state.expires_at is not None
        assert state.expires_at <= state.now
    if state.lease_until is not None:
        assert state.lease_until <= state.now + timedelta(seconds=LEASE)


def check_body(job: UUID, kind: str, body: bytes) -> None:
    decoded = msgspec.json.decode(body)
    status = "processing" if kind == "job.started" else kind.removeprefix("job.")
    assert (decoded["type"], decoded["data"]["status"]) == (kind, status)
    assert decoded["data"]["id"] == ids.encode(ids.Kind.JOB, job)


def check(job: UUID, found: JobHistory, announced: Sequence[WakeUp], *, revived: int, wants_started: bool) -> None:
    """Check that every step was legal, recorded once and announced once. The client retried the job `revived` times."""
    for step in found.steps:
        check_step(step)
    assert sum(step.revives for step in found.steps) == revived, found
    assert found.attempts == [describe_attempt(step) for step in found.steps if step.ends_attempt], found
    starts = [step for step in found.steps if step.after is Status.PROCESSING and wants_started]
    ends = [f"job.{step.after}" for step in found.steps if step.after in TERMINAL]
    events = [] if found.erased else [*ends, *("job.started" for _ in starts)]
    assert Counter(found.events) == Counter(events), found
    assert not (found.erased and found.steps[-1].after not in TERMINAL), found
    messages = [wake_up.message for wake_up in announced]
    wake_ups = Counter(
        event.id for message in messages if isinstance(message, EventsRecorded) for event in message.events
    )
    assert [wake_ups[event] for event in found.event_ids] == [1] * len(found.event_ids), found
    cancels = [step for step in found.steps if step.after is Status.CANCELING]
    assert messages.count(CancelJob(job)) == len(cancels), found


def check_step(step: Step) -> None:
    assert step.after in TRANSITIONS[step.before], step
    claims, attempts = step.claim - step.claim_before, step.attempt - step.attempt_before
    if step.after is Status.PROCESSING:
        assert (claims, attempts) == (1, 1), step
    elif step.revives:
        assert (claims, step.attempt) == (1, 0), step  # so that no claim from before the retry fits
    elif step.after is Status.QUEUED:
        assert (claims, attempts) in {(0, 0), (0, -1)}, step  # the attempt counts, or it was returned
    else:
        assert (claims, attempts) == (0, 0), step


def describe_attempt(step: Step) -> tuple[int, int, str]:
    """Return the record of the attempt that a step ended."""
    if step.after is Status.QUEUED:
        status = "returned" if step.attempt < step.attempt_before else "failed"
    else:
        status = str(step.after)
    return step.claim_before, step.attempt_before, status
