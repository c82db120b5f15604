"""Records the result of an attempt: the job's end with its event, or its return to the queue."""

import random
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import assert_never

import msgspec
from opentelemetry.trace import get_current_span

from common import ids, job_spans
from common.event_types import number_event
from common.job_states import Failure, Status
from common.jobs.end import JobEnd
from common.jobs.job import AnyJob, ClaimedJob, Job, JobToRun, WaitingJob
from common.jobs.new_event import NewEvent
from common.jobs.requeue import Requeue
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.job import JobUrls, job_log_fields, render_event
from services.dispatcher import metrics
from services.dispatcher.failures import retry_policy
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.results.output_locations import OutputLocations
from services.dispatcher.results.result_writer import ResultWriter
from services.dispatcher.results.store import AttemptStart, Step
from services.dispatcher.results.stream_recorder import StreamRecorder
from services.dispatcher.triton.model_usage import ModelUsage
from services.dispatcher.triton.responses import InferenceResult
from services.dispatcher.triton.tensors import OutputFile

log = Log("job")


class ResultRecorder:
    """`at` is the database's time of an event, and `trace` the traceparent of the attempt's span."""

    def __init__(self, writer: ResultWriter, files: OutputFiles, locations: OutputLocations, urls: JobUrls) -> None:
        self._writer = writer
        self._files = files
        self._locations = locations
        self._urls = urls

    def announce_start(self, job: JobToRun, trace: str) -> None:
        """Record `job.started` while the inference runs."""
        event = self._make_event(job, job.claim, "job.started", job.started_at, None, trace)
        small = msgspec.structs.replace(job, tensors=b"")  # in an outage it outlives the job's place in memory
        self._writer.announce_start(AttemptStart(small, event))

    def stream(self, job: JobToRun) -> StreamRecorder:
        return StreamRecorder(job, partial(self._add_steps, job))

    async def _add_steps(self, job: JobToRun, steps: list[Step]) -> bool:
        await self._save_files(job, [file for step in steps for file in step.files])
        return await self._writer.add_steps(steps)

    async def _save_files(self, job: JobToRun, files: Sequence[OutputFile]) -> None:
        if job.output_folder is None:
            await self._files.save(job.tenant_id, files)
        else:
            await self._locations.save(job.tenant_id, job.output_folder, files)

    async def drain(self, seconds: float) -> None:
        """Wait for announcements of starts."""
        await self._writer.drain(seconds)

    async def succeed(
        self, job: JobToRun, result: InferenceResult, at: datetime, inference_ms: float, trace: str
    ) -> None:
        """Write the outputs that are files, then end the job. Raises NotStored and OutputsNotStored."""
        await self._save_files(job, result.files)
        succeeded = msgspec.structs.replace(job, version=result.version, inference_ms=inference_ms)
        ended = False
        try:
            ended = await self._end(finish(succeeded, Status.SUCCEEDED, at), trace, result)
        finally:
            if not ended:
                self._files.drop(result.files)

    async def record_failure(self, job: ClaimedJob, outcome: retry_policy.Outcome, at: datetime, trace: str) -> None:
        """Record a failed attempt. `retry_policy.decide` says what happens to the job."""
        failure = outcome.failure
        suspected = retry_policy.is_suspected(job.probation, outcome, (at - job.started_at).total_seconds())
        count = retry_policy.count_interruptions(job.interruptions, outcome)
        interruptions = count or 0
        probation = retry_policy.find_probation(interruptions)
        requeue = partial(
            Requeue, id=job.id, claim=job.claim, failure=failure, interruptions=count, probation=probation
        )
        chance = random.random()  # noqa: S311 -- jitter, not a secret
        match retry_policy.decide(job, outcome, chance, suspected=suspected, interruptions=interruptions):
            case retry_policy.GiveBack(delay):
                back = requeue(delay=delay, given_back=True, refused=isinstance(outcome, retry_policy.Refused))
            case retry_policy.Again(delay):
                back = requeue(delay=delay)
            case retry_policy.FallBack(model):
                back = requeue(fallback=model, interruptions=0, probation=None)  # the other model is not suspected
            case retry_policy.Fail():
                await self._end(finish(job, Status.FAILED, at, failure), trace, interruptions=count)
                return
            case never:
                assert_never(never)
        if not await self._requeue(job, back):
            await self.cancel(job, at, trace)

    async def cancel(self, job: ClaimedJob, at: datetime, trace: str) -> None:
        """End a running job whose client canceled it. No effect if the job no longer runs."""
        await self._end(finish(job, Status.CANCELED, at), trace)

    async def expire(self, job: WaitingJob, at: datetime) -> None:
        failure = Failure("expired", "the job did not start within its expires_in", False)
        await self._end_queued(finish(job, Status.EXPIRED, at, failure))

    async def fail_unserved(self, job: WaitingJob, at: datetime) -> None:
        """Fail a queued job whose model has left the catalogue."""
        text = f"no Triton server has served model '{job.model}' for too long; submit the job again later"
        await self._end_queued(finish(job, Status.FAILED, at, Failure("model_unavailable", text, True)))

    async def _end_queued(self, ended: WaitingJob) -> None:
        with job_spans.start_span_at(job_spans.queued_since(ended), "queued", ended) as trace:
            await self._end(ended, trace)

    async def _end(
        self,
        job: ClaimedJob | WaitingJob,
        trace: str,
        result: InferenceResult | None = None,
        *,
        interruptions: int | None = None,
    ) -> bool:
        """End a job that `finish` has returned. Log, trace and return whether its claim was still valid."""
        end = self._build_end(job, trace, result, interruptions)
        fields: dict[str, object] = {**job_log_fields(job), "attempt": job.attempt}
        fields |= {"error": job.error_code} if job.error_code else {}
        ended = await self._writer.end(end)
        if ended:
            job_spans.set_outcome(job.status)
            if end.failure is not None:
                tracing.record_error(get_current_span(), end.failure.code)
            log.info(f"job.{job.status}", **fields)
        else:
            job_spans.set_outcome("too_late")
            metrics.stale_results.inc()
            log.warning("job.result_too_late", **fields)
        return ended

    def _build_end(
        self, job: ClaimedJob | WaitingJob, trace: str, result: InferenceResult | None, interruptions: int | None
    ) -> JobEnd:
        assert job.finished_at is not None, "an ended job has an end"
        outputs = None if result is None else result.outputs
        usage = ModelUsage() if result is None else result.usage
        failure = None
        if job.error_code is not None:
            failure = Failure(job.error_code, job.error_message or "", bool(job.error_retryable))
        return JobEnd(
            id=job.id,
            claim=job.claim,
            was="running" if isinstance(job, ClaimedJob) else "queued",
            model=job.model,
            status=job.status,
            finished_at=job.finished_at,
            event=self._make_event(job, job.claim, f"job.{job.status}", job.finished_at, outputs, trace),
            version=job.version,
            failure=failure,
            inference_ms=job.inference_ms,
            outputs=outputs,
            files=[] if result is None else [file.id for file in result.files if file.location is None],
            interruptions=interruptions,
            raw_outputs=None if result is None else result.tensors,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            finish_reason=usage.finish_reason,
            load_id=None if result is None else result.load_id,
            parent=job.parent,
            step=job.step,
            step_index=job.step_index,
            reuse=job.reuse,
        )

    async def _requeue(self, job: ClaimedJob, requeue: Requeue) -> bool:
        """Return whether the job was queued again: not if its claim is lost, or a cancel was requested."""
        done = await self._writer.requeue(msgspec.structs.replace(requeue, reuse=job.reuse))
        if done:
            metrics.attempts.labels(job.model, "returned" if requeue.given_back else "failed").inc()
        tracing.record_error(get_current_span(), requeue.failure.code)
        job_spans.set_outcome(name_outcome(requeue) if done else "too_late")
        log.info(
            "job.requeued" if done else "job.requeue_too_late",
            **job_log_fields(job),
            attempt=job.attempt,
            error=requeue.failure.code,
            delay=round(requeue.delay, 3),
            given_back=requeue.given_back,
            fallback=requeue.fallback,
        )
        return done

    def _make_event(self, job: Job, claim: int, kind: str, at: datetime, outputs: bytes | None, trace: str) -> NewEvent:
        event_id, sequence = ids.new(), number_event(kind, claim)
        body = render_event(job, self._urls, kind, at, outputs, sequence=sequence)
        return NewEvent(event_id, kind, sequence, body, trace)


def finish(job: AnyJob, status: Status, at: datetime, failure: Failure | None = None) -> AnyJob:
    """Return a job as it is once it has ended. Without a failure, the error of an earlier attempt is dropped."""
    if failure is None:
        return msgspec.structs.replace(job, status=status, finished_at=at, error_code=None)
    return msgspec.structs.replace(
        job,
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
