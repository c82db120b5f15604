"""The SQL statements about models, one function each."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

import asyncpg
import msgspec

from common.postgres import sql
from common.postgres.database import Database
from common.telemetry.logs import Log
from common.tensors import Signature

QUERIES = sql.load("services.gateway.models")
RECENT_JOBS = 200

ResidencyState: TypeAlias = Literal["absent", "loading", "resident", "draining"]

log = Log("models")


class ModelVersion(msgspec.Struct, frozen=True):
    """A row of the catalogue; shapes include the batch dimension.

    No Triton has ever served a version that is not `declared`, so its inputs are unknown. `reason` says why a version
    does not run; None: it runs, or no dispatcher knows. `settings` are the parameters `charonia.…` of its config.pbtxt,
    and its `backend`.
    """

    name: str
    version: str
    ready: bool
    decoupled: bool
    max_batch_size: int
    inputs: list[Signature]
    outputs: list[Signature]
    max_running: int | None = None
    max_running_per_tenant: int | None = None
    paused: bool = False
    declared: bool = True
    reason: str | None = None
    settings: Mapping[str, str] = {}
    loads: Sequence[UUID] | None = None  # those that answer now; None: a dispatcher does not know its own
    loaded_at: datetime | None = None  # when a dispatcher first saw the oldest of them


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What the dispatchers of a model can do now."""

    model: str
    has_dispatcher: bool  # one that lives runs the model, or waits for Triton to have it
    slots: int  # jobs that run at a time at most; 0: no Triton can run the model
    limited_by: str | None = None  # why a dispatcher now runs fewer at a time; None: none does
    seen_at: datetime | None  # when one of them was last seen
    queue_ms: float | None = None  # how long recent requests waited in Triton's own queue, on average
    compute_ms: float | None = None  # how long Triton computed them, on average
    max_running: int | None = None
    max_running_per_tenant: int | None = None
    paused: bool = False
    reason: str | None = None  # why a version does not run; None: all run, or no dispatcher knows


class Residency(msgspec.Struct, frozen=True, kw_only=True):
    """What the elected dispatcher of a Triton says of a model there. Sizes are bytes."""

    server: str
    model: str
    state: ResidencyState
    is_led: bool = True  # a dispatcher plans the loads of the Triton, and reaches it
    memory: int | None = None  # what it counts for; None: not known
    lost: int = 0  # of earlier loads that Triton never unloaded
    load_seconds: float | None = None
    loaded_at: datetime | None = None
    place: int | None = None  # in the order of loads; None: nobody waits for the model there
    expected_at: datetime | None = None  # when it can probably run
    why: str | None = None  # why it has this place
    reason: str | None = None  # why it is not loaded: the error of the last load, or its size
    budget: int  # what the Triton has for models


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """How long recent jobs waited and ran, in milliseconds: the median and the 95th percentile. None without jobs."""

    jobs: int
    queue_ms: list[float] | None
    inference_ms: list[float] | None


class PausedTenants(NamedTuple):
    tenants: Collection[UUID]
    now: datetime  # by the database's clock
    held_models: Collection[str] = ()  # on a dispatcher of them a suspected poison job runs alone


class ModelStore:
    """The catalogue that the dispatchers maintain, and the depth of each model's queue."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_models(self) -> list[ModelVersion]:
        """Return every version of every model, but not those whose declaration only a later release can read."""
        found = []
        for record in await self._database.fetch(QUERIES["list_models"]):
            try:
                found.append(read_model(record))
            except msgspec.ValidationError as error:
                log.warn_once("model.unreadable", model=record["name"], version=record["version"], error=str(error))
        return found

    async def count_queued(self) -> dict[tuple[str, str], int]:
        """Count waiting jobs by (model, priority)."""
        found = await self._database.fetch(QUERIES["count_queued"])
        return {(record["model"], record["priority"]): record["jobs"] for record in found}

    async def list_workloads(self) -> list[Workload]:
        """Return the workload of every model."""
        found = await self._database.fetch(QUERIES["list_workloads"])
        return [Workload(**{**record, "slots": int(record["slots"])}) for record in found]

    async def list_residencies(self) -> list[Residency]:
        """Return what is known of each model in each Triton whose memory is managed."""
        return [Residency(**record) for record in await self._database.fetch(QUERIES["list_residencies"])]

    async def count_running(self) -> dict[tuple[str, UUID], int]:
        """Count running jobs by (model, tenant)."""
        found = await self._database.fetch(QUERIES["count_running"])
        return {(record["model"], record["tenant_id"]): record["jobs"] for record in found}

    async def list_paused_tenants(self) -> PausedTenants:
        (record,) = await self._database.fetch(QUERIES["list_paused_tenants"])
        return PausedTenants(frozenset(record["tenants"]), record["now"], frozenset(record["held_models"]))

    async def measure_recent(self, tenant_id: UUID, model: str) -> Recent:
        """Return how long the tenant's latest jobs of a model waited and ran."""
        (record,) = await self._database.fetch(QUERIES["measure_recent"], tenant_id, model, RECENT_JOBS)
        return Recent(**record)


def read_model(record: asyncpg.Record) -> ModelVersion:
    signatures = {name: msgspec.json.decode(record[name], type=list[Signature]) for name in ("inputs", "outputs")}
    settings = msgspec.json.decode(record["settings"], type=dict[str, str])
    return ModelVersion(**{**record, **signatures, "settings": settings})
