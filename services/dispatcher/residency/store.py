"""Reads and saves what is known of the models of one Triton."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from common.errors import CharoniaError
from common.postgres import sql
from common.postgres.database import Database, to_columns
from services.dispatcher.residency.rule import Phase
from services.dispatcher.triton.declared_memory import read_keep, read_memory
from services.dispatcher.triton.model_version import read_steps

QUERIES = sql.load("services.dispatcher.residency")


class NotLeading(CharoniaError):
    """Another process leads the role, so this one must not act."""


class Residency(msgspec.Struct, kw_only=True):
    """The row of a model. Times are seconds of the database's clock, since 1970. Sizes are bytes."""

    name: str
    phase: Phase = Phase.ABSENT
    changed_at: float  # when the phase began
    memory: int | None = None  # what it counts for; None: not known
    measured: int | None = None  # the growth of Triton at a load
    assumed: int | None = None  # more than that, after a load that lacked memory
    keep: bool = False
    load_seconds: float | None = None  # mean of its loads; half the weight is on the last one
    loaded_at: float | None = None
    used_at: float | None = None  # when a job last waited or ran
    arrivals: float = 0.0  # jobs a second, smoothed
    failures: int = 0  # loads in a row that failed
    next_try_at: float | None = None
    reason: str | None = None  # why it is not loaded
    for_model: str | None = None  # the one that gets its room
    place: int | None = None
    expected_at: float | None = None
    why: str | None = None
    left_at: float | None = None  # when it was last unloaded
    lost: int = 0  # of earlier loads that Triton never unloaded


class Found(NamedTuple):
    """A model as rows describe it. `is_known`: a dispatcher has described it once, or nobody needs that: it is paused.

    A paused model is not kept.
    """

    row: Residency
    is_known: bool
    declared: int | None
    compute_seconds: float | None
    slots: int  # jobs that Triton runs at once
    serving: bool  # a live dispatcher of this Triton starts jobs
    elsewhere: int
    steps: Sequence[str]  # the models of an ensemble
    reloads: bool  # a dispatcher loads it again after a quarantine


class ResidencyStore:
    def __init__(self, database: Database, server: str, worker: str) -> None:
        """`server` is the same for one Triton only. `worker` is this dispatcher."""
        self.role = f"residency {server}"
        self.server = server
        self._database = database
        self._worker = worker

    async def join(self, patterns: Sequence[str], budget: int) -> None:
        """Record which Triton this dispatcher has, which models it runs, and the bytes for models there.

        Raises Unavailable.
        """
        await self._database.fetch(QUERIES["note_server"], self._worker, self.server, list(patterns), budget)
        await self._database.fetch(QUERIES["add_role"], self.role)

    async def leave(self) -> None:
        """Forget what `join` recorded of this dispatcher before its last start. Raises Unavailable."""
        await self._database.fetch(QUERIES["forget_server"], self._worker)

    async def list_patterns(self) -> list[str]:
        """Return the patterns of the live dispatchers of this Triton."""
        return [row["pattern"] for row in await self._database.fetch(QUERIES["list_patterns"], self.server)]

    async def list_models(self, names: Collection[str]) -> tuple[float, list[Found]]:
        """Return the time, and what is known of these models. A new one has been absent since now."""
        rows = await self._database.fetch(QUERIES["list_models"], self.server, sorted(names))
        return max((row["now"] for row in rows), default=0.0), [read_found(dict(row)) for row in rows]

    async def save(self, rows: Sequence[Residency], holder: str) -> None:
        """Save rows if `holder` leads the role. Raises NotLeading, or Unavailable."""
        values = [msgspec.structs.astuple(row) for row in rows]
        columns = to_columns(values, len(Residency.__struct_fields__))
        found = await self._database.fetch_one(QUERIES["save_residencies"], self.server, self.role, holder, *columns)
        if found is None or not found["leads"]:
            raise NotLeading("another dispatcher decides what this Triton holds")

    async def remove_others(self, names: Collection[str], holder: str) -> None:
        """Remove the rows of all models but these, and what Tritons left that are gone."""
        await self._database.fetch(QUERIES["remove_residencies"], self.server, list(names), self.role, holder)

    async def list_phases(self) -> dict[str, Phase]:
        """Return the phases of the models that are not absent."""
        found = await self._database.fetch(QUERIES["list_phases"], self.server)
        return {row["name"]: Phase(row["phase"]) for row in found}

    async def note_drains(self, models: Collection[str]) -> None:
        """Record that this dispatcher starts no more jobs of these models."""
        await self._database.fetch(QUERIES["note_drains"], self._worker, list(models))


def read_found(row: Mapping[str, Any]) -> Found:
    own = {name: row[name] for name in Residency.__struct_fields__}
    own = own | {"phase": Phase(row["phase"])} if row["phase"] else {"name": row["name"], "changed_at": row["now"]}
    settings = {} if row["settings"] is None else msgspec.json.decode(row["settings"], type=dict[str, str])
    residency = Residency(**own)
    residency.keep = read_keep(settings) and not row["paused"]
    return Found(
        row=residency,
        is_known=row["settings"] is not None or row["paused"],
        declared=read_memory(settings),
        compute_seconds=None if row["compute_ms"] is None else row["compute_ms"] / 1000,
        slots=row["slots"] or 1,
        serving=row["serving"],
        elsewhere=row["elsewhere"],
        steps=read_steps(settings),
        reloads=row["reloads"],
    )
