"""Renders a job's outputs as the Open Inference Protocol with the binary tensor extension. Pure."""

import msgspec

from common.tensors import FLOATS, Datatype
from services.gateway.models.tensor_encoding import encode
from services.gateway.open_inference.requests import ResponseFormat, bad_request


class StoredOutput(msgspec.Struct, frozen=True):
    name: str
    datatype: Datatype
    shape: list[int]
    data: msgspec.Raw


class InferOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An output with its `data`, or with the size of its raw bytes after the JSON."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: msgspec.Raw | None = None
    parameters: dict[str, int] | None = None


class InferAnswer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str = ""
    model_name: str
    model_version: str
    outputs: list[InferOutput]


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
            size = {"binary_data_size": len(raws[-1])}
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
