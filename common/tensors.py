"""Triton's datatypes, and tensors as they are stored and sent: row-major, little-endian.

Each BYTES element follows its length, as 4 bytes, little-endian. That is Triton's own encoding (the binary tensor data
extension of the Open Inference Protocol). The dispatcher therefore passes the bytes on unchanged.
"""

import struct
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

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
MAX_INPUT_BYTES = 2_000_000_000  # of one job: gRPC takes messages below 2 GiB
FLOATS = frozenset({Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64})


class FileContent(msgspec.Struct, frozen=True, array_like=True, tag="file"):
    """The content of a tensor that is in a file: `size` bytes from `offset` to its end. Of BYTES, it is one element.

    `by_reference`: the model gets a URL of the file instead. `inline`: the client sent the content in the job. The file
    is then the job's own, and has BYTES as Triton takes them.
    """

    file_id: UUID
    offset: int
    size: int
    by_reference: bool = False
    inline: bool = False

    @property
    def bytes_read(self) -> int:
        """The bytes that a dispatcher reads, and holds while the job runs."""
        return 0 if self.by_reference else self.size


class UrlContent(msgspec.Struct, frozen=True, array_like=True, tag="url"):
    """The content of a tensor that a dispatcher fetches at each attempt. Of BYTES, it is one element."""

    url: str


class ObjectContent(msgspec.Struct, frozen=True, array_like=True, tag="object"):
    """The content of a tensor in a bucket of the tenant: `size` bytes from `offset` to the end of an object."""

    bucket: str
    key: str
    offset: int
    size: int

    @property
    def bytes_read(self) -> int:
        """The bytes that a dispatcher reads, and holds while the job runs."""
        return self.size


Reference = FileContent | UrlContent | ObjectContent


class Tensor(msgspec.Struct, frozen=True, array_like=True):
    """An input tensor, as it is stored."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: bytes | Reference


class _UnreadTensor(msgspec.Struct, frozen=True, array_like=True):
    name: msgspec.Raw
    datatype: Datatype
    shape: msgspec.Raw
    data: msgspec.Raw


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


class Signature(msgspec.Struct, frozen=True):
    """A model's input or output. The shape includes the batch dimension. -1 stands for any size.

    `reference`: the model takes a URL of a file as this input, and reads the file itself.
    """

    name: str
    datatype: Datatype
    shape: list[int]
    optional: bool = False
    reference: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Tensor])
_reference_decoder: msgspec.msgpack.Decoder[Reference] = msgspec.msgpack.Decoder(Reference)
_scanner = msgspec.msgpack.Decoder(list[_UnreadTensor])
_BYTES_MARKERS = b"\xc4\xc5\xc6"  # how bytes begin in MessagePack


def pack(tensors: list[Tensor]) -> bytes:
    """Return the bytes of tensors."""
    return _encoder.encode(tensors)


def unpack(body: bytes) -> list[Tensor]:
    """Return the tensors in `body`. Raises msgspec.DecodeError if they are of a later release."""
    return _decoder.decode(body)


def list_references(body: bytes) -> list[Reference]:
    """Return the contents of tensors that are not in `body` itself. It copies no tensor.

    Raises msgspec.DecodeError if they are of a later release.
    """
    return [
        _reference_decoder.decode(each.data)
        for each in _scanner.decode(body)
        if memoryview(each.data)[0] not in _BYTES_MARKERS
    ]
