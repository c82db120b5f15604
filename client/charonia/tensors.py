"""Encodes values as tensors of a known datatype: row-major and little-endian, as Triton has them. Pure."""

import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from charonia.references import FileId, Url

MAX_RANK = 16
# The codes of `array` and `struct`; BF16 and BYTES have none.
CODES = {
    "BOOL": "B",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
SIZES = {datatype: struct.calcsize("<" + code) for datatype, code in CODES.items()} | {"BF16": 2}
FLOATS = frozenset({"FP16", "BF16", "FP32", "FP64"})


class Raw(msgspec.Struct, frozen=True):
    """Bytes in a request; msgspec writes them in base64."""

    base64: bytes


class FileReference(msgspec.Struct, frozen=True):
    """The id of a file whose content is the data."""

    file: str


class UrlReference(msgspec.Struct, frozen=True):
    """A URL that a dispatcher fetches the data from."""

    url: str


class Tensor(msgspec.Struct, frozen=True):
    """An input as it is sent: numbers as raw bytes, BYTES as a list of elements."""

    name: str
    shape: list[int]
    datatype: str
    data: Raw | FileReference | UrlReference | list[str | Raw]


class Mistake(Exception):
    """A value does not fit its input. The text says what was expected and what to do."""


def flatten(value: Any) -> tuple[list[int], list[Any]]:
    """Return the shape of nested lists, and their elements in row-major order."""
    shape: list[int] = []
    level = [value]
    while level and isinstance(level[0], (list, tuple)):
        check_depth(len(shape))
        lengths = {len(item) if isinstance(item, (list, tuple)) else -1 for item in level}
        if len(lengths) > 1:
            raise Mistake("the nested lists differ in length; pad them, or submit a job for each")
        shape.append(lengths.pop())
        level = list(chain.from_iterable(level))
    return shape, level


def check_depth(depth: int) -> None:
    """Raise Mistake for lists in too many others, such as one that contains itself."""
    if depth >= MAX_RANK:
        raise Mistake(f"lists are nested deeper than {MAX_RANK} levels; flatten them, and check for one in itself")


def encode_elements(flat: Sequence[Any], datatype: str) -> Raw | list[str | Raw]:
    """Return elements as the data of a tensor. Nothing is converted silently: 1.7 is no integer, true no number."""
    if datatype == "BYTES":
        return [_encode_element(each, index) for index, each in enumerate(flat)]
    allowed: set[type] = {bool} if datatype == "BOOL" else {int, float} if datatype in FLOATS else {int}
    if not set(map(type, flat)) <= allowed:
        index = next(index for index, each in enumerate(flat) if type(each) not in allowed)
        raise Mistake(f"element {index} is {describe(flat[index])}, but the model wants {datatype}")
    try:
        return Raw(_pack(flat, datatype))
    except (OverflowError, struct.error):
        raise Mistake(f"a value is out of the range of {datatype}") from None


def _pack(flat: Sequence[Any], datatype: str) -> bytes:
    if datatype == "BF16":
        return round_to_bf16(struct.pack(f"<{len(flat)}f", *flat))
    if datatype in FLOATS:
        return struct.pack(f"<{len(flat)}{CODES[datatype]}", *flat)
    values = array(CODES[datatype], flat)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def round_to_bf16(singles: bytes) -> bytes:
    """Return FP32 as BF16: rounded to nearest, ties to even. Raise OverflowError if a finite one becomes infinite."""
    halves = array("H")
    for (bits,) in struct.iter_unpack("<I", singles):
        magnitude = bits & 0x7FFFFFFF
        half = bits >> 16 | 0x40 if magnitude > 0x7F800000 else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        if half & 0x7FFF == 0x7F80 and magnitude != 0x7F800000:
            raise OverflowError
        halves.append(half)
    if sys.byteorder == "big":
        halves.byteswap()
    return halves.tobytes()


def _encode_element(element: Any, index: int) -> str | Raw:
    if isinstance(element, (bytes, bytearray, memoryview)):
        return Raw(bytes(element))
    if isinstance(element, (FileId, Url)):
        raise Mistake(
            f"element {index} is a {type(element).__name__}, which must be the whole input: submit one for each"
        )
    if isinstance(element, str):
        try:
            element.encode()
        except UnicodeEncodeError:
            raise Mistake(f"element {index} is not Unicode text; pass bytes instead") from None
        return element
    raise Mistake(f"element {index} is {describe(element)}, but the model wants BYTES: str, bytes, a path or a file")


def describe(value: Any) -> str:
    """Return a short text for an error: the type, and the value if it is short."""
    shown = repr(value)
    return f"{type(value).__name__} {shown}" if len(shown) <= 40 else type(value).__name__
