"""Clients, dispatchers and time, which act on jobs in a real database with the code of the services.

There is no broker: wake-ups are recorded.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Literal, assert_never
from uuid import UUID

import asyncpg

from common import ids
from common.job_states import Failure, Priority, Status
from common.jobs.job import JobToRun
from common.jobs.renew import renew_leases
from common.jobs.requeue import requeue_jobs
from common.postgres.database import TRANSACTION_SECONDS, Connection, Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.messages import QueuedJob
from common.rabbitmq.publisher import Publisher
from common.tensors import Datatype, Signature
from services.dispatcher.failures import retry_policy
from services.dispatcher.maintenance.batches.batch_completer import BatchCompleter
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases, LeaseGrace
from services.dispatcher.maintenance.reconciler.reconciler import find_silent, list_wake_ups
from services.dispatcher.maintenance.reconciler.store import find_waiting_queues
from services.dispatcher.maintenance.rescuer import Rescuer
from services.dispatcher.maintenance.sweeper import Sweeper
from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.responses import InferenceResult
from services.gateway.auth.store import Key
from services.gateway.batches.store import BatchStore, NewBatch
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.jobs.actions.retry import REPLAYABLE, RETRYABLE
from tests.integration.job_actions import new_canceler, new_retrier
from tests.integration.jobs import LEASE, TRACEPARENT, TRANSIENT, new_job, new_requeue, take
from tests.integration.stores import Stores
from tests.support.recorded_wake_ups import Queue, RecordedWakeUps, read_jobs
from tests.support.result_recorder import make_recorder

PERMANENT = Failure("invalid_input", "never", False)
MODELS = {"echo": "x", "small": "x", "other": "z"}  # with their inputs; `other` refuses the inputs of the jobs
PASS_TIME = """
UPDATE jobs
SET created_at = created_at - $1::interval, run_at = run_at - $1::interval,
    scheduled_at = scheduled_at - $1::interval,
    started_at = started_at - $1::interval, finished_at = finished_at - $1::interval,
    expires_at = expires_at - $1::interval, lease_until = lease_until - $1::interval
"""
WAKE_UP_COUNTS = """
SELECT model, priority, count(*) AS count
FROM unnest($1::uuid[]) woken(id)
JOIN jobs USING (id)
GROUP BY model, priority
"""

Action = Literal["succeed", "fail", "refuse", "interrupt", "crowd", "cancel", "hand back", "renew"]
# The states that an action can lead to while the claim is held. An action that comes too late changes nothing.
PROCESSING, CANCELING, QUEUED = Status.PROCESSING, Status.CANCELING, Status.QUEUED
ENDED_ATTEMPT = {PROCESSING: {QUEUED, Status.FAILED}, CANCELING: {Status.CANCELED, Status.FAILED}}
OUTCOMES: dict[Action, dict[Status, set[Status]]] = {
    "succeed": {PROCESSING: {Status.SUCCEEDED}, CANCELING: {Status.SUCCEEDED}},
    "fail": ENDED_ATTEMPT,
    "refuse": ENDED_ATTEMPT,
    "interrupt": ENDED_ATTEMPT,
    "crowd": {PROCESSING: {QUEUED}, CANCELING: {Status.CANCELED}},
    "cancel": {PROCESSING: {PROCESSING}, CANCELING: {Status.CANCELED}},
    "hand back": {PROCESSING: {QUEUED}, CANCELING: {CANCELING}},
    "renew": {PROCESSING: {PROCESSING}, CANCELING: {CANCELING}},
}


class SteadyLock(SessionLock):
    """The lock of a sweeper that has run for long."""

    session = 1
    is_steady = True


class SteadyStore(SessionStore):
    async def find_free_sessions(self, own: int) -> set[int]:
        return await super().find_free_sessions(own) - {own}


class LateDatabase(Database):
    """The database of a sweeper that freezes between a search and its writes: it finds what the search before found."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._found: dict[str, list[asyncpg.Record]] = {}

    @asynccontextmanager
    async def transaction(self, seconds: float = TRANSACTION_SECONDS) -> AsyncIterator[Connection]:
        async with self._database.transaction(seconds) as connection:
            yield connection

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        found = await self._database.fetch(query, *values)
        if query.startswith(("-- find_expired\n", "-- find_abandoned\n")):
            found, self._found[query] = self._found.get(query, []), found
        return found


