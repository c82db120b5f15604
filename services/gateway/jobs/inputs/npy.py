"""Reads the header of an .npy file. Pure.

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html describes the format.
"""

import ast
import re
import struct
from typing import Any, NamedTuple

from common.tensors import Datatype

MAGIC = b"\x93NUMPY"
HEAD_BYTES = 16 * 1024  # that are read of a file: NumPy itself takes headers up to 10,000 bytes
VERSIONS = (1, 2, 3)
MAX_RANK = 32
LARGEST_SIZE = 2**63 - 1  # of a dimension, as in Triton
DATATYPES = {
    "b1": Datatype.BOOL,
    "u1": Datatype.UINT8,
    "u2": Datatype.UINT16,
    "u4": Datatype.UINT32,
    "u8": Datatype.UINT64,
    "i1": Datatype.INT8,
    "i2": Datatype.INT16,
    "i4": Datatype.INT32,
    "i8": Datatype.INT64,
    "f2": Datatype.FP16,
    "f4": Datatype.FP32,
    "f8": Datatype.FP64,
    "V2": Datatype.BF16,  # how NumPy saves the bfloat16 of ml_dtypes
}
_DESCR = re.compile(r"([<>|=])(\w{1,10})")


class NpyHeader(NamedTuple):
    """What an .npy file says about its array, and the bytes before the first element."""

    datatype: Datatype
    shape: list[int]
    offset: int


class InvalidNpy(Exception):
    """A file begins as an .npy file, but Triton cannot take its array as it is."""


def describe_npy(head: bytes) -> NpyHeader | str | None:
    """Return the header of a file that begins like this, or why it is invalid. None for any other file."""
    if not head.startswith(MAGIC):
        return None
    try:
        return read_npy_header(head)
    except InvalidNpy as error:
        return str(error)


def read_npy_header(head: bytes) -> NpyHeader:
    """Return the header at the beginning of a file. Raises InvalidNpy."""
    fields, offset = _read_fields(head)
    descr, shape = fields.get("descr"), fields.get("shape")
    if (
        not isinstance(shape, tuple)
        or len(shape) > MAX_RANK
        or not all(type(size) is int and 0 <= size <= LARGEST_SIZE for size in shape)
    ):
        raise InvalidNpy("its header has no valid shape; save it again with numpy.save")
    found = _DESCR.fullmatch(descr) if isinstance(descr, str) else None
    if found is None or found[2] not in DATATYPES:
        raise InvalidNpy(
            f"its elements are {_show(descr)}, which Triton has no datatype for; convert the array with astype"
        )
    if found[1] == ">" and found[2][1:] != "1":
        raise InvalidNpy(f"its elements are big-endian ({descr}); save array.astype('<{found[2]}')")
    if fields.get("fortran_order") is not False and len(shape) > 1:
        raise InvalidNpy("its array is in Fortran order; save numpy.ascontiguousarray(array)")
    return NpyHeader(DATATYPES[found[2]], list(shape), offset)


def _show(descr: object) -> str:
    try:
        text = str(descr)
    except ValueError:  # a hexadecimal number with more decimal digits than Python writes
        return "an invalid type"
    return text.encode("ascii", "backslashreplace").decode()[:100]  # a lone surrogate has no UTF-8


def _read_fields(head: bytes) -> tuple[dict[Any, Any], int]:
    """Return the dictionary of a header, and the bytes before the first element."""
    try:
        version = head[len(MAGIC)]
        if version not in VERSIONS:
            raise InvalidNpy(f"its format has version {version}, which is unknown; save it again with numpy.save")
        length_format, start = ("<H", 10) if version == 1 else ("<I", 12)
        (length,) = struct.unpack_from(length_format, head, len(MAGIC) + 2)
        offset = start + length
        if offset > len(head):
            raise InvalidNpy("its header is cut, or too long; save it again with numpy.save")
        fields = ast.literal_eval(head[start:offset].decode("utf-8" if version >= 3 else "latin-1").strip())
        if not isinstance(fields, dict):
            raise TypeError
    except (IndexError, struct.error, ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise InvalidNpy("its header is not valid; save it again with numpy.save") from error
    return fields, offset
