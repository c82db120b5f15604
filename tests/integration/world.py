"""Clients, dispatchers and time as they act on jobs in a real database: by the services' own code, in any order.

There is no broker: messages stay in the outbox.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, assert_never
from uuid import UUID

from common import messages, topology
from common.bell import Bell
from common.broker import Publisher
from common.database import Database
from common.job_view import Links
from common.jobs import Failure, Status
from common.messages import JobQueued
from common.outbox import Outbox
from common.tensors import Datatype, Signature
from services.dispatcher import retry
from services.dispatcher.inference import Answer
from services.dispatcher.record import Recorder
from services.dispatcher.run import tell_time
from services.dispatcher.store import ClaimedJob, Store
from services.dispatcher.sweep import Grace, Sweeper
from services.dispatcher.triton import Model
from services.gateway.catalogue import Catalogue
from services.gateway.control import REPLAYABLE, RETRYABLE, Control
from services.gateway.errors import Problem
from services.gateway.store import Store as GatewayStore
from tests.integration.jobs import LEASE, TRACEPARENT, TRANSIENT, new_requeue, take

PERMANENT = Failure("invalid_input", "never", False)
MODELS = {"echo": "x", "small": "x", "other": "z"}  # with their inputs: `other` does not take what jobs have
PASS = """
UPDATE jobs
SET created_at = created_at - $1::interval, run_at = run_at - $1::interval, ring_at = ring_at - $1::interval,
    started_at = started_at - $1::interval, finished_at = finished_at - $1::interval,
    expires_at = expires_at - $1::interval, lease_until = lease_until - $1::interval
"""
RIGHTS = """
SELECT model, priority, count(*) AS count FROM unnest($1::uuid[]) rung(id) JOIN jobs USING (id) GROUP BY model, priority
"""

Deed = Literal["succeed", "fail", "refuse", "interrupt", "crowd", "cancel", "hand back", "renew"]
# What a deed may make of a job whose claim is held; each leaves the job as it is where it comes too late.
PROCESSING, CANCELING, QUEUED = Status.PROCESSING, Status.CANCELING, Status.QUEUED
SETTLED = {PROCESSING: {QUEUED, Status.FAILED}, CANCELING: {Status.CANCELED, Status.FAILED}}
OUTCOMES: dict[Deed, dict[Status, set[Status]]] = {
    "succeed": {PROCESSING: {Status.SUCCEEDED}, CANCELING: {Status.SUCCEEDED}},
    "fail": SETTLED,
    "refuse": SETTLED,
    "interrupt": SETTLED,
    "crowd": {PROCESSING: {QUEUED}, CANCELING: {Status.CANCELED}},
    "cancel": {PROCESSING: {PROCESSING}, CANCELING: {Status.CANCELED}},
    "hand back": {PROCESSING: {QUEUED}, CANCELING: {CANCELING}},
    "renew": {PROCESSING: {PROCESSING}, CANCELING: {CANCELING}},
}


class LateStore(Store):
    """Of a sweeper that freezes between its look and its deed: it finds what was there when it looked before."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.expired: list[tuple[ClaimedJob, datetime]] = []
        self.abandoned: list[tuple[ClaimedJob, datetime]] = []

    async def find_expired(self, limit: int) -> list[tuple[ClaimedJob, datetime]]:
        found, self.expired = self.expired, await super().find_expired(limit)
        return found

    async def find_abandoned(self, limit: int) -> list[tuple[ClaimedJob, datetime]]:
        found, self.abandoned = self.abandoned, await super().find_abandoned(limit)
        return found


