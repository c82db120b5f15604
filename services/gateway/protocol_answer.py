"""A job's outputs as the Open Inference Protocol answers them, with its binary tensor extension. Pure."""

import msgspec

from common.tensors import FLOATS, Datatype
from services.gateway.protocol import Wanted, refuse
from services.gateway.tensors import encode


class StoredOutput(msgspec.Struct, frozen=True):
    name: str
    datatype: Datatype
    shape: list[int]
    data: msgspec.Raw


class InferOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """`data`, or the size of what follows the JSON."""

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


def write_answer(wanted: Wanted, model: str, version: str, stored: bytes) -> tuple[bytes, int | None]:
    """The body, and the length of its JSON where raw tensors follow. `stored` are a job's outputs as the API has them.

    Raises Problem (400) for an output wanted as JSON that is not text, or one that the model did not give: it may have
    lost it since it was asked.
    """
    found = {output.name: output for output in msgspec.json.decode(stored, type=list[StoredOutput])}
    chosen = dict.fromkeys(found, wanted.binary) if wanted.outputs is None else wanted.outputs
    outputs, raws = [], []
    for name, binary in chosen.items():
        output = found.get(name)
        if output is None:
            given = ", ".join(f"'{each}'" for each in found) or "none"
            raise refuse(f"model '{model}' gave no output '{name}'; it gave {given}")
        if binary:
            raws.append(encode(msgspec.json.decode(output.data), output.datatype))
            size = {"binary_data_size": len(raws[-1])}
            outputs.append(InferOutput(name, output.datatype, output.shape, parameters=size))
        else:
            outputs.append(InferOutput(name, output.datatype, output.shape, data=write_data(output)))
    head = msgspec.json.encode(InferAnswer(id=wanted.id, model_name=model, model_version=version, outputs=outputs))
    return b"".join([head, *raws]), len(head) if raws else None


def write_data(output: StoredOutput) -> msgspec.Raw:
    data = bytes(output.data)
    if output.datatype is Datatype.BYTES and b'{"base64"' in data:  # a quote within a text would be escaped
        raise refuse(f"output '{output.name}' is not all UTF-8: ask for it with binary_data")
    # The only strings among numbers are those for NaN and Infinity, which Triton writes bare.
    return msgspec.Raw(data.replace(b'"', b"") if output.datatype in FLOATS else data)
