"""Triton's datatypes, and tensors as they are stored and sent: row-major, little-endian.

Each BYTES element follows its length, as 4 bytes, little-endian. That is Triton's own encoding (the binary tensor data
extension of the Open Inference Protocol). The dispatcher therefore passes the bytes on unchanged.
"""

import struct
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta


class Datatype(StrEnum):
    """The datatypes of Triton."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"


# The codes of the modules `array` and `struct`. `array` has none for FP16. Neither has one for BF16 and BYTES.
CODES = {
    Datatype.BOOL: "B",
    Datatype.UINT8: "B",
    Datatype.UINT16: "H",
    Datatype.UINT32: "I",
    Datatype.UINT64: "Q",
    Datatype.INT8: "b",
    Datatype.INT16: "h",
    Datatype.INT32: "i",
    Datatype.INT64: "q",
    Datatype.FP16: "e",
    Datatype.FP32: "f",
    Datatype.FP64: "d",
}
SIZES = {datatype: struct.calcsize("<" + code) for datatype, code in CODES.items()} | {Datatype.BF16: 2}
FLOATS = frozenset({Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64})


class Tensor(msgspec.Struct, frozen=True, array_like=True):
    """An input tensor, as it is stored."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: bytes


class RawElement(msgspec.Struct, frozen=True):
    """An element of BYTES that is not UTF-8."""

    base64: Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
    """The bytes in base64."""


# The elements of a tensor in JSON. NaN and infinities are strings, as in protobuf's JSON.
ELEMENTS: dict[str, Any] = {
    "type": "array",
    "items": {
        "anyOf": [
            *({"type": name} for name in ("number", "string", "boolean")),
            {"$ref": "#/components/schemas/RawElement"},
        ]
    },
}
Elements = Annotated[list[Any], Meta(extra_json_schema=ELEMENTS)]


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """An output tensor."""

    name: str
    """The name of the output."""
    datatype: Datatype
    """The type of each element."""
    shape: list[int]
    """The size of each dimension, with the batch dimension first."""
    data: Elements
    """The elements in row-major order, flat. BYTES are text, or `{"base64"}` where they are not UTF-8."""
    response: int = -1
    """Only of a streaming model: the number of its response, from 0."""


class Signature(msgspec.Struct, frozen=True):
    """A model's input or output. The shape includes the batch dimension. -1 stands for any size."""

    name: str
    datatype: Datatype
    shape: list[int]
    optional: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Tensor])


def pack(tensors: list[Tensor]) -> bytes:
    """Return the bytes of tensors."""
    return _encoder.encode(tensors)


def unpack(body: bytes) -> list[Tensor]:
    """Return the tensors in `body`."""
    return _decoder.decode(body)