class World:
    def __init__(self, database: Database, tenant: UUID) -> None:
        self.database = database
        self.tenant = tenant
        publisher = Publisher("amqp://127.0.0.1:1/", "tests")
        outbox, bell = Outbox(database, publisher), Bell(publisher)
        self.store = Store(database)
        self.recorder = Recorder(self.store, outbox, bell, Links())
        impatient = Grace(0.0, float("inf"))  # time passes in the rows only
        self.sweeper = Sweeper(self.store, self.recorder, outbox, impatient, 1.0)
        self.late_sweeper = Sweeper(LateStore(database), self.recorder, outbox, impatient, 1.0)
        self.control = Control(database, Catalogue(GatewayStore(database)), outbox, bell, Links())

    async def begin(self) -> None:
        """Nothing but the models is there."""
        await self.database.fetch("DELETE FROM jobs")
        await self.database.fetch("DELETE FROM outbox")
        models = [
            Model(name, "1", False, 0, 1, [Signature(given, Datatype.FP32, [-1, -1])], [])
            for name, given in MODELS.items()
        ]
        await self.store.save_models([(model, True) for model in models])

    async def pass_time(self, seconds: float) -> None:
        await self.database.fetch(PASS, timedelta(seconds=seconds))

    async def claim(self, jobs: Sequence[UUID]) -> list[ClaimedJob]:
        """What a doorbell for each of these jobs gets."""
        rung = await self.database.fetch(RIGHTS, jobs)
        claimed = [job for each in rung for job in await take(self.database, **dict(each))]
        for job in claimed:
            if job.wants_started:
                self.recorder.announce_start(job, TRACEPARENT)
        await self.recorder.drain(10)
        return claimed

    async def act(self, job: ClaimedJob, deed: Deed) -> None:
        """What a dispatcher does that believes to hold the job."""
        at = tell_time(job, 1.0)
        match deed:
            case "succeed":
                await self.recorder.succeed(job, Answer("1", b"[]"), at, 5.0, TRACEPARENT)
            case "fail":
                await self.recorder.settle(job, retry.Attempted(TRANSIENT), at, TRACEPARENT)
            case "refuse":
                await self.recorder.settle(job, retry.Attempted(PERMANENT), at, TRACEPARENT)
            case "interrupt":
                await self.recorder.settle(job, retry.Interrupted(TRANSIENT), at, TRACEPARENT)
            case "crowd":
                await self.recorder.settle(job, retry.Refused(TRANSIENT), at, TRACEPARENT)
            case "cancel":
                await self.recorder.cancel(job, at, TRACEPARENT)
            case "hand back":
                await self.store.requeue_jobs([new_requeue(job, given_back=True)])
            case "renew":
                await self.store.renew_leases([(job.row.id, job.claim)], LEASE)
            case never:
                assert_never(never)

    async def cancel(self, job: UUID) -> Status | None:
        """The client's; the job's state then, None for a conflict."""
        try:
            return (await self.control.cancel(self.tenant, job)).status
        except Problem:
            return None

    async def retry(self, job: UUID, model: str | None = None) -> set[UUID]:
        """The client's; those that begin anew."""
        return await self.control.revive(self.tenant, [job], RETRYABLE, model)

    async def replay(self, jobs: Sequence[UUID], model: str | None = None) -> set[UUID]:
        """Of dead letters; those that begin anew."""
        return await self.control.revive(self.tenant, jobs, REPLAYABLE, model)

    async def sweep(self, *, late: bool = False) -> None:
        await (self.late_sweeper if late else self.sweeper).sweep()

    async def show(self, job: UUID) -> str:
        """All of its row."""
        row = await self.database.fetch_one("SELECT jobs::text AS row FROM jobs WHERE id = $1", job)
        assert row is not None
        return str(row["row"])

    async def take_doorbells(self) -> list[UUID]:
        """Takes the jobs that were rung for out of the outbox."""
        taken = await self.database.fetch("DELETE FROM outbox WHERE exchange = $1 RETURNING body", topology.JOBS)
        rung = [messages.decode(each["body"]) for each in taken]
        return [message.job_id for message in rung if isinstance(message, JobQueued)]

    async def answer_doorbells(self) -> list[ClaimedJob]:
        return await self.claim(await self.take_doorbells())
