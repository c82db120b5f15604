"""Reads messages of Triton without a copy of large tensors.

protobuf copies each tensor twice on the event loop, which takes 40 ms for 50 MB. So a large message is split here, and
protobuf gets it without the tensors. https://protobuf.dev/programming-guides/encoding/ describes the format.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb

LARGE = 1024 * 1024  # bytes; protobuf is faster for a message without large tensors
WITH_LENGTH = 2  # the type of a field whose length precedes it; all fields of both messages have it
INFER_RESPONSE = pb.ModelStreamInferResponse.INFER_RESPONSE_FIELD_NUMBER
RAW_OUTPUT = pb.ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER


class StreamMessage(NamedTuple):
    """A message of a stream. `response` may lack its raw outputs, which are in `raws`."""

    error_message: str
    response: Any
    raws: Sequence[bytes | memoryview]


def read_message(data: bytes) -> StreamMessage:
    """Return a ModelStreamInferResponse. Raises DecodeError."""
    if len(data) > LARGE:
        return read_large(memoryview(data))
    message = pb.ModelStreamInferResponse.FromString(data)
    return StreamMessage(message.error_message, message.infer_response, message.infer_response.raw_output_contents)


def read_large(data: memoryview) -> StreamMessage:
    others, parts, raws = list[memoryview](), list[memoryview](), list[memoryview]()
    for number, field, value in split_fields(data):
        if number != INFER_RESPONSE:
            others.append(field)
            continue
        for part_number, part, content in split_fields(value):
            if part_number == RAW_OUTPUT:
                raws.append(content)
            else:
                parts.append(part)
    message = pb.ModelStreamInferResponse.FromString(b"".join(others))
    message.infer_response.MergeFromString(b"".join(parts))
    return StreamMessage(message.error_message, message.infer_response, raws)


def split_fields(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield the number of each field, the whole field, and its value."""
    offset = 0
    while offset < len(data):
        begin = offset
        tag, offset = read_varint(data, offset)
        length, offset = read_varint(data, offset)
        end = offset + length
        if tag & 7 != WITH_LENGTH or end > len(data):
            raise DecodeError("a field of a response has no length, or a wrong one")
        yield tag >> 3, data[begin:end], data[offset:end]
        offset = end


def read_varint(data: memoryview, offset: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
    value = 0
    for count, byte in enumerate(data[offset : offset + 10]):
        value |= (byte & 127) << 7 * count
        if byte < 128:  # the last one
            return value, offset + count + 1
    raise DecodeError("a number of a response has no end")
