"""Renders the responses to one request as JSON."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from common import tensors
from common.job_states import Failure
from common.tensors import Tensor
from common.views.outputs import BadOutput, OutputTensor
from services.dispatcher.triton.client import Response
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.model_usage import ModelUsage, open_reader
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.request import InferenceRequest
from services.dispatcher.triton.tensors import (
    InlineLimit,
    OutputFile,
    Rendered,
    TooLarge,
    check_outputs,
    complete_shapes,
    render_outputs,
)

LARGE_OUTPUT = 256 * 1024  # bytes of raw outputs
PAUSE_SECONDS = 0.0001  # between two pieces of a large output: a thread that never sleeps rarely lets the loop run


class InferenceResult(NamedTuple):
    """The result of a successful attempt. `outputs` is the JSON list of the API, which names the `files`.

    `tensors` are the outputs for other steps of a run, packed by `common.tensors`. `usage` is what a
    language model said. `load_id` is the load of the model that made it; None: it is not known.
    """

    version: str
    outputs: bytes
    files: Sequence[OutputFile] = ()
    tensors: bytes | None = None
    usage: ModelUsage = ModelUsage()
    load_id: UUID | None = None


class ResponseCollector:
    """Collects the responses of one attempt and checks them against what the model declares."""

    def __init__(self, model: ModelVersion, max_bytes: int, request: InferenceRequest) -> None:
        """`max_bytes` limits the raw responses together, and the request their JSON."""
        self._model = model
        self._max_bytes = max_bytes
        self._max_outputs = request.max_outputs
        self._inline = InlineLimit(request.inline, request.folder)
        self._version = model.version
        self._bytes = 0
        self._rendered = 0
        self._responses: list[bytes] = []
        self._files: list[OutputFile] = []
        self._for_step = request.for_step
        self._tensors: list[Tensor] = []
        self._failure: Failure | None = None
        self._usage = open_reader(model)
        self._inputs = request.tensors if self._usage is not None else b""

    async def add(self, response: Response) -> Rendered | None:
        """Render one response. The first failure decides the result, and returns None like all later responses.

        Raises InferenceError for a stream that is too large: it may never end.
        """
        self._version = response.version or self._version
        self._bytes += sum(len(tensor.data) for tensor in response.tensors)
        if self._bytes > self._max_bytes:
            text = f"the model's responses exceed {self._max_bytes} bytes in total"
            raise InferenceError(Failure("too_large", text, False))
        if self._failure is not None:
            return None
        try:
            rendered = await self._render_in_thread(response.tensors)
        except BadOutput as error:
            self._failure = Failure("invalid_output", str(error), False)
            return None
        except TooLarge:
            self._failure = too_large(self._max_outputs)
            if self._model.decoupled:
                raise InferenceError(self._failure) from None
            return None
        self._rendered += len(rendered.json)
        self._responses.append(rendered.json)
        self._files.extend(rendered.files)
        if self._usage is not None:
            self._usage.add(response.tensors)
        if self._for_step:
            self._tensors.extend(rendered.tensors)
        return rendered

    async def _render_in_thread(self, response: Sequence[OutputTensor]) -> Rendered:
        """Render a response, in a thread if it is large: the event loop has leases to renew."""
        if sum(len(tensor.data) for tensor in response) > LARGE_OUTPUT:
            return await asyncio.to_thread(self._render, response, partial(time.sleep, PAUSE_SECONDS))
        return self._render(response, lambda: None)

    def _render(self, response: Sequence[OutputTensor], pause: Callable[[], None]) -> Rendered:
        """Return a response as a JSON list, with the files of its large tensors.

        Raises BadOutput if the model declares otherwise, and TooLarge beyond the bytes that are left.
        """
        response = complete_shapes(response, self._model.outputs)
        check_outputs(response, self._model.outputs, complete=not self._model.decoupled)
        number = len(self._responses) if self._model.decoupled else -1
        left = self._max_outputs - self._rendered
        return render_outputs(response, number, left, self._inline, pause)

    def result(self) -> InferenceResult:
        """Return all responses as one result. Raises InferenceError if a response was invalid or is missing."""
        failure = self._failure
        if failure is None and not self._responses and not self._model.decoupled:
            failure = Failure("invalid_output", "the model ended without a response", False)
        if failure is not None:
            raise InferenceError(failure)
        packed = tensors.pack(self._tensors) if self._for_step else None
        usage = ModelUsage() if self._usage is None else self._usage.result(self._inputs)
        return InferenceResult(self._version, join(self._responses), self._files, packed, usage)


def too_large(limit: int) -> Failure:
    text = (
        f"the outputs exceed {limit} bytes as JSON, in which a number may take eight times its raw bytes; "
        "return less, or raise CHARONIA_MAX_JOB_OUTPUTS_BYTES"
    )
    return Failure("too_large", text, False)


def join(responses: Sequence[bytes]) -> bytes:
    """Concatenate JSON lists into one."""
    if len(responses) == 1:
        return responses[0]
    return b"[%b]" % b",".join(response[1:-1] for response in responses if response != b"[]")
