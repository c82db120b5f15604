"""Scenarios of pipelines: stored, run, canceled, retried and erased, while answers are lost."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.api.model_inputs import fault, work
from tests.support.lost_answers.statements import list_statements
from tests.support.lost_answers.world import DELIVERY_SECONDS, Client, World

LARGE = {"x": [[1.0] * 2000]}  # 8,000 bytes: the input and the output are in files
MATRIX = {"datatype": "FP32", "shape": [-1, -1]}
CHAIN = {
    "inputs": {"x": MATRIX},
    "steps": {
        "first": {"model": "echo", "inputs": {"x": "$inputs.x"}},
        "rows": {"model": "echo", "inputs": {"x": "$first.y"}, "for_each": "x"},
        "last": {"model": "echo", "inputs": {"x": "$rows.y"}},
    },
    "outputs": {"y": "$last.y"},
}
SINGLE = {
    "inputs": {"x": MATRIX},
    "steps": {"only": {"model": "echo", "inputs": {"x": "$inputs.x"}}},
    "outputs": {"y": "$only.y"},
}
SLOW = {
    "inputs": {"ms": {"datatype": "INT32", "shape": [-1, 1]}},
    "steps": {"work": {"model": "work", "inputs": {"ms": "$inputs.ms"}}},
    "outputs": {"slept": "$work.slept"},
}
BROKEN: dict[str, Any] = {
    "inputs": {"mode": {"datatype": "BYTES", "shape": [1]}},
    "steps": {"only": {"model": "faulty", "inputs": {"mode": "$inputs.mode"}, "retry": {"max_attempts": 1}}},
    "outputs": {"result": "$only.result"},
}
BROKEN_ROWS = BROKEN | {"steps": {"only": BROKEN["steps"]["only"] | {"for_each": "mode"}}}
PIPELINES = {"chain": CHAIN, "single": SINGLE, "slow_chain": SLOW, "broken": BROKEN, "broken_rows": BROKEN_ROWS}
OWN = [  # statements that only runs and pipelines need, in folders of others
    "add_runs",
    "add_step_events",
    "begin_run",
    "cancel_steps",
    "count_step_jobs",
    "end_run",
    "erase_steps",
    "find_due_runs",
    "find_kin",
    "find_overdue_runs",
    "find_pipelines",
    "list_failed_steps",
    "list_jobs_of_run",
    "list_pipelines",
    "list_step_jobs",
    "list_versions",
    "lock_free_runs",
    "lock_runs",
    "read_outputs",
    "record_start",
    "save_states",
    "schedule_run",
    "use_key",
]


def list_own() -> list[str]:
    """Return the statements that only runs and pipelines need."""
    names = {each: each.partition(": ")[2] for each in list_statements()}
    folders = ("common/runs: ", "gateway/pipelines: ")
    return [each for each, name in names.items() if each.startswith(folders) or name in OWN]


async def run_pipelines(world: World) -> None:
    """Rounds of all that can be done with pipelines, until an answer of each statement was lost."""
    own = list_own()
    async with asyncio.timeout(DELIVERY_SECONDS):
        await do_all(world)
        while world.loser.list_missing(own):
            await do_all(world)


async def do_all(world: World) -> None:
    for client in (world.client, world.other):
        for name, definition in PIPELINES.items():
            await client.call("PUT", f"/v1/pipelines/{name}", 200, 201, json=definition)
    await asyncio.gather(
        read(world.client),
        succeed(world.client),
        cancel(world.client),
        fail(world.client),
        take_too_long(world.client),
        erase(world.other),
        delete(world.client),
    )


async def read(client: Client) -> None:
    for path in ("/v1/pipelines", "/v1/pipelines/chain", "/v1/models", "/v1/models/chain"):
        await client.get(path)


async def succeed(client: Client) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1)
    runs = [
        await client.submit("chain", {"x": [[1.0], [2.0]]}, output=[8.0, 16.0]),
        await client.submit("chain", {"x": [[1.0]]}, output=[8.0], run_at=soon.isoformat()),
        await client.submit("single", LARGE),
        await client.submit("chain", LARGE),
    ]
    for run in runs:
        await client.wait(run)
    for query in ({"parent": runs[0]}, {"parent": runs[0], "step": "rows"}):
        await client.get("/v1/jobs", **query)


async def cancel(client: Client) -> None:
    run = await client.submit("slow_chain", work(60_000), "canceled")
    await client.wait(run, "processing")
    (step,) = [job["id"] for job in (await client.get("/v1/jobs", parent=run))["items"]]
    await client.call("POST", f"/v1/jobs/{step}/cancel", 409)
    await client.call("POST", f"/v1/jobs/{run}/cancel", 202, 409)
    await client.wait(run, "canceled")


async def fail(client: Client) -> None:
    for pipeline in ("broken", "broken_rows"):
        run = await client.submit(pipeline, {"mode": fault("invalid")["mode"]}, "failed")
        await client.wait(run, "failed")
        await client.call("POST", f"/v1/jobs/{run}/retry", 202, 409)
        await client.wait(run, "failed")


async def take_too_long(client: Client) -> None:
    run = await client.submit("slow_chain", work(60_000), "failed", timeout=0.5)
    await client.wait(run, "failed")


async def erase(client: Client) -> None:
    run = await client.submit("chain", {"x": [[1.0]]}, output=None)
    await client.wait(run)
    await client.call("POST", f"/v1/jobs/{run}/erase", 204, 409)


async def delete(client: Client) -> None:
    await client.call("PUT", "/v1/pipelines/gone", 200, 201, json=SINGLE)
    await client.call("DELETE", "/v1/pipelines/gone", 204, 404)


SCENARIOS = (run_pipelines,)
