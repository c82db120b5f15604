"""Statements whose parameters have names.

`:lease` is a value, as in psql. `:ends.claim` is an array: the attribute `claim` of each of `ends`.
"""

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Protocol

import asyncpg

from common.postgres import sql

PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*(?:\.\w+)*)")


class Executor(Protocol):
    """A pool, for a transaction of its own, or a connection."""

    def fetch(self, query: str, /, *values: Any) -> Any: ...


class Statement:
    def __init__(self, text: str) -> None:
        """`text` is SQL with named parameters."""
        names = list(dict.fromkeys(PARAMETER.findall(text)))
        self.text = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
        self._needed = {name.partition(".")[0] for name in names}
        self._readers = [make_reader(name) for name in names]

    def bind(self, **values: Any) -> list[object]:
        """Return the values of $1, $2 and so on. Raises TypeError if a name is missing or unknown."""
        if values.keys() != self._needed:
            wrong = sorted(values.keys() ^ self._needed)
            raise TypeError(f"the statement takes {sorted(self._needed)}; missing or unknown: {wrong}")
        return [read(values) for read in self._readers]

    async def run(self, executor: Executor, /, **values: Any) -> list[asyncpg.Record]:
        """Return the rows of the statement. It raises what `executor` raises."""
        rows: list[asyncpg.Record] = await executor.fetch(self.text, *self.bind(**values))
        return rows


def make_reader(name: str) -> Callable[[Mapping[str, Any]], object]:
    """Return a function that reads a parameter from values by name."""
    rows, _, attribute = name.partition(".")
    if not attribute:
        return lambda values: values[name]
    read = attrgetter(attribute)
    return lambda values: [read(row) for row in values[rows]]


def load(package: str, file: str) -> dict[str, Statement]:
    """Return the statements of a package's file by name."""
    return {name: Statement(text) for name, text in sql.load(package, file).items()}
