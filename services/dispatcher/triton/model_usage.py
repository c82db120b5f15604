"""What a language model says of its answer: how many tokens it took, and why the text ends. Pure.

The outputs are those of the kinds of models in services/gateway/openai/kinds. Both must read them alike.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from common import tensors
from common.tensors import CODES, FLOATS, Datatype
from common.views.outputs import LENGTH_BYTES, OutputTensor
from services.dispatcher.triton.model_version import BACKEND, ModelVersion

KIND = "charonia.openai"  # the setting with the kind of a model that speaks OpenAI's API
NO_KIND = "none"
SPEAKING_BACKENDS = ("vllm",)  # whose models speak it without the setting
NO_REASON = ("", "None", "null")  # vLLM says this until the end of a text
MAX_JSON = 64 * 1024  # bytes of the outputs and inputs that are read as JSON
MOST = 2**31 - 1  # what a row has room for


class ModelUsage(NamedTuple):
    """What a model said. None: it did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None


class _UsageJson(msgspec.Struct, frozen=True):
    """The output `usage`. It may have more."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Limit(msgspec.Struct, frozen=True):
    """The part of a request, or of vLLM's sampling parameters, that limits the answer."""

    max_tokens: int | None = None


class UsageReader:
    """Adds up what the responses of one attempt say. It reads nothing that is not of the right type."""

    def __init__(self) -> None:
        self._prompt: int | None = None
        self._completion: int | None = None
        self._reason: str | None = None

    def add(self, response: Sequence[OutputTensor]) -> None:
        """Take one response. Numbers of tokens are those of this response, and those in `usage` are of all so far."""
        for output in response:
            match output.name:
                case "num_input_tokens" | "tokens":  # the second of embeddings: a number for each text
                    self._prompt = read_sum(output, self._prompt)
                case "num_output_tokens":
                    counted = read_sum(output, None)
                    self._completion = self._completion if counted is None else (self._completion or 0) + counted
                case "usage":
                    self._add_total(read_text(output))
                case "finish_reason":
                    reason = read_text(output)
                    self._reason = self._reason if reason in NO_REASON else reason
                case _:
                    pass

    def _add_total(self, text: str) -> None:
        try:
            found = msgspec.json.decode(text, type=_UsageJson | None)
        except (msgspec.DecodeError, RecursionError):
            return
        if found is not None:
            self._prompt, self._completion = found.prompt_tokens, found.completion_tokens

    def result(self, inputs: bytes) -> ModelUsage:
        """Return what the model said of all responses. `inputs` are the packed tensors of the request.

        A model that does not say why the text ends has ended it at `max_tokens` if it wrote as many.
        """
        reason = self._reason
        if reason is None and self._completion is not None:
            limit = find_limit(inputs)
            reason = "length" if limit is not None and self._completion >= limit else None
        return ModelUsage(bound(self._prompt), bound(self._completion), reason)


def open_reader(model: ModelVersion) -> UsageReader | None:
    """Return a reader, or None for a model that is no language model."""
    kind = model.settings.get(KIND)
    speaks = kind != NO_KIND if kind else model.settings.get(BACKEND) in SPEAKING_BACKENDS
    return UsageReader() if speaks else None


def bound(count: int | None) -> int | None:
    return None if count is None else min(max(0, count), MOST)


def read_sum(output: OutputTensor, default: int | None) -> int | None:
    """Return the sum of an output's whole numbers, or the default for an output of another type."""
    if output.datatype in FLOATS or output.datatype in (Datatype.BYTES, Datatype.BOOL):
        return default
    return sum(array(CODES[output.datatype], bytes(output.data)))


def read_text(output: OutputTensor) -> str:
    """Return the first element of an output of BYTES, if it is short. Any other output has the text ''."""
    data = memoryview(output.data)
    if output.datatype is not Datatype.BYTES or not len(data) > LENGTH_BYTES:
        return ""
    size = int.from_bytes(data[:LENGTH_BYTES], "little")
    return bytes(data[LENGTH_BYTES : LENGTH_BYTES + size]).decode(errors="replace") if size <= MAX_JSON else ""


def find_limit(inputs: bytes) -> int | None:
    """Return how many tokens a request allows: by `max_tokens`, or in the JSON of vLLM or of a request."""
    for tensor in tensors.unpack(inputs):
        if not isinstance(tensor.data, bytes):
            continue
        output = OutputTensor(tensor.name, tensor.datatype, tensor.shape, tensor.data)
        if tensor.name == "max_tokens":
            return read_sum(output, None)
        if tensor.name in ("sampling_parameters", "request"):
            try:
                return msgspec.json.decode(read_text(output), type=_Limit).max_tokens
            except (msgspec.DecodeError, RecursionError):
                return None
    return None
