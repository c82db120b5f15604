"""Runs each claimed job on Triton, until its end is recorded or it is back in the queue."""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from opentelemetry.trace import SpanKind

from common import job_spans
from common.job_states import Failure
from common.jobs.job import Job
from common.rabbitmq import topology
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.dispatcher import metrics
from services.dispatcher.attempts.request_reader import RequestReader
from services.dispatcher.attempts.running_job import RunningJob
from services.dispatcher.attempts.suspects import Suspects
from services.dispatcher.failures.failure_policy import classify
from services.dispatcher.failures.retry_policy import Interrupted
from services.dispatcher.models.loads import find_load
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import OutputsNotStored
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.inference import OnResponse, infer
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.request import InferenceRequest
from services.dispatcher.triton.responses import InferenceResult

log = Log("attempts")


class Attempts:
    def __init__(
        self, triton: TritonClient, requests: RequestReader, recorder: ResultRecorder, suspects: Suspects
    ) -> None:
        self._triton = triton
        self._requests = requests
        self._recorder = recorder
        self._suspects = suspects

    async def run(self, running: RunningJob, traceparent: str | None) -> None:
        """Run a claimed job, for which a message with a traceparent came."""
        job = running.job
        with trace_attempt(running, traceparent) as trace:
            if job.wants_started:
                self._recorder.announce_start(job, trace)
            try:
                try:
                    result = await running.step(self._infer(running))
                except InferenceError as error:
                    save = self._note_failure(running, error, trace)
                else:
                    save = self._note_success(running, result, trace)
                await running.step(save)
            except OutputsNotStored as error:
                log.warning("job.outputs_not_stored", **job_log_fields(job), error=error)
                await self._recorder.record_failure(job, error.outcome, running.tell_time(), trace)
            except asyncio.CancelledError:
                if not running.canceling:
                    tracing.record_error(running.span, "interrupted")  # the worker stopped, or its claim was lost
                    raise
                await self._recorder.cancel(job, running.tell_time(), trace)

    async def _infer(self, running: RunningJob) -> InferenceResult:
        """Read the inputs, then infer. Raises InferenceError."""
        job, model = running.job, running.model
        async with self._suspects.run_alone(running):
            declared = model.describe(job.version)
            if declared is None:
                text = f"model '{model.name}' has no version {job.version}"
                raise InferenceError(Failure("model_not_found", text, False))
            request = await self._requests.read(running, declared)
            with self._suspects.watch(running), metrics.inference_seconds.labels(model.name).time():
                if not declared.decoupled:
                    return await self._infer_once(model, request, declared)
                async with self._recorder.stream(job) as stream:
                    try:
                        return await self._infer_once(model, request, declared, stream.add)
                    finally:
                        running.slot.release_before_save()  # the last responses may wait for the object store

    async def _infer_once(
        self,
        model: ServedModel,
        request: InferenceRequest,
        declared: ModelVersion,
        on_response: OnResponse | None = None,
    ) -> InferenceResult:
        """Infer, and note which load of the model made the result. Raises InferenceError."""
        before = dict(model.loads)
        with model.inferences.run() as note_success:
            result = await infer(self._triton, request, declared, on_response)
            note_success(result.version)
        return result._replace(load_id=find_load(before, model.loads, result.version))

    def _note_success(self, running: RunningJob, result: InferenceResult, trace: str) -> Coroutine[Any, Any, None]:
        """Return how to record a result, after the model has adapted to it."""
        seconds = time.monotonic() - running.began
        running.model.note_success(seconds)
        running.slot.release_before_save()
        return self._recorder.succeed(running.job, result, running.tell_time(), seconds * 1000, trace)

    def _note_failure(self, running: RunningJob, error: InferenceError, trace: str) -> Coroutine[Any, Any, None]:
        """Return how to record a failure, after the model has reacted to it."""
        metrics.inference_errors.labels(running.model.name, error.failure.code).inc()
        outcome = classify(running.model, error, running.job.id, time.monotonic() - running.began)
        if isinstance(outcome, Interrupted) and self._suspects.note_interruption(running):
            outcome = msgspec.structs.replace(outcome, doubtful=True)
        return self._recorder.record_failure(running.job, outcome, running.tell_time(), trace)


@contextmanager
def trace_attempt(running: RunningJob, traceparent: str | None) -> Iterator[str]:
    """Give a job its span, and return the traceparent of that."""
    job = running.job
    context, links = tracing.continue_trace(job.traceparent, traceparent)
    job_spans.record_queue_time(job, context)
    attributes = partial(span_attributes, job)
    with tracing.start_span(f"process jobs.{job.model}", context, SpanKind.CONSUMER, attributes, links) as span:
        running.span = span
        yield tracing.to_traceparent(span)


def span_attributes(row: Job) -> dict[str, str | int]:
    """Return the attributes of a job's consumer span."""
    return {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": topology.job_queue(row.model, row.priority),
        **job_spans.job_attributes(row),
    }
