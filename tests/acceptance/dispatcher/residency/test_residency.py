"""Two dispatchers of a real Triton serve more models than its memory holds."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import asyncpg
import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.dispatcher.residency.served import DECLARED, MEGABYTE, NAMES, OWN, SAMPLE_SECONDS, Served
from tests.support.stacks.broker_connection import wait_for_broker
from tests.support.stacks.sized_models import SizedModels
from tests.support.stacks.triton_stack import TritonStack
from tests.support.waiting import eventually

BUDGET = 192 * MEGABYTE  # for the kept model and two of the others, or the ensemble
TAKEN = 30 * MEGABYTE  # by each model, and as much by its process
PATTERNS = ["m[1-4],kept,twice", "m[2-5],kept,twice"]  # of the dispatchers
ROUNDS = 3
JOBS = 4


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> SizedModels:
    models = SizedModels(tmp_path_factory.mktemp("residency") / "models")
    for name in NAMES:
        models.add(name, TAKEN, memory="70 MB")
    models.add("kept", TAKEN // 3, memory="50 MB", keep="true")
    models.add(OWN, TAKEN // 3)
    models.add_ensemble("twice", "m4", "m5", memory="1 MB")
    return models


@pytest.fixture(scope="module")
def own(stack: Stack, tmp_path_factory: pytest.TempPathFactory, models: SizedModels) -> Iterator[Stack]:
    settings = Settings.private(tmp_path_factory.mktemp("own"), dispatchers=2, notifiers=0)
    environment = {
        "CHARONIA_MODEL_MEMORY": "192 MB",
        "CHARONIA_MODEL_MAX_WAIT": "2",
        "CHARONIA_MODEL_IDLE": "5",
        "CHARONIA_LEASE": "4",
    }
    own = TritonStack(stack, replace(settings, model_repository=models.folder, environment=environment))
    for number, patterns in enumerate(PATTERNS):
        port = own.dispatchers[number].port
        own.dispatchers[number] = make_dispatcher(own, port, f"dispatcher-{number + 1}", patterns)
    try:
        with own:
            wait_for_broker(*own.gateways)
            yield own
    finally:
        own.postgres.delete()


def make_dispatcher(stack: Stack, port: int, name: str, patterns: str) -> Service:
    """Return a dispatcher that runs some models only."""
    return Service("dispatcher", port, stack.environment | {"CHARONIA_MODELS": patterns}, stack.log_dir, name=name)


@pytest.fixture
async def served(own: Stack, models: SizedModels) -> AsyncIterator[Served]:
    database = await asyncpg.connect(own.postgres.url)
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    known = "SELECT count(DISTINCT name) FROM served_models"
    quiet = "SELECT count(*) FROM residencies WHERE phase IN ('loading', 'draining') OR place IS NOT NULL"

    async def is_quiet() -> bool:
        return (await database.fetchval(known), await database.fetchval(quiet)) == (len(DECLARED), 0)

    async with httpx.AsyncClient(base_url=own.url, headers=headers, timeout=90) as http:
        await eventually(is_quiet, "each model was loaded once", within=90)
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
    assert await served.count_swaps() >= ROUNDS


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


async def test_the_leader_loads_models_that_only_the_other_dispatcher_runs(served: Served) -> None:
    assert {*await asyncio.gather(served.run("m1"), served.run("m5"))} == {"succeeded"}


async def test_a_job_that_is_canceled_while_its_model_loads_ends_at_once(served: Served) -> None:
    async with served.held_load() as (model, job):
        await served.cancel_first(model)
        assert await job == "canceled"
        assert (await served.read(model))["phase"] == "loading"
    assert (await served.until(model, "resident"))["failures"] == 0
    assert await served.run(model) == "succeeded"


async def test_an_idle_model_is_unloaded_and_that_is_no_swap(served: Served) -> None:
    model = await served.find_absent()
    assert await served.run(model) == "succeeded"
    await served.until(model, "resident")
    before = await served.count_swaps()
    await served.until(model, "absent")
    assert await served.count_swaps() == before
    assert await served.until("kept", "resident")


async def test_an_ensemble_gets_its_room_and_gives_it_back(served: Served) -> None:
    held: list[set[str]] = []

    async def watch() -> None:
        while True:
            held.append(await served.list_held())
            await asyncio.sleep(SAMPLE_SECONDS)

    assert {*await asyncio.gather(served.run("m2"), served.run("m3"))} == {"succeeded"}
    watching = asyncio.create_task(watch())
    assert await served.run("twice") == "succeeded"
    assert await served.list_held() == {"kept", "twice", "m4", "m5"}
    assert {*await asyncio.gather(served.run("m2"), served.run("m3"))} == {"succeeded"}
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert max(sum(DECLARED[name] for name in names) for names in held) * MEGABYTE <= BUDGET


async def test_what_operators_load_and_unload_counts(served: Served) -> None:
    operator, model = served.stack.triton.models, await served.find_absent()
    await asyncio.to_thread(operator.load, OWN)
    await served.until(OWN, "resident")
    assert await served.run(model) == "succeeded"
    await asyncio.to_thread(operator.unload, model)
    await served.until(model, "absent")
    assert await served.run(model) == "succeeded"  # it is loaded again
    assert OWN in await served.list_held()  # Charonia leaves it alone, although it is idle
    await asyncio.to_thread(operator.unload, OWN)


async def test_a_model_that_is_larger_than_the_budget_says_so(served: Served) -> None:
    """The last test: the model stays too large."""
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
