"""Encodes the elements of a tensor as Triton expects them. Pure."""

import base64
import binascii
import math
import re
import struct
import sys
from array import array
from typing import Any

from common.tensors import CODES, FLOATS, Datatype
from services.gateway.jobs.inputs.tensor_errors import explain_base64, explain_element, explain_overflow

INFINITE = 0x7F80  # infinity in BF16, without the sign
DATA_URL = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # as in protobuf's JSON


class InvalidTensor(Exception):
    """An input does not match the model; `pointer` is relative to the input."""

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer


def is_raw(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str)


def decode_raw(value: Any, pointer: str = "") -> bytes:
    """Decode base64, also of a data URL such as `data:image/png;base64,…` (RFC 2397)."""
    text: str = value["base64"]
    try:
        if found := DATA_URL.match(text):
            text = text[found.end() :]
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidTensor(f"not base64: {explain_base64(text)}", f"{pointer}/base64") from error


def encode(flat: list[Any], datatype: Datatype) -> bytes:
    """Encode elements for Triton. Nothing is converted silently: 1.7 is no integer, and "1" and true are no numbers."""
    if datatype is Datatype.BYTES:
        return b"".join([encode_element(element, index) for index, element in enumerate(flat)])
    allowed: set[type] = {bool} if datatype is Datatype.BOOL else {int}
    if datatype in FLOATS:
        allowed = {int, float}
        if str in set(map(type, flat)):
            flat = [SPECIAL.get(element, element) if isinstance(element, str) else element for element in flat]
    if not set(map(type, flat)) <= allowed:
        index = next(index for index, element in enumerate(flat) if type(element) not in allowed)
        raise InvalidTensor(f"element {index} {explain_element(flat[index], datatype)}")
    try:
        return encode_numbers(flat, datatype)
    except (OverflowError, struct.error) as error:
        raise InvalidTensor(explain_overflow(flat, datatype)) from error


def encode_numbers(flat: list[Any], datatype: Datatype) -> bytes:
    match datatype:
        case Datatype.FP16:
            return struct.pack(f"<{len(flat)}e", *flat)
        case Datatype.BF16:
            halves = list(map(round_half, struct.unpack(f"<{len(flat)}I", to_single(flat))))
            infinite = (value for half, value in zip(halves, flat, strict=True) if half & 0x7FFF == INFINITE)
            if any(map(math.isfinite, infinite)):
                raise OverflowError("too large")
            return struct.pack(f"<{len(flat)}H", *halves)
        case Datatype.FP32:
            return to_single(flat)
        case _:
            values = array(CODES[datatype], flat)
            if sys.byteorder == "big":
                values.byteswap()
            return values.tobytes()


def to_single(flat: list[Any]) -> bytes:
    return struct.pack(f"<{len(flat)}f", *flat)


def round_half(bits: int) -> int:
    """Return the upper half of an FP32, rounded to nearest, ties to even; NaN stays NaN."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def encode_element(element: Any, index: int) -> bytes:
    if is_raw(element):
        try:
            data = decode_raw(element)
        except InvalidTensor as error:
            raise InvalidTensor(f"element {index} is {error.detail}") from error
    elif isinstance(element, str):
        data = encode_text(element, index)
    else:
        raise InvalidTensor(f"element {index} {explain_element(element, Datatype.BYTES)}")
    return struct.pack("<I", len(data)) + data


def encode_text(element: str, index: int) -> bytes:
    try:
        return element.encode()
    except UnicodeEncodeError as error:
        raise InvalidTensor(f"element {index} is not Unicode text: it has half of a surrogate pair") from error
