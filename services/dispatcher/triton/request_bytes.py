"""Writes a request to Triton without copies of large inputs.

protobuf would copy each input twice. So it writes only the rest of the message. The inputs follow as its last field.
https://protobuf.dev/programming-guides/encoding/ describes the format.
"""

import struct
from typing import Any, NamedTuple

from tritonclient.grpc import service_pb2 as pb

from common.tensors import Datatype, FileContent

WITH_LENGTH = 2  # the type of a field whose length precedes it
RAW_INPUT = pb.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER


class WrittenRequest(NamedTuple):
    """A request whose message is written already."""

    model_name: str
    id: str
    message: bytes


def write_request(request: Any) -> bytes:
    """Return the message of a request: a WrittenRequest, or one of protobuf."""
    if isinstance(request, WrittenRequest):
        return request.message
    written: bytes = request.SerializeToString()
    return written


def begin_content(size: int) -> bytes:
    """Return what precedes the content of an input: the beginning of its field."""
    return begin_field(RAW_INPUT, size)


def begin_file(datatype: Datatype, content: FileContent) -> bytes:
    """Return what precedes the content of a file. A file of inline BYTES has the lengths of its elements in it."""
    return begin_content(content.size) if content.inline else begin_whole(datatype, content.size)


def begin_whole(datatype: Datatype, size: int) -> bytes:
    """Return what precedes a content that is a whole input: its field's beginning, and that of an element of BYTES."""
    prefix = struct.pack("<I", size) if datatype is Datatype.BYTES else b""
    return begin_field(RAW_INPUT, len(prefix) + size) + prefix


def begin_field(number: int, length: int) -> bytes:
    return write_varint(number << 3 | WITH_LENGTH) + write_varint(length)


def write_varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
