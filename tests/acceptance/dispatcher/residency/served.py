"""What clients and operators see of a stack whose models take more memory than it has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.stacks.sized_models import SizedModels, measure_models
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

MEGABYTE = 10**6
DECLARED = {"kept": 50, "twice": 1} | dict.fromkeys([f"m{number}" for number in range(1, 6)], 70)  # MB
NAMES = [name for name in DECLARED if name.startswith("m")]
BOTH = NAMES[1:4]  # that both dispatchers run
OWN = "own"  # that no dispatcher runs: an operator's
SAMPLE_SECONDS = 0.1


class Served:
    """The stack, its models, and what clients and operators see of them."""

    def __init__(
        self, stack: Stack, models: SizedModels, http: httpx.AsyncClient, database: asyncpg.Connection
    ) -> None:
        self.stack = stack
        self.models = models
        self._http = http
        self._database = database

    async def run(self, model: str) -> str:
        """Return how a job of a model ends."""
        body = {"model": model, "inputs": {"x": [[1.0]]}}
        answer = await self._http.post("/v1/jobs", json=body, headers={"Prefer": "wait=60"})
        assert answer.is_success, answer.text
        status: str = answer.json()["status"]
        return status

    async def get(self, path: str) -> Any:
        """Return what a client sees."""
        answer = await self._http.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    async def see(self, model: str, state: str) -> Any:
        """Return a model as clients see it, once they see it in a state."""

        async def poll() -> Any:
            seen = await self.get(f"/v1/models/{model}")
            return seen if seen["residency"]["state"] == state and seen["ready"] is (state == "resident") else None

        return await eventually(poll, f"clients see that {model} is {state}")

    async def read(self, model: str) -> asyncpg.Record:
        row = await self._find(model)
        assert row is not None
        return row

    async def _find(self, model: str) -> asyncpg.Record | None:
        return await self._database.fetchrow("SELECT *, now() AS now FROM residencies WHERE name = $1", model)

    async def until(self, model: str, phase: str) -> asyncpg.Record:
        """Return the row of a model once it is in a phase."""

        async def poll() -> asyncpg.Record | None:
            row = await self._find(model)
            return row if row is not None and row["phase"] == phase else None

        return await eventually(poll, f"{model} is {phase}")

    async def find_absent(self) -> str:
        """Return a model that Triton does not hold, and that both dispatchers run."""
        found = "SELECT name FROM residencies WHERE phase = 'absent' AND name = ANY($1::text[]) ORDER BY name"
        name: str = await self._database.fetchval(found, BOTH)
        return name

    async def count_hits(self, model: str) -> float:
        """Return how many jobs of a model started without waiting for it."""
        name = "charonia_model_residency_hits_total"
        counts = [await read_metric(f"{each.url}/metrics", name, model=model) for each in self.stack.dispatchers]
        return sum(counts)

    async def find_leader(self) -> Service:
        """Return the dispatcher that decides what Triton holds."""

        async def poll() -> Service | None:
            for each in self.stack.dispatchers:
                if each.process.running and await leads(each):
                    return each
            return None

        return await eventually(poll, "a dispatcher decides")

    @asynccontextmanager
    async def held_load(self) -> AsyncIterator[tuple[str, "asyncio.Task[str]"]]:
        """Load a model for a job. The load lasts until the end of the context."""
        model = await self.find_absent()
        hold = self.models.hold(model)
        try:
            job = asyncio.create_task(self.run(model))
            await self.until(model, "loading")
            yield model, job
        finally:
            hold.unlink()

    async def list_held(self) -> set[str]:
        """Return the models that Triton holds by its index, whether they come, stay or go."""
        index = await asyncio.to_thread(self.stack.triton.models.list_models)
        return {each.name for each in index if each.state in ("LOADING", "READY", "UNLOADING")}

    async def count_swaps(self) -> float:
        counts = [
            await read_metric(f"{each.url}/metrics", "charonia_model_swaps_total") for each in self.stack.dispatchers
        ]
        return sum(counts)

    async def cancel_first(self, model: str) -> None:
        """Cancel the job of a model that has waited longest."""
        (job, *_) = (await self.get(f"/v1/jobs?model={model}&status=queued"))["items"]
        answer = await self._http.post(f"/v1/jobs/{job['id']}/cancel")
        assert answer.is_success, answer.text

    async def watch(self, samples: list[tuple[int, int, bool]]) -> None:
        """Record what the models take by the rows and in truth, and whether the kept one stays, until cancelled."""
        query = (
            "SELECT sum(memory) FILTER (WHERE phase <> 'absent')::bigint AS memory, "
            "bool_and(phase = 'resident') FILTER (WHERE name = 'kept') AS stays FROM residencies"
        )
        pid = self.stack.triton.process.pid
        assert pid is not None
        while True:
            row = await self._database.fetchrow(query)
            assert row is not None
            samples.append((row["memory"], await asyncio.to_thread(measure_models, pid), row["stays"]))
            await asyncio.sleep(SAMPLE_SECONDS)


async def leads(dispatcher: Service) -> bool:
    page = (await asyncio.to_thread(httpx.get, f"{dispatcher.url}/metrics")).text
    return any(
        line.startswith('charonia_leader{role="residency ') and line.endswith(" 1.0") for line in page.splitlines()
    )
