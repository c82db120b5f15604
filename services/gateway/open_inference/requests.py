"""Parses requests of the Open Inference Protocol with the binary tensor extension. Pure.

Messages that Triton has too are in Triton's words.
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from common.job_states import Priority
from common.tensors import Datatype, Signature
from services.gateway.http.bodies import SYNTAX_ERRORS, explain_fields
from services.gateway.http.problems import MAX_TEXT, Problem
from services.gateway.http.validation.json_syntax import explain_syntax
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.schemas import SubmitJob

JSON_LENGTH_HEADER = "Inference-Header-Content-Length"
RESERVED_PARAMETERS = ("binary_data_output", "priority", "sequence_end", "sequence_id", "sequence_start", "timeout")
MAX_SECONDS = 604_800  # of one attempt


class InferInput(msgspec.Struct, frozen=True):
    """An input tensor. It has either `data` or the parameter `binary_data_size`."""

    name: str
    """The name of the input."""
    shape: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    """The size of each dimension."""
    datatype: Datatype
    """The type of each element. It must be the one that the model declares."""
    data: Any = None
    """The elements in row-major order, flat or nested."""
    parameters: dict[str, Any] = {}
    """`binary_data_size`: the bytes of this tensor after the JSON."""


class RequestedOutput(msgspec.Struct, frozen=True):
    """An output to return."""

    name: str
    """The name of the output."""
    parameters: dict[str, Any] = {}
    """`binary_data`: whether to return the tensor as raw bytes after the JSON."""


class InferRequest(msgspec.Struct, frozen=True):
    """The body of an infer request. Unknown fields are ignored, as in Triton."""

    inputs: list[InferInput]
    """The inputs."""
    outputs: list[RequestedOutput] = []
    """The outputs to return. By default all of them."""
    id: str = ""
    """An id of yours. The answer has it too."""
    parameters: dict[str, Any] = {}
    """Parameters of the protocol and of the model. `binary_data_output` returns all outputs as raw bytes.

    `priority` is 1 for high, 2 for normal and 3 for low. `timeout` is in microseconds.
    """


class ResponseFormat(NamedTuple):
    """The requested response: its id, and the outputs with whether each is binary."""

    id: str
    outputs: dict[str, bool] | None  # None for all outputs
    binary: bool  # the format of outputs that are not listed


DECODER = msgspec.json.Decoder(InferRequest)


def bad_request(detail: str) -> Problem:
    # Names in the text come from the client, and may be as long as its body.
    return Problem(HTTPStatus.BAD_REQUEST, "invalid_request", detail[:MAX_TEXT])


def split_body(body: bytes, length: str | None) -> tuple[bytes, memoryview]:
    """Split a body into its JSON and the raw tensors. `length` is the header with the size of the JSON."""
    if length is None:
        return body, memoryview(b"")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else -1
    if not 0 < size <= len(body):
        raise bad_request(f"{JSON_LENGTH_HEADER} should be in range (0, {len(body)}], got: {length}")
    return body[:size], memoryview(body)[size:]


def decode_request(text: bytes) -> InferRequest:
    try:
        return DECODER.decode(text)
    except msgspec.ValidationError as error:
        found = explain_fields(text, InferRequest, error)[0]
        raise bad_request(f"{found.pointer}: {found.detail}" if found.pointer else found.detail) from error
    except SYNTAX_ERRORS as error:
        if literals := quote_literals(text):
            return decode_request(literals)
        raise bad_request(f"failed to parse the request JSON: {explain_syntax(text, error)}") from error


def quote_literals(text: bytes) -> bytes | None:
    """Return the JSON with NaN and Infinity as strings, or None if it has none. Triton's clients write them bare."""
    found: list[str] = []

    def note(literal: str) -> str:
        found.append(literal)
        return literal

    try:
        again = msgspec.json.encode(json.loads(text, parse_constant=note))
    except (ValueError, OverflowError, RecursionError):
        return None
    return again if found else None