class World:
    def __init__(self, database: Database, tenant: UUID) -> None:
        self.database = database
        self.tenant = tenant
        publisher = Publisher("amqp://127.0.0.1:1/", "tests")
        self.publisher = publisher
        self.wake_ups, self.changes = wake_ups, changes = RecordedWakeUps(), ChangePublisher(publisher)
        self.stores = Stores(database)
        self.recorder = make_recorder(database, self.stores.results, wake_ups, changes)
        no_grace = LeaseGrace(0.0, float("inf"))  # time passes in the rows only
        self.seconds = 0.0
        sessions = SteadyStore(database)
        lost = LostSessions(sessions, SteadyLock(sessions, LEASE), float("inf"), lambda: self.seconds)

        def make_sweeper(database: Database) -> Sweeper:
            rescuer = Rescuer(database, self.recorder, LapsedLeases(database, no_grace, 0.0), lost, sessions)
            return Sweeper(database, self.recorder, wake_ups, no_grace, rescuer, 1.0)

        self.sweeper = make_sweeper(database)
        self.late_sweeper = make_sweeper(LateDatabase(database))
        self.canceler = new_canceler(database, wake_ups, changes)
        self.retrier = new_retrier(database, wake_ups, changes)
        self.eraser = Eraser(database, delivery_wait=0.0)
        self.completer = BatchCompleter(self.stores.batches, wake_ups, changes, "", 1.0)

    async def begin(self) -> None:
        """Delete everything but the models."""
        for table in ("jobs", "batches", "events"):
            await self.database.fetch(f"DELETE FROM {table}")  # noqa: S608 -- names from above
        self.wake_ups.take()
        self.wake_ups.all.clear()
        models = [
            ModelVersion(name, "1", False, 0, 1, [Signature(given, Datatype.FP32, [-1, -1])], [])
            for name, given in MODELS.items()
        ]
        await self.stores.models.save_models([(model, True) for model in models])

    async def submit_batch(self, options: Sequence[Mapping[str, object]]) -> list[UUID]:
        """Submit a job with each of these options, in one batch."""
        batch = NewBatch(ids.new(), self.tenant, len(options), len(options), TRACEPARENT)
        jobs = [new_job(self.tenant, batch_id=batch.id, **each) for each in options]
        assert await BatchStore(self.database).add(batch, jobs) is not None
        return [job.id for job in jobs]

    async def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        await self.database.fetch(PASS_TIME, timedelta(seconds=seconds))

    async def claim(self, jobs: Sequence[UUID], session: int | None = None) -> list[JobToRun]:
        """Claim as a dispatcher does after one wake-up for each job. Nobody holds the lock of the session."""
        counts = await self.database.fetch(WAKE_UP_COUNTS, jobs)
        queues = {(each["model"], Priority(each["priority"])): each["count"] for each in counts}
        return await self._claim(queues, session)

    async def answer(self, wake_ups: Mapping[Queue, Sequence[QueuedJob]], session: int | None = None) -> list[JobToRun]:
        """Claim as a dispatcher does after wake-ups."""
        return await self._claim({queue: len(announced) for queue, announced in wake_ups.items()}, session)

    async def _claim(self, counts: Mapping[Queue, int], session: int | None) -> list[JobToRun]:
        claimed = [
            job
            for (model, priority), count in counts.items()
            for job in await take(self.database, count, model=model, priority=priority, session=session)
        ]
        for job in claimed:
            if job.wants_started:
                self.recorder.announce_start(job, TRACEPARENT)
        await self.recorder.drain(10)
        return claimed

    async def act(self, job: JobToRun, action: Action) -> None:
        """Act as a dispatcher that believes it holds the job."""
        at = job.time_after(1.0)
        match action:
            case "succeed":
                await self.recorder.succeed(job, InferenceResult("1", b"[]"), at, 5.0, TRACEPARENT)
            case "fail":
                await self.recorder.record_failure(job, retry_policy.Attempted(TRANSIENT), at, TRACEPARENT)
            case "refuse":
                await self.recorder.record_failure(job, retry_policy.Attempted(PERMANENT), at, TRACEPARENT)
            case "interrupt":
                await self.recorder.record_failure(job, retry_policy.Interrupted(TRANSIENT), at, TRACEPARENT)
            case "crowd":
                await self.recorder.record_failure(job, retry_policy.Refused(TRANSIENT), at, TRACEPARENT)
            case "cancel":
                await self.recorder.cancel(job, at, TRACEPARENT)
            case "hand back":
                await requeue_jobs(self.database, [new_requeue(job, given_back=True)])
            case "renew":
                await renew_leases(self.database, [(job.id, job.claim)], LEASE)
            case never:
                assert_never(never)

    async def cancel(self, job: UUID) -> Status | None:
        """Cancel as a client. Return the new state, or None for a conflict."""
        try:
            return (await self.canceler.cancel(self.tenant, job)).status
        except Problem:
            return None

    async def retry(self, job: UUID, model: str | None = None) -> set[UUID]:
        """Retry as a client. Return the jobs that are queued again."""
        return await self._retry([job], RETRYABLE, model)

    async def replay(self, jobs: Sequence[UUID], model: str | None = None) -> set[UUID]:
        """Replay dead letters. Return the jobs that are queued again."""
        return await self._retry(jobs, REPLAYABLE, model)

    async def erase(self, job: UUID) -> bool | None:
        """Erase as a client. Return whether the job was erased now, or None for a conflict."""
        try:
            return await self.eraser.erase(self.tenant, job)
        except Problem:
            return None

    async def _retry(self, jobs: Sequence[UUID], statuses: Sequence[Status], model: str | None) -> set[UUID]:
        retried = await self.retrier.retry(Key(ids.new(), self.tenant), jobs, statuses, model)
        self.retrier.announce(retried.wake_ups)
        return set(retried.wake_ups)

    async def sweep(self, *, late: bool = False) -> None:
        """Sweep once, and wait also for the ends that go on beside the next sweeps."""
        sweeper = self.late_sweeper if late else self.sweeper
        await sweeper.sweep()
        await asyncio.gather(*sweeper._ending.values())

    async def show(self, job: UUID) -> str:
        """Return the whole row as text."""
        row = await self.database.fetch_one("SELECT jobs::text AS row FROM jobs WHERE id = $1", job)
        assert row is not None
        return str(row["row"])

    async def find_lost_wake_ups(self) -> dict[Queue, list[QueuedJob]]:
        """Return the jobs of the wake-ups that the reconciler finds missing when the broker has lost all messages."""
        queues = await find_waiting_queues(self.database, 0.0, 100)

        async def count_ready(names: Sequence[str]) -> dict[str, int]:
            return dict.fromkeys(names, 0)

        return read_jobs(list_wake_ups(await find_silent(queues, count_ready)))
