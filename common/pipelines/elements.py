"""The elements of a tensor along its first axis: `for_each` takes them one by one, and joins what comes of them.

An element keeps the first axis, with size 1. Shapes and data are as in `common.tensors`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from common.errors import CharoniaError
from common.tensors import SIZES, Datatype, Signature, Tensor

LENGTH_BYTES = 4  # before each value of BYTES


class InvalidElements(CharoniaError):
    """A tensor cannot be divided, or tensors cannot be joined."""


class Cursor(NamedTuple):
    """A place between two elements: the number of the next one, and where it begins in the data, in bytes."""

    element: int
    offset: int


START = Cursor(0, 0)


def count_elements(shape: Sequence[int]) -> int:
    """Return the size of the first axis. Raises InvalidElements if there is none."""
    if not shape:
        raise InvalidElements("a tensor of shape [] has no axis; for_each needs one of at least one dimension")
    return shape[0]


def take_element(tensor: Tensor, index: int) -> Tensor:
    """Return one element, of shape [1, *rest]. Of BYTES it scans all before: for many elements use `take_window`.

    Raises IndexError, and InvalidElements if the data are not in the tensor, or too short.
    """
    if not 0 <= index < count_elements(tensor.shape):
        raise IndexError(f"no element {index} in shape {tensor.shape}")
    skipped = find_end(read_data(tensor), tensor.datatype, 0, index * math.prod(tensor.shape[1:]))
    (element,), _ = take_window(tensor, Cursor(index, skipped), 1)
    return element


def take_window(tensor: Tensor, cursor: Cursor, count: int) -> tuple[list[Tensor], Cursor]:
    """Return the next `count` elements, or those that are left, each of shape [1, *rest], and the cursor behind them.

    Raises InvalidElements if the data are not in the tensor, or too short.
    """
    data, rest = read_data(tensor), tensor.shape[1:]
    last = min(cursor.element + count, count_elements(tensor.shape))
    elements, offset, values = [], cursor.offset, math.prod(rest)
    for _ in range(cursor.element, last):
        end = find_end(data, tensor.datatype, offset, values)
        elements.append(Tensor(tensor.name, tensor.datatype, [1, *rest], data[offset:end]))
        offset = end
    return elements, Cursor(last, offset)


def gather(tensors: Sequence[Tensor]) -> Tensor:
    """Return at least one tensor, joined along the first axis, in order. It has the name of the first.

    Raises InvalidElements if datatypes or further dimensions differ, or if the data are not in the tensors.
    """
    first = tensors[0]
    for each in tensors:
        count_elements(each.shape)
        if (each.datatype, each.shape[1:]) != (first.datatype, first.shape[1:]):
            shown = f"{first.datatype} {first.shape} and {each.datatype} {each.shape}"
            raise InvalidElements(f"'{first.name}' cannot be joined: the elements gave {shown}")
    shape = [sum(each.shape[0] for each in tensors), *first.shape[1:]]
    return Tensor(first.name, first.datatype, shape, b"".join(map(read_data, tensors)))


def gather_nothing(output: Signature) -> Tensor:
    """Return what `gather` would of no tensors: shape [0, *rest], where a dimension of any size has 0."""
    return Tensor(output.name, output.datatype, [0, *(max(0, size) for size in output.shape[1:])], b"")


def read_data(tensor: Tensor) -> bytes:
    """Return the data of a tensor. Raises InvalidElements if they are elsewhere."""
    if not isinstance(tensor.data, bytes):
        text = f"'{tensor.name}' is in a file or at a URL, and only data in a job can be divided or joined"
        raise InvalidElements(f"{text}; let the model return less, or raise CHARONIA_INLINE_OUTPUT")
    return tensor.data


def find_end(data: bytes, datatype: Datatype, offset: int, count: int) -> int:
    """Return where `count` values end that begin at an offset, in bytes. Raises InvalidElements if the data end before.

    Of BYTES, each value follows its length.
    """
    if datatype is not Datatype.BYTES:
        offset += count * SIZES[datatype]
    else:
        for _ in range(count):
            if offset > len(data):
                break
            offset += LENGTH_BYTES + int.from_bytes(data[offset : offset + LENGTH_BYTES], "little")
    if offset > len(data):
        raise InvalidElements(f"the data end after {len(data)} bytes, within an element")
    return offset
