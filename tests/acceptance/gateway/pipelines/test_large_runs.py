"""A run of 10,000 elements: it takes turns with other tenants, ends at once if canceled, and needs no more memory."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from common.pipelines.advance import WINDOW
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.conftest import ENVIRONMENT, open_client
from tests.support.api.api_client import Api, Job
from tests.support.api.large_outputs import measure_peak
from tests.support.api.model_inputs import work
from tests.support.stacks.guest_stack import GuestStack
from tests.support.waiting import eventually

ELEMENTS = 10_000
MIB = 1024 * 1024


def divide(model: str, name: str, output: str, datatype: str) -> dict[str, Any]:
    """Return a pipeline that runs a model for each row of its input."""
    return {
        "inputs": {name: {"datatype": datatype, "shape": [-1, -1]}},
        "steps": {"rows": {"model": model, "inputs": {name: f"$inputs.{name}"}, "for_each": name}},
        "outputs": {output: f"$rows.{output}"},
    }


async def store(api: Api, name: str, definition: object) -> bool:
    """Return whether the pipeline is stored. It cannot be before its models are in the catalogue."""
    return (await api.http.put(f"/v1/pipelines/{name}", json=definition)).status_code in (200, 201)


async def wait_for_rows(api: Api, run: str, count: int) -> Job:
    """Return the run once so many of its rows have succeeded."""

    async def poll() -> Job | None:
        job = await api.get(run)
        assert job.steps is not None
        return job if job.steps["rows"].done >= count else None

    return await eventually(poll, f"{count} rows have succeeded")


async def list_live(api: Api, run: str) -> Sequence[Job]:
    return [
        job
        for status in ("queued", "processing", "canceling")
        for job in await api.list_all_jobs(parent=run, status=status)
    ]


SLOTS = 16  # rows that run at once
ROW_MS = 400  # so that few rows start while a machine without free cores looks for whose turn it is
PROBES = 5  # jobs, one after the other, all while the run lasts
MOST_BEFORE = 3 * SLOTS  # rows that start before a probe does; by order of submission it would be almost WINDOW


async def test_a_large_run_takes_turns_and_ends_at_once_if_canceled(api: Api, other_tenant: Api) -> None:
    assert await store(other_tenant, "rows", divide("work", "ms", "slept", "INT32"))
    run = await other_tenant.submit("rows", {"ms": [[ROW_MS]] * ELEMENTS})
    await wait_for_rows(other_tenant, run.id, 2 * SLOTS)
    probes = [await api.run("work", work(ROW_MS)) for _ in range(PROBES)]

    canceled = await other_tenant.http.post(f"/v1/jobs/{run.id}/cancel")
    assert (canceled.status_code, canceled.json()["status"]) == (202, "canceled")
    assert not await other_tenant.list_all_jobs(parent=run.id, status="queued")  # those that run end a little later

    async def is_over() -> bool:
        return not await list_live(other_tenant, run.id)

    await eventually(is_over, "no row is live")
    rows = await other_tenant.list_all_jobs(parent=run.id, step="rows", limit=100)
    assert 0 < sum(row.status == "canceled" for row in rows) <= WINDOW  # so a cancel is quick, however large the run is
    assert len(rows) < ELEMENTS // 2, "the rows were over before the probes"
    starts = [row.started_at for row in rows if row.started_at is not None]
    assert {(probe.status, probe.started_at is not None) for probe in probes} == {("succeeded", True)}
    before = [count_between(starts, probe.created_at, probe.started_at) for probe in probes]
    assert max(before) <= MOST_BEFORE, before


def count_between(times: Sequence[datetime], begin: datetime, end: datetime | None) -> int:
    return sum(end is not None and begin <= each < end for each in times)


GROWTH = 8 * MIB  # of a service, for nine times as many elements more
WIDTH = 4
RUN_SECONDS = 240.0


@pytest.fixture
async def own_stack(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A stack whose services have run nothing yet."""
    settings = Settings.private(tmp_path_factory.mktemp("large-runs"))
    own = GuestStack(stack, replace(settings, environment=ENVIRONMENT))
    try:
        await asyncio.to_thread(own.start)
        yield own
    finally:
        await asyncio.to_thread(own.stop)
        own.postgres.delete()


async def run_rows(api: Api, count: int) -> Job:
    """Run a pipeline of this many rows, and check its outputs and events."""
    values = [float(number % 1000) for number in range(count * WIDTH)]
    tensor = {"name": "x", "datatype": "FP32", "shape": [count, WIDTH], "data": values}
    submitted = await api.post({"model": "rows", "inputs": [tensor]})
    run = await api.wait(submitted.id, within=RUN_SECONDS)
    assert (run.status, run.error) == ("succeeded", None)
    assert run.output("y") == [2 * value for value in values]
    return run


async def test_a_large_run_needs_no_more_memory_than_a_small_one(own_stack: Stack) -> None:
    services: list[Service] = [own_stack.gateways[0], own_stack.dispatchers[0]]
    async with open_client(own_stack, DEVELOPMENT_KEY) as api:
        await eventually(lambda: store(api, "rows", divide("echo", "x", "y", "FP32")), "the model is in the catalogue")
        await run_rows(api, ELEMENTS // 10)
        before = [measure_peak(service) for service in services]
        run = await run_rows(api, ELEMENTS)
        grown = {each.kind: measure_peak(each) - peak for each, peak in zip(services, before, strict=True)}
        assert max(grown.values()) < GROWTH, grown
        await check_events(api, run.id)


async def check_events(api: Api, run: str) -> None:
    """Check that a page of the events is small, and that the stream has all of them."""
    page = await api.http.get(f"/v1/jobs/{run}/events", params={"limit": 100})
    assert (page.status_code, len(page.json()["items"])) == (200, 100)
    assert page.json()["next_cursor"] is not None
    counts = {"step.started": 0, "step.succeeded": 0, "job.succeeded": 0}
    async with asyncio.timeout(RUN_SECONDS):
        async with api.http.stream("GET", f"/v1/jobs/{run}/events", headers={"accept": "text/event-stream"}) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: ") and (kind := line.removeprefix("event: ")) in counts:
                    counts[kind] += 1
    assert counts == {"step.started": 1, "step.succeeded": ELEMENTS, "job.succeeded": 1}
    assert WIDTH * array("f").itemsize * ELEMENTS < 256 * 1024, "the outputs stay in the job"
