"""Records the result of an attempt: the job's end with its event, or its return to the queue."""

import random
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Literal, assert_never

import msgspec
from opentelemetry.trace import get_current_span

from common import ids, job_spans
from common.jobs import Failure, Status, number_event
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.job import JobRow, JobUrls, job_log_fields, render_event
from services.dispatcher import metrics, retry_policy
from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.results.output_locations import OutputLocations
from services.dispatcher.results.result_writer import ResultWriter
from services.dispatcher.results.store import AttemptStart, JobEnd, NewEvent, Requeue, Step
from services.dispatcher.results.stream_recorder import StreamRecorder
from services.dispatcher.triton.attempt import InferenceResult
from services.dispatcher.triton.tensors import OutputFile

log = Log("job")


class ResultRecorder:
    """`at` is the database's time of an event, and `trace` the traceparent of the attempt's span."""

    def __init__(self, writer: ResultWriter, files: OutputFiles, locations: OutputLocations, urls: JobUrls) -> None:
        self._writer = writer
        self._files = files
        self._locations = locations
        self._urls = urls

    def announce_start(self, job: ClaimedJob, trace: str) -> None:
        """Record `job.started` while the inference runs."""
        event = self._make_event(job.row, job.claim, "job.started", job.started_at, None, trace)
        self._writer.announce_start(AttemptStart(job.row, job.claim, job.started_at, event))

    def stream(self, job: ClaimedJob) -> StreamRecorder:
        return StreamRecorder(job, partial(self._add_steps, job))

    async def _add_steps(self, job: ClaimedJob, steps: list[Step]) -> bool:
        await self._save_files(job, [file for step in steps for file in step.files])
        return await self._writer.add_steps(steps)

    async def _save_files(self, job: ClaimedJob, files: Sequence[OutputFile]) -> None:
        if job.output_folder is None:
            await self._files.save(job.row.tenant_id, files)
        else:
            await self._locations.save(job.row.tenant_id, job.output_folder, files)

    async def drain(self, seconds: float) -> None:
        """Wait for announcements of starts."""
        await self._writer.drain(seconds)

    async def succeed(
        self, job: ClaimedJob, result: InferenceResult, at: datetime, inference_ms: float, trace: str
    ) -> None:
        """Write the outputs that are files, then end the job. Raises NotStored and OutputsNotStored."""
        await self._save_files(job, result.files)
        row = msgspec.structs.replace(job.row, version=result.version, inference_ms=inference_ms)
        ended = False
        try:
            ended = await self._end(job, finish(row, Status.SUCCEEDED, at), trace, result=result)
        finally:
            if not ended:
                self._files.drop(result.files)

    async def record_failure(self, job: ClaimedJob, outcome: retry_policy.Outcome, at: datetime, trace: str) -> None:
        """Record a failed attempt. `retry_policy.decide` says what happens to the job."""
        row, failure = job.row, outcome.failure
        suspected = retry_policy.is_suspected(job.probation, outcome, (at - job.started_at).total_seconds())
        count = retry_policy.count_interruptions(job.interruptions, outcome)
        policy = retry_policy.Policy(
            *(row.attempt, row.max_attempts, suspected, job.initial_delay, job.max_delay, job.fallback_model),
            interruptions=count or 0,
        )
        probation = retry_policy.find_probation(count or 0)
        requeue = partial(
            Requeue, id=row.id, claim=job.claim, failure=failure, interruptions=count, probation=probation
        )
        match retry_policy.decide(policy, outcome, random.random()):  # noqa: S311 -- jitter, not a secret
            case retry_policy.GiveBack(delay):
                back = requeue(delay=delay, given_back=True, refused=isinstance(outcome, retry_policy.Refused))
            case retry_policy.Again(delay):
                back = requeue(delay=delay)
            case retry_policy.FallBack(model):
                back = requeue(fallback=model, interruptions=0, probation=None)  # the other model is not suspected
            case retry_policy.Fail():
                await self._end(job, finish(row, Status.FAILED, at, failure), trace, interruptions=count)
                return
            case never:
                assert_never(never)
        if not await self._requeue(job, back):
            await self.cancel(job, at, trace)

    async def cancel(self, job: ClaimedJob, at: datetime, trace: str) -> None:
        """End a running job whose client canceled it. No effect if the job no longer runs."""
        await self._end(job, finish(job.row, Status.CANCELED, at), trace)

    async def expire(self, job: ClaimedJob, at: datetime) -> None:
        failure = Failure("expired", "the job did not start within its expires_in", False)
        await self._end_queued(job, finish(job.row, Status.EXPIRED, at, failure))

    async def fail_unserved(self, job: ClaimedJob, at: datetime) -> None:
        """Fail a queued job whose model has left the catalogue."""
        text = f"no Triton server has served model '{job.row.model}' for too long; submit the job again later"
        await self._end_queued(job, finish(job.row, Status.FAILED, at, Failure("model_unavailable", text, True)))

    async def _end_queued(self, job: ClaimedJob, row: JobRow) -> None:
        with job_spans.start_span_at(job_spans.queued_since(job.row), "queued", job.row) as trace:
            await self._end(job, row, trace, was="queued")

    async def _end(
        self,
        job: ClaimedJob,
        row: JobRow,
        trace: str,
        *,
        was: Literal["running", "queued"] = "running",
        result: InferenceResult | None = None,
        interruptions: int | None = None,
    ) -> bool:
        """End a job in the state of `row`. Log, trace and return whether its claim was still valid."""
        end = msgspec.structs.replace(self._build_end(job, row, trace, was, result), interruptions=interruptions)
        fields: dict[str, object] = {**job_log_fields(row), "attempt": row.attempt}
        fields |= {"error": row.error_code} if row.error_code else {}
        ended = await self._writer.end(end)
        if ended:
            job_spans.set_outcome(row.status)
            if end.failure is not None:
                tracing.record_error(get_current_span(), end.failure.code)
            log.info(f"job.{row.status}", **fields)
        else:
            job_spans.set_outcome("too_late")
            metrics.stale_results.inc()
            log.warning("job.result_too_late", **fields)
        return ended

    def _build_end(
        self,
        job: ClaimedJob,
        row: JobRow,
        trace: str,
        was: Literal["running", "queued"],
        result: InferenceResult | None,
    ) -> JobEnd:
        assert row.finished_at is not None, "an ended job has an end"
        outputs = None if result is None else result.outputs
        failure = None
        if row.error_code is not None:
            failure = Failure(row.error_code, row.error_message or "", bool(row.error_retryable))
        return JobEnd(
            id=row.id,
            claim=job.claim,
            was=was,
            model=row.model,
            status=row.status,
            finished_at=row.finished_at,
            event=self._make_event(row, job.claim, f"job.{row.status}", row.finished_at, outputs, trace),
            version=row.version,
            failure=failure,
            inference_ms=row.inference_ms,
            outputs=outputs,
            files=[] if result is None else [file.id for file in result.files if file.location is None],
        )

    async def _requeue(self, job: ClaimedJob, requeue: Requeue) -> bool:
        """Return whether the job was queued again: not if its claim is lost, or a cancel was requested."""
        done = await self._writer.requeue(requeue)
        if done:
            metrics.attempts.labels(job.row.model, "returned" if requeue.given_back else "failed").inc()
        tracing.record_error(get_current_span(), requeue.failure.code)
        job_spans.set_outcome(name_outcome(requeue) if done else "too_late")
        log.info(
            "job.requeued" if done else "job.requeue_too_late",
            **job_log_fields(job.row),
            attempt=job.row.attempt,
            error=requeue.failure.code,
            delay=round(requeue.delay, 3),
            given_back=requeue.given_back,
            fallback=requeue.fallback,
        )
        return done

    def _make_event(
        self, row: JobRow, claim: int, kind: str, at: datetime, outputs: bytes | None, trace: str
    ) -> NewEvent:
        event_id, sequence = ids.new(), number_event(kind, claim)
        body = render_event(row, self._urls, kind, at, outputs, sequence=sequence)
        return NewEvent(event_id, kind, sequence, body, trace)


def finish(row: JobRow, status: Status, at: datetime, failure: Failure | None = None) -> JobRow:
    """Return the row of an ended job. Without a failure, the error of an earlier attempt is dropped."""
    if failure is None:
        return msgspec.structs.replace(row, status=status, finished_at=at, error_code=None)
    return msgspec.structs.replace(
        row,
        status=status,
        finished_at=at,
        error_code=failure.code,
        error_message=failure.message,
        error_retryable=failure.retryable,
    )


def name_outcome(requeue: Requeue) -> str:
    if requeue.given_back:
        return "given_back"
    return "retried" if requeue.fallback is None else "fell_back"
