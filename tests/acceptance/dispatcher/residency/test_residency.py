"""Two dispatchers of a real Triton serve more models than its memory holds."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.support.stacks.broker_connection import wait_for_broker
from tests.support.stacks.sized_models import SizedModels, measure_models
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

MEGABYTE = 10**6
BUDGET = 190 * MEGABYTE  # for the kept model and two of the others
TAKEN = 30 * MEGABYTE  # by each model, and as much by its process
NAMES = [f"m{number}" for number in range(1, 6)]
SAMPLE_SECONDS = 0.1
ROUNDS = 3
JOBS = 4


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
        row = await self._database.fetchrow("SELECT *, now() AS now FROM residencies WHERE name = $1", model)
        assert row is not None
        return row

    async def until(self, model: str, phase: str) -> asyncpg.Record:
        """Return the row of a model once it is in a phase."""

        async def poll() -> asyncpg.Record | None:
            row = await self.read(model)
            return row if row["phase"] == phase else None

        return await eventually(poll, f"{model} is {phase}")

    async def find_absent(self) -> str:
        """Return a model that Triton does not hold."""
        found = "SELECT name FROM residencies WHERE phase = 'absent' AND name = ANY($1::text[]) ORDER BY name"
        name: str = await self._database.fetchval(found, NAMES)
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


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> SizedModels:
    models = SizedModels(tmp_path_factory.mktemp("residency") / "models")
    for name in NAMES:
        models.add(name, TAKEN, memory="70 MB")
    models.add("kept", TAKEN // 3, memory="50 MB", keep="true")
    return models


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, models: SizedModels) -> Iterator[Stack]:
    settings = Settings.private(tmp_path_factory.mktemp("own"), dispatchers=2, notifiers=0)
    environment = {"CHARONIA_MODEL_MEMORY": "190 MB", "CHARONIA_MODEL_MAX_WAIT": "2", "CHARONIA_LEASE": "4"}
    stack = Stack(replace(settings, model_repository=models.folder, environment=environment))
    try:
        with stack:
            wait_for_broker(*stack.gateways)
            yield stack
    finally:
        stack.postgres.delete()


@pytest.fixture
async def served(own: Stack, models: SizedModels) -> AsyncIterator[Served]:
    database = await asyncpg.connect(own.postgres.url)
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    known = "SELECT count(DISTINCT name) FROM served_models"
    quiet = "SELECT count(*) FROM residencies WHERE phase IN ('loading', 'draining') OR place IS NOT NULL"

    async def is_quiet() -> bool:
        return (await database.fetchval(known), await database.fetchval(quiet)) == (len(NAMES) + 1, 0)

    async with httpx.AsyncClient(base_url=own.url, headers=headers, timeout=90) as http:
        await eventually(is_quiet, "each model was loaded once")
        yield Served(own, models, http, database)
    await database.close()


async def test_jobs_of_more_models_than_fit_all_end(served: Served) -> None:
    samples: list[tuple[int, int, bool]] = []
    watching = asyncio.create_task(served.watch(samples))
    for _ in range(ROUNDS):
        ends = await asyncio.gather(*(served.run(name) for name in NAMES for _ in range(JOBS)))
        assert {*ends} == {"succeeded"}
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    by_rows, by_server, stays = zip(*samples, strict=True)
    assert max(by_rows) <= BUDGET
    assert max(by_server) <= BUDGET
    assert max(by_server) > 3 * TAKEN  # two models and the kept one were there at once
    assert all(stays)
    swaps = [
        await read_metric(f"{each.url}/metrics", "charonia_model_swaps_total") for each in served.stack.dispatchers
    ]
    assert sum(swaps) >= ROUNDS


async def test_a_job_that_finds_its_model_counts_as_a_hit(served: Served) -> None:
    for model, is_hit in (("kept", True), (await served.find_absent(), False)):
        before = await served.count_hits(model)
        assert await served.run(model) == "succeeded"
        assert await served.count_hits(model) == before + is_hit


async def test_clients_see_what_triton_holds_and_what_a_job_waits_for(served: Served) -> None:
    absent = await served.find_absent()
    seen = await served.see(absent, "absent")
    assert (seen["reason"], [each["reason"] for each in seen["versions"]]) == (None, [None])
    assert (seen["residency"]["memory"], seen["residency"]["place"], seen["residency"]["why"]) == (
        70 * MEGABYTE,
        None,
        None,
    )
    assert seen["residency"]["load_seconds"] > 0
    async with served.held_load() as (model, job):
        assert model == absent
        residency = (await served.see(model, "loading"))["residency"]
        assert (residency["place"], residency["why"]) == (1, "It is being loaded.")
        (waits,) = (await served.get(f"/v1/jobs?model={model}&status=queued"))["items"]
        assert waits["waiting_for"]["code"] == "model_loading"
        assert waits["waiting_for"]["detail"].startswith("Triton is loading the model")
        assert 0 < (await served.get("/v1/models"))["memory"]["used"] <= BUDGET
    assert await job == "succeeded"
    assert (await served.see(model, "resident"))["residency"]["place"] is None
    assert (await served.get("/v1/models"))["memory"]["budget"] == BUDGET


async def test_a_killed_leader_leaves_its_load_to_the_next_one(served: Served) -> None:
    leader = await served.find_leader()
    async with served.held_load() as (model, job):
        await asyncio.to_thread(leader.kill)
        try:
            assert await served.find_leader() is not leader
            await served.until(model, "loading")
        finally:
            await asyncio.to_thread(leader.start)
            await asyncio.to_thread(leader.wait_ready)
    assert await job == "succeeded"
    row = await served.until(model, "resident")
    assert (row["failures"], row["reason"]) == (0, None)


async def test_triton_killed_during_a_load_loses_no_job(served: Served) -> None:
    async with served.held_load() as (model, job):
        await asyncio.to_thread(served.stack.triton.kill)
        await asyncio.to_thread(served.stack.triton.start)
        await asyncio.to_thread(served.stack.triton.wait_ready)
        assert (await served.until(model, "absent"))["failures"] == 1
    assert await job == "succeeded"
    await served.until("kept", "resident")


async def test_a_load_that_fails_says_why_and_backs_off(served: Served) -> None:
    model = await served.find_absent()
    broken = served.models.break_loads(model, "the weights are torn")
    job = asyncio.create_task(served.run(model))

    async def has_failed_twice() -> asyncpg.Record | None:
        row = await served.read(model)
        return row if row["failures"] == 2 and row["phase"] == "absent" else None

    row = await eventually(has_failed_twice, "two loads have failed")
    assert "the weights are torn" in (await served.see(model, "absent"))["reason"]
    assert "the weights are torn" in row["reason"]
    assert str(served.models.folder) not in row["reason"]
    assert 0 < (row["next_try_at"] - row["now"]).total_seconds() <= 10
    others = [name for name in NAMES if name != model]
    assert {*await asyncio.gather(*(served.run(name) for name in others))} == {"succeeded"}  # it holds up nobody
    broken.unlink()
    assert await job == "succeeded"
    row = await served.until(model, "resident")
    assert (row["failures"], row["next_try_at"], row["reason"]) == (0, None, None)


async def test_a_model_that_is_larger_than_the_budget_says_so(served: Served) -> None:
    model = await served.find_absent()
    await served.run(model)
    served.models.declare(model, memory="1 GiB")
    pid = served.stack.triton.process.pid
    assert pid is not None
    await asyncio.to_thread(served.stack.triton.models.load, model)  # an operator's

    async def says_so() -> asyncpg.Record | None:
        row = await served.read(model)
        return row if row["phase"] == "absent" and row["reason"] is not None else None

    row = await eventually(says_so, "it was unloaded, and says why")
    assert row["reason"].startswith(f"it takes {2**30} bytes, and CHARONIA_MODEL_MEMORY is {BUDGET}")
    assert {*await asyncio.gather(*(served.run(name) for name in NAMES if name != model))} == {"succeeded"}
