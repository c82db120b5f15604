"""The records of a run of many items, as its journal has them."""

import json
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from charonia.schemas import Failure

FORMAT = 1  # of journals; raise it when an older version could misread what this one writes


class Beginning(msgspec.Struct, frozen=True, tag="begin", tag_field="is"):
    """The first record: what the run is. A run with other arguments must not go on with its file."""

    model: str
    url: str
    fields: dict[str, Any]
    ordered: bool = False
    format: int = FORMAT

    def compare(self, now: "Beginning") -> list[str]:
        """Return what each argument was that is another one now."""
        earlier, later = self._list_arguments(), now._list_arguments()
        return [
            f"{name} was {show(earlier[name])}" if name in earlier else f"{name} was not given"
            for name in earlier | later
            if earlier.get(name) != later.get(name)
        ]

    def _list_arguments(self) -> dict[str, Any]:
        fields = {name: value for name, value in self.fields.items() if name != "model"}
        return {"the model": self.model, "the gateway": self.url, **fields, "ordered": self.ordered}


def show(value: Any) -> str:
    """Return an argument as text."""
    return value if isinstance(value, str) else json.dumps(value)


class Planned(msgspec.Struct, frozen=True, tag="planned", tag_field="is"):
    """A chunk of items that is about to be submitted, and its Idempotency-Key. In a file of items it has a place."""

    first: int  # index of its first item
    count: int
    digest: str
    key: str
    at: datetime
    start: int = 0  # bytes
    end: int = 0


class Submitted(msgspec.Struct, frozen=True, tag="submitted", tag_field="is"):
    """The answer for the latest planned chunk. `refused` has the items that are not in the batch, by index."""

    batch: str | None
    refused: dict[int, Failure]


class Dropped(msgspec.Struct, frozen=True, tag="dropped", tag_field="is"):
    """The latest planned chunk was refused as a whole; its items are planned anew."""


Record = Beginning | Planned | Submitted | Dropped
DECODER = msgspec.json.Decoder(Record)


def read_record(line: bytes) -> Record | None:
    """Return the record of a line, or None for one of a later version."""
    try:
        record = DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if isinstance(record, Beginning) and record.format > FORMAT else record


class Chunk(NamedTuple):
    """A planned chunk, and its answer, if that has arrived."""

    planned: Planned
    submitted: Submitted | None
