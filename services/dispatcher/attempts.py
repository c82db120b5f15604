"""Runs one attempt of a claimed job: reads its inputs, then infers on Triton."""

import time
from collections.abc import Sequence

import msgspec
from opentelemetry.trace import SpanKind

from common import ids, tensors
from common.job_states import Failure
from common.jobs.job import JobToRun
from common.telemetry import tracing
from common.tensors import Tensor, UrlContent
from services.dispatcher import metrics
from services.dispatcher.inputs.input_reader import InputReader
from services.dispatcher.inputs.references import fit_references
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.running_job import RunningJob
from services.dispatcher.triton.attempt import InferenceRequest, InferenceResult, describe_request, infer
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.url_inputs import FetchedInputs, UrlInputs

NONE = FetchedInputs({}, 0.0)


class Attempts:
    def __init__(
        self,
        triton: TritonClient,
        inputs: InputReader,
        url_inputs: UrlInputs,
        recorder: ResultRecorder,
        max_outputs: int,
        inline_output: int,
    ) -> None:
        """`max_outputs` limits a job's outputs, in bytes of JSON. One over `inline_output` bytes becomes a file."""
        self._triton = triton
        self._inputs = inputs
        self._url_inputs = url_inputs
        self._recorder = recorder
        self._max_outputs = max_outputs
        self._inline_output = inline_output

    async def run(self, model: ServedModel, running: RunningJob) -> InferenceResult:
        """Run one attempt of a claimed job. Raises InferenceError."""
        job = running.job
        declared = model.describe(job.version)
        if declared is None:
            text = f"model '{model.name}' has no version {job.version}"
            raise InferenceError(Failure("model_not_found", text, False))
        request = self._make_request(job)
        references = tensors.list_references(request.tensors)
        if declared.takes_references or references:
            began, inputs = time.monotonic(), fit_references(tensors.unpack(request.tensors), declared.inputs)
            if any(isinstance(each, UrlContent) for each in references):
                async with self._url_inputs.fetch(model, running, inputs) as fetched:
                    request = await self._read_inputs(job, request, inputs, fetched)
            else:
                request = await self._read_inputs(job, request, inputs)
            running.reading_seconds = time.monotonic() - began
        running.note_sent()
        with metrics.inference_seconds.labels(model.name).time():
            if not declared.decoupled:
                return await infer(self._triton, request, declared)
            async with self._recorder.stream(job) as stream:
                try:
                    return await infer(self._triton, request, declared, stream.add)
                finally:
                    running.release_before_save(model)  # the last responses may wait for the object store

    def _make_request(self, job: JobToRun) -> InferenceRequest:
        return InferenceRequest(
            id=ids.encode(ids.Kind.JOB, job.id),
            model=job.model,
            version=job.version,
            tensors=job.tensors,
            parameters=job.parameters,
            timeout=job.timeout,
            max_outputs=self._max_outputs,
            inline=self._inline_output,
            folder=job.output_folder,
        )

    async def _read_inputs(
        self, job: JobToRun, request: InferenceRequest, inputs: Sequence[Tensor], fetched: FetchedInputs = NONE
    ) -> InferenceRequest:
        """Return the request with the contents of its files, or their URLs, and of what was fetched.

        Raises InferenceError.
        """
        began = time.monotonic() - fetched.seconds
        head = describe_request(request, inputs).SerializeToString()
        with tracing.start_span("read inputs", kind=SpanKind.CLIENT):
            left = request.timeout - fetched.seconds
            message = await self._inputs.complete(head, job.tenant_id, inputs, left, fetched.contents)
        return msgspec.structs.replace(request, tensors=b"", message=message, spent=time.monotonic() - began)
