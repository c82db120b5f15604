"""Triton's datatypes, and tensors as they are stored and sent: raw, row-major, little-endian.

BYTES elements are each preceded by their length as 4 bytes, little-endian: Triton's own encoding
(the binary tensor data extension of the Open Inference Protocol), so the dispatcher passes the bytes on untouched.
"""

import struct
from enum import StrEnum
from typing import Any

import msgspec


class Datatype(StrEnum):
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


# The codes of the `array` and `struct` modules. FP16 has one in `struct` only; BF16 and BYTES have none.
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
    name: str
    datatype: Datatype
    shape: list[int]
    data: bytes


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tensor of the answer; data row-major, flat. BYTES as text, or as `{"base64"}` where it is not UTF-8."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: list[Any]
    response: int = -1  # of a streaming model: which of its responses, from 0; else left out


class Signature(msgspec.Struct, frozen=True):
    """A model's input or output; -1 in the shape stands for any size, and the batch dimension is included."""

    name: str
    datatype: Datatype
    shape: list[int]
    optional: bool = False


encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(list[Tensor])


def pack(tensors: list[Tensor]) -> bytes:
    return encoder.encode(tensors)


def unpack(body: bytes) -> list[Tensor]:
    return decoder.decode(body)
