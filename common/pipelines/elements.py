"""The elements of a tensor along its first axis: `for_each` takes them one by one, and joins what comes of them.

An element keeps the first axis, with size 1. Shapes and data are as in `common.tensors`.
"""

import math
from collections.abc import Sequence

from common.errors import CharoniaError
from common.tensors import SIZES, Datatype, Signature, Tensor

LENGTH_BYTES = 4  # before each value of BYTES


class InvalidElements(CharoniaError):
    """A tensor cannot be divided, or tensors cannot be joined."""


def count_elements(shape: Sequence[int]) -> int:
    """Return the size of the first axis. Raises InvalidElements if there is none."""
    if not shape:
        raise InvalidElements("a tensor of shape [] has no axis; for_each needs one of at least one dimension")
    return shape[0]


def split(tensor: Tensor, offset: int, count: int, limit: int) -> tuple[list[Tensor], int]:
    """Return up to `count` elements from an offset on, each of shape [1, *rest], and the offset behind them, in bytes.

    The data may end before the tensor does: an element that is not whole is left out. After `limit` bytes it stops, but
    not before the first element. Raises InvalidElements if not even the first one is whole.
    """
    data, rest = read_data(tensor), tensor.shape[1:]
    elements: list[Tensor] = []
    begin, values = offset, math.prod(rest)
    while len(elements) < count and (offset - begin < limit or not elements):
        try:
            end = find_end(data, tensor.datatype, offset, values)
        except InvalidElements:
            if not elements:
                raise
            break
        elements.append(Tensor(tensor.name, tensor.datatype, [1, *rest], data[offset:end]))
        offset = end
    return elements, offset


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
        raise InvalidElements(f"the data of '{tensor.name}' are in a file or at a URL, and must be read first")
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
