"""Makes the requests of jobs for Triton, with the inputs that are in files and at URLs."""

import time
from collections.abc import Sequence

import msgspec
from opentelemetry.trace import SpanKind

from common import ids, tensors
from common.job_states import Failure
from common.jobs.job import JobToRun
from common.telemetry import tracing
from common.tensors import Tensor, UrlContent
from services.dispatcher.attempts.running_job import RunningJob
from services.dispatcher.attempts.url_inputs import FetchedInputs, UrlInputs
from services.dispatcher.inputs.input_reader import InputReader
from services.dispatcher.inputs.references import fit_references
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.request import InferenceRequest, describe_request

NONE = FetchedInputs({}, 0.0)
NEWER_FORMAT_SECONDS = 5.0  # before another dispatcher may take the job
NEWER_FORMAT = Failure(
    "newer_format", "a later release stored the inputs, and the job waits for a dispatcher of that release", True
)


class RequestReader:
    def __init__(self, inputs: InputReader, url_inputs: UrlInputs, max_outputs: int, inline_output: int) -> None:
        """`max_outputs` limits a job's outputs, in bytes of JSON. One over `inline_output` bytes becomes a file."""
        self._inputs = inputs
        self._url_inputs = url_inputs
        self._max_outputs = max_outputs
        self._inline_output = inline_output

    async def read(self, running: RunningJob, declared: ModelVersion) -> InferenceRequest:
        """Return the request of a job, whose inputs are there. Raises InferenceError."""
        request = self._make_request(running.job)
        try:
            references = tensors.list_references(request.tensors)
        except msgspec.DecodeError as error:
            raise InferenceError(NEWER_FORMAT, refused=True, delay=NEWER_FORMAT_SECONDS) from error
        if not (declared.takes_references or references):
            return request
        inputs = fit_references(tensors.unpack(request.tensors), declared.inputs)
        if any(isinstance(each, UrlContent) for each in references):
            async with self._url_inputs.fetch(running, inputs) as fetched:
                return await self._read_inputs(running.job, request, inputs, fetched)
        return await self._read_inputs(running.job, request, inputs)

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
            for_step=job.parent is not None,
        )

    async def _read_inputs(
        self, job: JobToRun, request: InferenceRequest, inputs: Sequence[Tensor], fetched: FetchedInputs = NONE
    ) -> InferenceRequest:
        """Return the request with the contents of its files, or their URLs, and of what was fetched."""
        began = time.monotonic() - fetched.seconds
        head = describe_request(request, inputs).SerializeToString()
        with tracing.start_span("read inputs", kind=SpanKind.CLIENT):
            left = request.timeout - fetched.seconds
            message = await self._inputs.complete(head, job.tenant_id, inputs, left, fetched.contents)
        return msgspec.structs.replace(request, tensors=b"", message=message, spent=time.monotonic() - began)
