"""Saves the model catalogue."""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from common.postgres import sql
from common.postgres.database import Database, to_columns
from common.tensors import Signature
from services.dispatcher.models.concurrency import count_slots
from services.dispatcher.models.loads import Load
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.statistics import Model, Times
from services.dispatcher.triton.unloaded import Unloaded

Limits = Mapping[str, str]  # by model, why fewer jobs of it run at a time than there are slots

UNKNOWN: Mapping[Model, Times] = MappingProxyType({})
UNLIMITED: Limits = MappingProxyType({})
NO_LOADS: Mapping[Model, Load] = MappingProxyType({})
QUERIES = sql.load("services.dispatcher.models")


class ModelStore:
    """One dispatcher's rows of the catalogue."""

    def __init__(
        self, database: Database, worker: str, read_session: Callable[[], int | None] = lambda: None, slots: int = 0
    ) -> None:
        """`worker` is the dispatcher. `read_session` returns its session while it holds the lock.

        `slots` is the setting: 0 means what Triton can use.
        """
        self._database = database
        self._slots = slots
        self._worker = worker
        self._read_session = read_session

    async def save_models(
        self,
        versions: Sequence[tuple[ModelVersion, bool]],
        times: Mapping[Model, Times] = UNKNOWN,
        limits: Limits = UNLIMITED,
        loads: Mapping[Model, Load] = NO_LOADS,
        in_repository: Collection[Model] = (),
    ) -> None:
        """Save each version with whether it is ready, and its load if that is known.

        `times` are what Triton reports of recent requests. Triton may load those that are `in_repository`.
        """
        rows = [
            (
                model.name,
                model.version,
                ready,
                model.decoupled,
                model.max_batch_size,
                model.instances,
                self._slots or count_slots(model.instances, model.max_batch_size),
                msgspec.json.encode(model.inputs).decode(),
                msgspec.json.encode(model.outputs).decode(),
                *times.get((model.name, model.version), (None, None)),
                limits.get(model.name),
                msgspec.json.encode(model.settings).decode(),
                *loads.get((model.name, model.version), (None, None)),
                (model.name, model.version) in in_repository,
            )
            for model, ready in versions
        ]
        await self._database.fetch(QUERIES["save_models"], *to_columns(rows, 16), self._worker, self._read_session())

    async def find_known(self, names: Collection[str]) -> list[ModelVersion]:
        """Return what the versions of these models declared when they were last described, by any dispatcher."""
        found = []
        for row in await self._database.fetch(QUERIES["find_known"], list(names)):
            with contextlib.suppress(msgspec.ValidationError):  # of a later release: known once it is loaded
                found.append(read_declared(dict(row)))
        return found

    async def save_unloaded(self, unloaded: Unloaded) -> None:
        """Replace this dispatcher's reasons why models do not run."""
        rows = [(name, version, reason) for (name, version), reason in sorted(unloaded.items())]
        await self._database.fetch(QUERIES["save_unloaded"], *to_columns(rows, 3), self._worker)

    async def retire_models(self, grace: float) -> list[tuple[str, str]]:
        """Remove versions that no Triton has served for `grace` seconds. Return their names and versions.

        Also remove what is left of lost dispatchers, and of loads that are gone.
        """
        await self._database.fetch(QUERIES["remove_lost"])
        await self._database.fetch(QUERIES["forget_dispatchers"])
        await self._database.fetch(QUERIES["forget_loads"])
        found = await self._database.fetch(QUERIES["retire_models"], grace)
        return [(record["name"], record["version"]) for record in found]


def read_declared(row: Mapping[str, Any]) -> ModelVersion:
    """Return what a row declares. Raise msgspec.ValidationError for a datatype of a later release."""
    return ModelVersion(
        name=row["name"],
        version=row["version"],
        decoupled=row["decoupled"],
        max_batch_size=row["max_batch_size"],
        instances=row["instances"],
        inputs=msgspec.json.decode(row["inputs"], type=list[Signature]),
        outputs=msgspec.json.decode(row["outputs"], type=list[Signature]),
        settings=msgspec.json.decode(row["settings"], type=dict[str, str]),
    )
