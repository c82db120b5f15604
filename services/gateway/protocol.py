"""Requests of the Open Inference Protocol, with its binary tensor extension, as Triton's clients write them. Pure."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from common.jobs import Priority
from common.tensors import Datatype, Signature
from services.gateway.errors import MAX_TEXT, Problem, locate
from services.gateway.schemas import InputTensor, SubmitJob

LENGTH = "Inference-Header-Content-Length"
OURS = ("binary_data_output", "priority", "sequence_end", "sequence_id", "sequence_start", "timeout")
DEFAULT_SECONDS, MAX_SECONDS = 600.0, 604_800  # one attempt may run


class Input(msgspec.Struct, frozen=True):
    name: str
    shape: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    datatype: Datatype
    data: Any = None
    parameters: dict[str, Any] = {}


class RequestedOutput(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct, frozen=True):
    """Fields that nobody knows are passed over, as Triton does."""

    inputs: list[Input]
    outputs: list[RequestedOutput] = []
    id: str = ""
    parameters: dict[str, Any] = {}


class Wanted(NamedTuple):
    """How to answer: under which id, and which outputs, each raw or as JSON; None for all in one way."""

    id: str
    outputs: dict[str, bool] | None
    binary: bool


decoder = msgspec.json.Decoder(InferRequest)


def refuse(detail: str) -> Problem:
    """Names come from the client and may be as long as its body."""
    return Problem(HTTPStatus.BAD_REQUEST, "invalid_request", detail[:MAX_TEXT])


def split(body: bytes, length: str | None) -> tuple[bytes, memoryview]:
    """The JSON, and the tensors that follow it; `length` is the header that says where it ends."""
    if length is None:
        return body, memoryview(b"")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else -1
    if not 0 < size <= len(body):
        raise refuse(f"{LENGTH} should be in range (0, {len(body)}], got: {length}")
    return body[:size], memoryview(body)[size:]


def decode(text: bytes) -> InferRequest:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        found = locate(str(error))
        raise refuse(f"{found.pointer or 'the body'}: {found.detail}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if literals := read_literals(text):
            return decode(literals)
        raise refuse(f"failed to parse the request JSON: {error}") from error


def read_literals(text: bytes) -> bytes | None:
    """The same JSON with strings for NaN and Infinity, which Triton's clients write bare; None where it has none."""
    found: list[str] = []

    def note(literal: str) -> str:
        found.append(literal)
        return literal

    try:
        again = msgspec.json.encode(json.loads(text, parse_constant=note))
    except (ValueError, OverflowError, RecursionError):
        return None
    return again if found else None


def read_request(
    body: bytes, length: str | None, model: str, version: str | None, declared: Sequence[Signature]
) -> tuple[SubmitJob, Wanted]:
    """The job that is asked for, and how to answer; `declared` are the model's outputs. Raises Problem (400)."""
    text, raw = split(body, length)
    request = decode(text)
    parameters = request.parameters
    if parameters.get("sequence_id"):
        raise refuse("sequences are not offered here: each request is a job of its own, on any instance of the model")
    default = read_flag(parameters, "binary_data_output", False)
    job = SubmitJob(
        model=model,
        version=version,
        inputs=read_tensors(request.inputs, raw, model),
        parameters=read_parameters(parameters),
        priority=read_priority(parameters),
        timeout=read_timeout(parameters),
    )
    outputs = {output.name: read_output(output, default, declared, model) for output in request.outputs}
    return job, Wanted(request.id, outputs or None, default)


def read_tensors(inputs: Sequence[Input], raw: memoryview, model: str) -> list[InputTensor]:
    """Each with its JSON, or its share of the bytes that follow, as raw as they come."""
    found = []
    for each in inputs:
        refuse_shared_memory("input", each.name, each.parameters)
        data, size = each.data, each.parameters.get("binary_data_size")
        if (size is None) == (data is None):
            raise refuse(f"input '{each.name}' must have either 'data' or 'binary_data_size' in 'parameters'")
        if size is not None:
            if type(size) is not int or size < 0:
                raise refuse(f"'binary_data_size' of input '{each.name}' is not a size")
            if size > len(raw):
                missing = size - len(raw)
                raise refuse(
                    f"unexpected size for input '{each.name}', expecting {missing} additional bytes for model '{model}'"
                )
            data, raw = bytes(raw[:size]), raw[size:]
        found.append(InputTensor(each.name, each.shape, each.datatype, data))
    if raw:
        raise refuse(f"unexpected additional input data for model '{model}': {len(raw)} bytes")
    return found


def read_output(output: RequestedOutput, default: bool, declared: Sequence[Signature], model: str) -> bool:
    """Whether it is wanted raw."""
    refuse_shared_memory("output", output.name, output.parameters)
    if output.parameters.get("classification"):
        raise refuse(f"classification is not offered here: ask for output '{output.name}' itself")
    if output.name not in {signature.name for signature in declared}:
        raise refuse(f"unexpected inference output '{output.name}' for model '{model}'")
    return read_flag(output.parameters, "binary_data", default)


def refuse_shared_memory(kind: str, name: str, parameters: Mapping[str, Any]) -> None:
    if "shared_memory_region" in parameters:
        raise refuse(f"shared memory is not offered here: {kind} '{name}' must travel with the request")


def read_flag(parameters: Mapping[str, Any], name: str, default: bool) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise refuse(f"parameter '{name}' is not true or false")
    return value


def read_count(parameters: Mapping[str, Any], name: str) -> int:
    value = parameters.get(name, 0)
    if type(value) is not int or value < 0:
        raise refuse(f"parameter '{name}' is not a whole number from 0")
    return value


def read_priority(parameters: Mapping[str, Any]) -> Priority:
    """Triton's: 0 for the default, then 1 for the highest, and so on; three classes are all there are here."""
    level = read_count(parameters, "priority") or 2
    return (Priority.HIGH, Priority.NORMAL, Priority.LOW)[min(level, 3) - 1]


def read_timeout(parameters: Mapping[str, Any]) -> float:
    """Seconds of Triton's microseconds; 0 for the default."""
    return min(read_count(parameters, "timeout"), MAX_SECONDS * 1_000_000) / 1e6 or DEFAULT_SECONDS


def read_parameters(parameters: Mapping[str, Any]) -> dict[str, bool | int | float | str] | None:
    """What is passed on to the model."""
    passed = {name: value for name, value in parameters.items() if name not in OURS}
    for name, value in passed.items():
        if not isinstance(value, bool | int | float | str):
            raise refuse(f"parameter '{name}' has invalid type. It should be a number, a boolean or a string.")
    return passed or None
