"""A tensor of which a step takes the elements, a few at a time."""

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from common.jobs.run import Run
from common.pipelines.elements import InvalidElements, count_elements, split
from common.pipelines.run_state import Place
from common.runs.tensor_files import CannotGoOn, TensorFiles
from common.tensors import SIZES, Datatype, FileContent, Tensor

MAX_ELEMENT = 64 * 1024 * 1024  # bytes of one that is cut out of a file
SKIPPED = 1000  # elements that are passed over at a time


class Parts(NamedTuple):
    """The parts of a tensor, as if they were joined along the first axis."""

    total: int
    read: Callable[[int], Awaitable[Tensor]]


class DividedTensor:
    """A tensor in parts, each of which is in a row or in a file. It is never in memory as a whole."""

    def __init__(self, run: Run, parts: Parts, files: TensorFiles | None) -> None:
        self._run = run
        self._parts = parts
        self._files = files

    async def count(self) -> int:
        """Return how many elements there are. Raises InvalidElements and CannotGoOn."""
        return sum([count_elements((await self._parts.read(part)).shape) for part in range(self._parts.total)])

    async def find(self, element: int, limit: int) -> Place:
        """Return the place of an element. It looks at all before it, up to `limit` bytes at a time."""
        place = Place()
        while place.element < element:
            _, place = await self.take(place, min(SKIPPED, element - place.element), limit)
        return place

    async def take(self, place: Place, count: int, limit: int) -> tuple[list[Tensor], Place]:
        """Return the next `count` elements, each of shape [1, *rest], and the place behind them.

        There must be so many. After `limit` bytes it stops, but not before the first element. A part that is one
        element is not copied, so it may be in a file.

        Raises InvalidElements, CannotGoOn and StoreUnavailable.
        """
        found: list[Tensor] = []
        size = 0
        while len(found) < count and (size < limit or not found):
            part = await self._parts.read(place.part)
            length = count_elements(part.shape)
            left = min(count - len(found), length - place.taken)
            if length == 1:
                taken, end = [part], 0
            elif left:
                taken, end = await self._cut(part, place.offset, left, limit - size)
            else:
                taken, end = [], 0
            found += taken
            size += sum(len(each.data) for each in taken if isinstance(each.data, bytes))
            place = Place(place.element + len(taken), place.part, place.taken + len(taken), end)
            if place.taken == length:
                place = Place(place.element, place.part + 1)
        return found, place

    async def _cut(self, part: Tensor, offset: int, count: int, limit: int) -> tuple[list[Tensor], int]:
        """Cut up to `count` elements out of a part of several, from an offset on. Return the offset behind them."""
        if not isinstance(part.data, FileContent):
            return split(part, offset, count, limit)
        assert self._files is not None, "a gateway divides no file"
        size = measure_element(part)
        wanted = max(size, min(limit, count * size)) if size else limit
        while wanted <= MAX_ELEMENT:
            data = await self._files.read(self._run, part, offset, offset + wanted)
            try:
                taken, end = split(Tensor(part.name, part.datatype, part.shape, data), 0, count, limit)
            except InvalidElements:  # an element of BYTES may be larger
                if offset + wanted >= part.data.size:
                    raise
                wanted *= 2
            else:
                return taken, offset + end
        raise CannotGoOn(f"an element of '{part.name}' has over {MAX_ELEMENT} bytes; for_each takes smaller ones")


def measure_element(tensor: Tensor) -> int:
    """Return the bytes of an element, or 0 if elements differ."""
    if tensor.datatype is Datatype.BYTES:
        return 0
    return SIZES[tensor.datatype] * math.prod(tensor.shape[1:])
