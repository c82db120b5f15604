"""Renders a job's outputs as the Open Inference Protocol with the binary tensor extension. Pure."""

from typing import Annotated

import msgspec
from msgspec import Meta

from common.tensors import ELEMENTS, FLOATS, Datatype
from services.gateway.models.tensor_encoding import encode
from services.gateway.open_inference.requests import ResponseFormat, bad_request

RawElements = Annotated[msgspec.Raw, Meta(extra_json_schema=ELEMENTS)]


class StoredOutput(msgspec.Struct, frozen=True):
    name: str
    datatype: Datatype
    shape: list[int]
    data: msgspec.Raw


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


def render_response(requested: ResponseFormat, model: str, version: str, stored: bytes) -> tuple[bytes, int | None]:
    """Return the body, and the length of its JSON if raw tensors follow. `stored` are the job's outputs as JSON.

    Raises Problem (400) for an output that the model did not return, or that cannot be JSON.
    """
    found = {output.name: output for output in msgspec.json.decode(stored, type=list[StoredOutput])}
    chosen = dict.fromkeys(found, requested.binary) if requested.outputs is None else requested.outputs
    outputs, raws = [], []
    for name, binary in chosen.items():
        output = found.get(name)
        if output is None:
            given = ", ".join(f"'{each}'" for each in found) or "none"
            raise bad_request(f"model '{model}' returned no output '{name}'; it returned {given}")
        if binary:
            raws.append(encode(msgspec.json.decode(output.data), output.datatype))
            size = OutputParameters(len(raws[-1]))
            outputs.append(InferOutput(name, output.datatype, output.shape, parameters=size))
        else:
            outputs.append(InferOutput(name, output.datatype, output.shape, data=render_data(output)))
    head = msgspec.json.encode(InferAnswer(id=requested.id, model_name=model, model_version=version, outputs=outputs))
    return b"".join([head, *raws]), len(head) if raws else None


def render_data(output: StoredOutput) -> msgspec.Raw:
    data = bytes(output.data)
    if output.datatype is Datatype.BYTES and b'{"base64"' in data:  # only an object: quotes in a string are escaped
        raise bad_request(f"output '{output.name}' is not UTF-8: request it with binary_data")
    # The only strings among numbers are NaN and Infinity. Triton writes them without quotes.
    return msgspec.Raw(data.replace(b'"', b"") if output.datatype in FLOATS else data)