def parse_request(
    body: bytes, length: str | None, model: str, version: str | None, declared: Sequence[Signature]
) -> tuple[SubmitJob, ResponseFormat]:
    """Return the requested job and response format. `declared` are the model's outputs. Raises Problem (400)."""
    text, raw = split_body(body, length)
    request = decode_request(text)
    parameters = request.parameters
    if parameters.get("sequence_id"):
        raise bad_request(
            "sequences are not supported: each request is an independent job, on any instance of the model"
        )
    default = parse_flag(parameters, "binary_data_output", False)
    job = SubmitJob(
        model=model,
        version=version,
        inputs=parse_inputs(request.inputs, raw, model),
        parameters=select_parameters(parameters),
        priority=parse_priority(parameters),
        timeout=parse_timeout(parameters),
    )
    outputs = {output.name: parse_output(output, default, declared, model) for output in request.outputs}
    return job, ResponseFormat(request.id, outputs or None, default)


def parse_inputs(inputs: Sequence[InferInput], raw: memoryview, model: str) -> list[InputTensor]:
    """Return each input with its JSON data, or with its part of the raw bytes."""
    found = []
    for each in inputs:
        refuse_shared_memory("input", each.name, each.parameters)
        data, size = each.data, each.parameters.get("binary_data_size")
        if (size is None) == (data is None):
            raise bad_request(f"input '{each.name}' must have either 'data' or 'binary_data_size' in 'parameters'")
        if size is not None:
            if type(size) is not int or size < 0:
                raise bad_request(f"'binary_data_size' of input '{each.name}' must be a whole number from 0")
            if size > len(raw):
                missing = size - len(raw)
                raise bad_request(
                    f"unexpected size for input '{each.name}', expecting {missing} additional bytes for model '{model}'"
                )
            data, raw = bytes(raw[:size]), raw[size:]
        found.append(InputTensor(each.name, each.shape, each.datatype, data))
    if raw:
        raise bad_request(f"unexpected additional input data for model '{model}': {len(raw)} bytes")
    return found


def parse_output(output: RequestedOutput, default: bool, declared: Sequence[Signature], model: str) -> bool:
    """Return whether the output is requested as raw bytes."""
    refuse_shared_memory("output", output.name, output.parameters)
    if output.parameters.get("classification"):
        raise bad_request(f"classification is not supported: request output '{output.name}' itself")
    if output.name not in {signature.name for signature in declared}:
        raise bad_request(f"unexpected inference output '{output.name}' for model '{model}'")
    return parse_flag(output.parameters, "binary_data", default)


def refuse_shared_memory(kind: str, name: str, parameters: Mapping[str, Any]) -> None:
    if "shared_memory_region" in parameters:
        raise bad_request(f"shared memory is not supported: send {kind} '{name}' over HTTP")


def parse_flag(parameters: Mapping[str, Any], name: str, default: bool) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise bad_request(f"parameter '{name}' must be true or false")
    return value


def parse_count(parameters: Mapping[str, Any], name: str) -> int:
    value = parameters.get(name, 0)
    if type(value) is not int or value < 0:
        raise bad_request(f"parameter '{name}' must be a whole number from 0")
    return value


def parse_priority(parameters: Mapping[str, Any]) -> Priority:
    """Map Triton's priority to one of three classes. 0 is the default, 1 the highest."""
    level = parse_count(parameters, "priority") or 2
    return (Priority.HIGH, Priority.NORMAL, Priority.LOW)[min(level, 3) - 1]


def parse_timeout(parameters: Mapping[str, Any]) -> float | UnsetType:
    """Convert Triton's microseconds to seconds. 0 is the default."""
    return min(parse_count(parameters, "timeout"), MAX_SECONDS * 1_000_000) / 1e6 or UNSET


def select_parameters(parameters: Mapping[str, Any]) -> dict[str, bool | int | float | str] | None:
    """Return the parameters for the model, without those of the protocol."""
    passed = {name: value for name, value in parameters.items() if name not in RESERVED_PARAMETERS}
    for name, value in passed.items():
        if not isinstance(value, bool | int | float | str):
            raise bad_request(f"parameter '{name}' has invalid type. It should be a number, a boolean or a string.")
    return passed or None
