"""Submits jobs: parses and validates a request, commits the job, then announces it to the dispatchers."""

from typing import NamedTuple, assert_never

import msgspec
from prometheus_client import Counter

from common.job_states import Status
from common.jobs.input_files import LargeInputsLost
from common.jobs.job import Job
from common.jobs.new_job import JobFile, NewJob
from common.jobs.submit import JobTimes, submit_jobs
from common.postgres.batcher import Batcher
from common.postgres.database import Database, statement_span
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.reuse.decisions import Decision
from common.security.ssrf import AddressPolicy
from common.telemetry.metrics import PIPELINES
from services.gateway.auth.model_permissions import select_models
from services.gateway.auth.store import Key
from services.gateway.http.limits.body_limits import BodyLease
from services.gateway.http.problems import Problem
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.idempotency.keys import IdempotencyKeys, check_same_request, in_progress
from services.gateway.jobs.idempotency.repeated_request import parse_replay
from services.gateway.jobs.idempotency.store import KeyRecord, RequestKey, TenantKey
from services.gateway.jobs.inputs.files import file_gone, inputs_lost
from services.gateway.jobs.inputs.large_input_writer import LargeInputWriter
from services.gateway.jobs.lookups import Lookups
from services.gateway.jobs.parse import SubmitContext, parse_job
from services.gateway.jobs.queue_limits.limits import QueueLimits
from services.gateway.jobs.reuse.sharing import Plan, Sharing
from services.gateway.jobs.runs.parse import mark_run
from services.gateway.jobs.runs.submit import RunSubmitter
from services.gateway.models.catalogue import Catalogue

jobs_submitted = Counter(
    "charonia_jobs_submitted",
    "Jobs accepted, with those that take a result at once. The model of all runs of pipelines is `/pipelines`. Jobs of "
    "steps do not count.",
    ["model", "priority"],
)

Added = JobTimes | KeyRecord | Problem | None


class SubmittedJob(NamedTuple):
    """A job, whether it has its own webhook, and whether an earlier request with the same key submitted it.

    A job may have ended with the result of another one. `outputs` is that as JSON, unless it has to be read.
    """

    row: Job
    has_webhook: bool
    replayed: bool
    outputs: bytes | None = None


