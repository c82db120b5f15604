"""Renders a job's outputs as the Open Inference Protocol with the binary tensor extension. Pure."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta

from common.tensors import ELEMENTS, FLOATS, Datatype
from common.views.outputs import LENGTH_BYTES, OutputTensor, render_elements
from services.gateway.jobs.inputs.tensor_encoding import encode
from services.gateway.open_inference.requests import ResponseFormat, bad_request

RawElements = Annotated[msgspec.Raw, Meta(extra_json_schema=ELEMENTS)]


class StoredOutput(msgspec.Struct, frozen=True):
    name: str
    datatype: Datatype
    shape: list[int]
    data: msgspec.Raw = msgspec.Raw(b"[]")
    file: str = ""
    size: int = 0

    @property
    def is_in_file(self) -> bool:
        return bool(self.file)


class OutputParameters(msgspec.Struct, frozen=True):
    """How the tensor follows the JSON."""

    binary_data_size: int
    """The bytes of this tensor after the JSON."""


class InferOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An output with its elements, or with the size of its raw bytes after the JSON."""

    name: str
    """The name of the output."""
    datatype: Datatype
    """The type of each element."""
    shape: list[int]
    """The size of each dimension, with the batch dimension first."""
    data: RawElements | msgspec.UnsetType = msgspec.UNSET
    """The elements in row-major order, flat; absent if raw bytes follow the JSON."""
    parameters: OutputParameters | msgspec.UnsetType = msgspec.UNSET
    """How the tensor follows the JSON; absent if `data` has its elements."""


class InferAnswer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The outputs of a model."""

    id: str = ""
    """The `id` of the request; absent without one."""
    model_name: str
    """The model that ran."""
    model_version: str
    """The version that ran."""
    outputs: list[InferOutput]
    """The requested outputs, or all of them."""


NO_CONTENTS: Mapping[str, bytes] = MappingProxyType({})


def render_response(
    requested: ResponseFormat, model: str, version: str, stored: bytes, contents: Mapping[str, bytes] = NO_CONTENTS
) -> tuple[list[bytes | StoredOutput], int | None]:
    """Return the parts of the body, and the length of its JSON if raw tensors follow. `stored` are the job's outputs.

    A part that is an output stands for its raw tensor, which is in a file. `contents` are the files of outputs that
    are wanted as JSON. Raises Problem (400) for an output that the model did not return, or that cannot be JSON.
    """
    found = {output.name: output for output in msgspec.json.decode(stored, type=list[StoredOutput])}
    chosen = dict.fromkeys(found, requested.binary) if requested.outputs is None else requested.outputs
    outputs, raws = [], list[bytes | StoredOutput]()
    for name, binary in chosen.items():
        output = found.get(name)
        if output is None:
            given = ", ".join(f"'{each}'" for each in found) or "none"
            raise bad_request(f"model '{model}' returned no output '{name}'; it returned {given}")
        if binary and output.is_in_file:
            raws.append(output)
            size = OutputParameters(len(begin_raw(output)) + output.size)
            outputs.append(InferOutput(name, output.datatype, output.shape, parameters=size))
        elif binary:
            raws.append(raw := encode(msgspec.json.decode(output.data), output.datatype))
            size = OutputParameters(len(raw))
            outputs.append(InferOutput(name, output.datatype, output.shape, parameters=size))
        else:
            outputs.append(InferOutput(name, output.datatype, output.shape, data=render_data(output, contents)))
    head = msgspec.json.encode(InferAnswer(id=requested.id, model_name=model, model_version=version, outputs=outputs))
    return [head, *raws], len(head) if raws else None


def begin_raw(output: StoredOutput) -> bytes:
    """Return what precedes the content of a file in its raw tensor: the length of a single element of BYTES."""
    is_element = output.datatype is Datatype.BYTES and math.prod(output.shape) == 1
    return output.size.to_bytes(LENGTH_BYTES, "little") if is_element else b""


def render_data(output: StoredOutput, contents: Mapping[str, bytes]) -> msgspec.Raw:
    data = bytes(output.data)
    if output.is_in_file:
        raw = begin_raw(output) + contents[output.name]
        data = b"[%b]" % b"".join(render_elements(OutputTensor(output.name, output.datatype, output.shape, raw)))
    if output.datatype is Datatype.BYTES and b'{"base64"' in data:  # only an object: quotes in a string are escaped
        raise bad_request(f"output '{output.name}' is not UTF-8: request it with binary_data")
    # The only strings among numbers are NaN and Infinity. Triton writes them without quotes.
    return msgspec.Raw(data.replace(b'"', b"") if output.datatype in FLOATS else data)
