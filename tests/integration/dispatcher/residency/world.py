"""A Triton in memory, and its leader, with a real database."""

from typing import Any
from uuid import UUID

from tritonclient.grpc import service_pb2 as pb

from common.postgres.database import Database
from common.postgres.leadership import LeaseStore
from services.dispatcher.residency.memory import Meter
from services.dispatcher.residency.planner import Limits, Planner
from services.dispatcher.residency.store import ResidencyStore
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.quarantine import Quarantine
from services.dispatcher.triton.statistics import Model, Totals
from tests.integration.jobs import submit
from tests.integration.waiting import until

SERVER = "triton:8001"
BUDGET = 200
MAX_WAIT = 60.0


class FakeTriton(TritonClient):
    """Loads and unloads at once. Models are in one of the states of the index."""

    def __init__(self, *names: str) -> None:
        self.quarantine = Quarantine()
        self.states = dict.fromkeys(names, "")
        self.calls: list[str] = []
        self.refuses = False  # to unload

    async def ask(self, method: str, request: Any, seconds: float = 3.0) -> Any:
        index = pb.RepositoryIndexResponse.ModelIndex
        if method == "RepositoryModelUnload":
            self.calls.append(f"unload {request.model_name}")
            if self.refuses:
                raise TritonUnavailable("explicit model load / unload is not allowed")
            self.states[request.model_name] = "UNAVAILABLE"
        return pb.RepositoryIndexResponse(
            models=[index(name=name, version="1", state=state) for name, state in self.states.items()]
        )

    async def load(self, model: str) -> None:
        self.calls.append(f"load {model}")
        self.states[model] = "READY"

    async def read_statistics(self) -> dict[Model, Totals]:
        return {}


class World:
    """A Triton with two models that fit, and a third one, and its leader."""

    def __init__(self, database: Database, triton: FakeTriton) -> None:
        self.database = database
        self.triton = triton
        self.lease = LeaseStore(database, f"residency {SERVER}")
        self.store = ResidencyStore(database, SERVER, "w")
        self.planner = self.make_planner(self.store)

    def make_planner(self, store: ResidencyStore) -> Planner:
        limits = Limits(BUDGET, MAX_WAIT, None)
        return Planner(self.database, store, self.triton, Meter(""), limits, self.lease.holder)

    async def look(self) -> list[str]:
        """Return the calls to Triton after a look, and once they have ended."""
        before = len(self.triton.calls)
        await self.planner.look()
        await until(self._is_quiet, "the calls have ended")
        return self.triton.calls[before:]

    async def _is_quiet(self) -> bool:
        return self.planner.is_quiet

    async def age(self) -> None:
        """Let two minutes pass for the phases. Another process leads from now on."""
        ago = "interval '2 minutes'"
        await self.database.fetch(f"UPDATE residencies SET changed_at = changed_at - {ago}, left_at = left_at - {ago}")  # noqa: S608 -- a constant
        self.planner = self.make_planner(self.store)

    async def lost(self, model: str) -> int:
        """Return the bytes that unloads of a model hold which never ended."""
        (row,) = await self.database.fetch("SELECT lost FROM residencies WHERE name = $1", model)
        lost: int = row["lost"]
        return lost

    async def phases(self) -> dict[str, str]:
        rows = await self.database.fetch("SELECT name, phase FROM residencies ORDER BY name")
        return {row["name"]: row["phase"] for row in rows}

    async def submit_overdue(self, tenant: UUID, model: str) -> UUID:
        """Submit a job that has waited for too long."""
        job = await submit(self.database, tenant, model=model)
        await self.database.fetch("UPDATE live_jobs SET run_at = now() - interval '10 minutes' WHERE id = $1", job)
        return job

    async def drained(self, model: str) -> None:
        """Let the dispatcher say that it starts no more jobs of a model."""
        await self.store.note_drains([model])