class Submitter:
    """Submits single jobs. Concurrent jobs share one statement."""

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        wake_ups: WakeUpPublisher,
        policy: AddressPolicy,
        limits: QueueLimits,
        idempotency_keys: IdempotencyKeys,
        workers: Workers,
        lookups: Lookups,
        large_inputs: LargeInputWriter,
        runs: RunSubmitter,
        sharing: Sharing,
    ) -> None:
        self.lookups = lookups
        self.large_inputs = large_inputs
        self.limits = limits
        self.idempotency_keys = idempotency_keys
        self._catalogue = catalogue
        self._wake_ups = wake_ups
        self._policy = policy
        self.workers = workers
        self._database = database
        self._runs = runs
        self._sharing = sharing
        self._batcher: Batcher[NewJob, Added] = Batcher(
            self._add_many, name="submits", size_of=lambda job: len(job.tensors)
        )
        self._batcher_with_files: Batcher[NewJob, Added] = Batcher(
            self._add_many, name="submits with files", size_of=lambda job: len(job.tensors)
        )

    async def _add_many(self, jobs: list[NewJob]) -> list[Added]:
        """Add jobs, and announce those that are due.

        Return the times of each new job, the record of its key, or why it was refused. None is a job whose key belongs
        to a job deleted meanwhile.
        """
        times, gone = await submit_jobs(self._database, jobs)
        due = [job for job in jobs if (at := times.get(job.id)) and at.run_at <= at.created_at]
        self._wake_ups.announce([job.wake_up for job in due if job.reuse_key is None])
        records: dict[TenantKey, KeyRecord] = {}
        if used := [
            (job.tenant_id, job.idempotency_key) for job in jobs if job.idempotency_key and job.id not in times
        ]:
            records = await self.idempotency_keys.store.find_records(used)
        return [
            times.get(job.id)
            or records.get((job.tenant_id, job.idempotency_key or ""))
            or (file_gone(gone[job.id]) if job.id in gone else None)
            for job in jobs
        ]

    async def make_context(self, key: Key, traceparent: str, request_key: RequestKey | None = None) -> SubmitContext:
        """Return what a request of this key is validated with."""
        models = select_models(key.models, await self._catalogue.read())
        return SubmitContext(
            key.tenant_id,
            traceparent,
            models,
            self._policy,
            request_key,
            key.models,
            max_inline=self.large_inputs.max_inline,
            max_tensor=self.lookups.files.max_tensor,
            input_policy=self.lookups.files.policy,
        )

    async def parse(self, body: bytes | str, context: SubmitContext) -> NewJob:
        """Return the valid job of a body. Raises Problem (400, 403, 404, 422, 503), and Unavailable."""

        async def parse(context: SubmitContext) -> NewJob:
            return await self.workers.work(len(body), parse_job, body, context)

        return await self.lookups.parse(parse, context)

    async def submit(self, body: bytes, context: SubmitContext, lease: BodyLease) -> SubmittedJob:
        """Commit the job of a body, or return the job that its idempotency key belongs to.

        Raises Problem (400, 403, 404, 409, 413, 422, 429, 503) before anything is written, and Unavailable.
        """
        key = context.request_key
        if key is not None and (first := await self.idempotency_keys.find(context.tenant_id, key.key)):
            check_same_request(first, key.fingerprint, is_batch=False)
            return replay(first, await self.workers.work(len(body), parse_replay, body, context))
        return await self.submit_job(await self.parse(body, context), lease)

    async def submit_job(self, job: NewJob, lease: BodyLease) -> SubmittedJob:
        """Commit the job. Raises as `submit` does."""
        lease.ensure(job.held_bytes)  # packed, `[1,1]` is 16 bytes of FP64
        plan = None if job.reuse_key is None else await self._sharing.plan(job)
        if plan is not None and plan.decision is Decision.HIT:  # what ends at once takes no room in the queue
            await self.limits.check_open(job.tenant_id)
        else:
            await self.limits.admit(job.tenant_id, job.model, size=job.input_bytes)
        if not job.large_inputs:
            return await self._add_planned(job, plan)
        async with self.large_inputs.written([job]) as (written,):
            return await self._add_planned(written, plan)

    async def _add_planned(self, job: NewJob, plan: Plan | None) -> SubmittedJob:
        """Add a job that may share something."""
        try:
            if plan is None:
                return self._show(job, await self._add(job))
            if plan.decision is Decision.HIT:
                hit, plan = await self._sharing.take(job, plan)
                if hit is not None:
                    return SubmittedJob(hit.row, job.callback_url is not None, replayed=False, outputs=hit.outputs)
                if job.idempotency_key is not None and (first := await self._find_record(job)) is not None:
                    return self._show(job, first)
                await self.limits.admit(job.tenant_id, job.model, size=job.input_bytes)
            return self._show(job, await self._add_sharing(job, plan))
        except LargeInputsLost as error:
            raise inputs_lost() from error

    async def _add_sharing(self, job: NewJob, plan: Plan) -> Added:
        """Add a job that leads or waits. One with files is added as one that waits: its transaction is long."""
        if job.files or job.large_inputs:
            added = await self._add(job)
            if isinstance(added, JobTimes):
                await self._sharing.settle(job, plan)
            return added
        with statement_span("INSERT", "jobs"):
            shared = await self._sharing.add(job, plan)
        return await self._find_record(job) if shared is None else shared.times

    async def _add(self, job: NewJob) -> Added:
        batcher = self._batcher_with_files if job.files or job.large_inputs else self._batcher
        with statement_span("INSERT", "jobs"):
            return await self._add_run(job) if job.is_run else await batcher.submit(job)

    def _show(self, job: NewJob, added: Added) -> SubmittedJob:
        match added:
            case Problem() as refusal:
                raise refusal
            case JobTimes() as times:
                return SubmittedJob(to_row(job, times), job.callback_url is not None, replayed=False)
            case KeyRecord() as first:  # another request with this key was faster
                return replay(first, job)
            case None:
                raise in_progress()
            case never:
                assert_never(never)

    async def _add_run(self, run: NewJob) -> Added:
        """Add a run. Return as `_add_many` does for a job."""
        added = await self._runs.add(run)
        if isinstance(added, JobFile):
            return file_gone(added)
        return added if added is not None else await self._find_record(run)

    async def _find_record(self, job: NewJob) -> KeyRecord | None:
        key = (job.tenant_id, job.idempotency_key or "")
        return (await self.idempotency_keys.store.find_records([key])).get(key)


def replay(first: KeyRecord, job: NewJob) -> SubmittedJob:
    """Return the job of the first response. Raises Problem (422) if the key belongs to another request."""
    check_same_request(first, job.fingerprint or b"", is_batch=False)
    assert first.run_at is not None, "the database holds it"
    job = msgspec.structs.replace(job, id=first.id, traceparent=first.traceparent)
    if first.run_version is not None:
        job = mark_run(job, first.run_version)
    if first.erased:
        job = msgspec.structs.replace(job, metadata=None)
    row = to_row(job, JobTimes(first.created_at, first.run_at, first.expires_at))
    if first.has_ended:
        row = msgspec.structs.replace(row, status=Status.SUCCEEDED, finished_at=first.created_at)
    return SubmittedJob(row, job.callback_url is not None, replayed=True)


def count_submitted(job: NewJob | Job) -> None:
    jobs_submitted.labels(PIPELINES if job.is_run else job.model, job.priority).inc()


def to_row(job: NewJob, times: JobTimes) -> Job:
    """Return the row of a job that was just added."""
    return Job(
        id=job.id,
        tenant_id=job.tenant_id,
        model=job.model,
        version=job.version,
        priority=job.priority,
        status=Status.QUEUED,
        attempt=0,
        max_attempts=job.max_attempts,
        created_at=times.created_at,
        run_at=times.run_at,
        started_at=None,
        finished_at=None,
        expires_at=times.expires_at,
        error_code=None,
        error_message=None,
        error_retryable=None,
        inference_ms=None,
        traceparent=job.traceparent,
        metadata=job.metadata,
        run_state=job.run_state,
        reuse_key=job.reuse_key,
    )
