"""Scenarios of jobs that ask the same: who leads, who waits, and who takes a result."""

import asyncio
import itertools
import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from common import ids
from common.jobs.twins import is_awaited
from common.reuse.key import ReuseKey
from tests.support.api.model_inputs import work
from tests.support.lost_answers.world import DELIVERY_SECONDS, World, parse, repeat
from tests.support.waiting import eventually

REUSE = {"max_age": 3600}
LARGE = {"x": [[3.5] * 2000]}  # 8,000 bytes: the output is in a file
MATRIX = {"datatype": "FP32", "shape": [-1, -1]}
TWICE = {
    "inputs": {"x": MATRIX},
    "steps": {"only": {"model": "echo", "inputs": {"x": "$inputs.x"}, "reuse": REUSE}},
    "outputs": {"y": "$only.y"},
}
OWN = [
    *(f"common/jobs: {name}" for name in ("find_twins", "submit_reusing", "add_reused", "promote_twins")),
    *(f"common/jobs: {name}" for name in ("find_groups", "list_joiners", "find_loads", "take_results")),
]
numbers = itertools.count(401)  # milliseconds: each is another question


async def ask_the_same(world: World) -> None:
    """Jobs with one question: the first is canceled, so another one runs, and the others take its result."""
    try:
        async with asyncio.timeout(DELIVERY_SECONDS):
            while world.loser.list_missing(OWN):
                await ask_once(world, work(next(numbers)))
    except TimeoutError:
        raise AssertionError(f"not lost: {world.loser.list_missing(OWN)}") from None


async def ask_once(world: World, inputs: dict[str, Any]) -> None:
    client = world.client
    twin = await client.submit("work", inputs, "canceled", "succeeded", reuse=REUSE, priority="low")
    joined = [await client.submit("work", inputs, reuse=REUSE, priority="high", expires_in=600) for _ in range(3)]
    await client.get(f"/v1/jobs/{joined[-1]}")
    await client.get(f"/v1/jobs/{joined[-1]}/events")
    await client.call("POST", f"/v1/jobs/{twin}/cancel", 202, 409)
    for job in joined:
        await client.wait(job)
    hit = await client.submit("work", inputs, reuse=REUSE)
    await client.wait(hit)
    await submit_twins(world, work(next(numbers)))


async def submit_twins(world: World, inputs: dict[str, Any]) -> None:
    """A batch whose items ask the same."""
    client, key = world.client, secrets.token_hex(8)
    items = [{"model": "work", "inputs": inputs, "reuse": REUSE, "metadata": {"twins": key}} for _ in range(3)]
    answer = await client.call("POST", "/v1/batches", 202, json=items, headers={"Idempotency-Key": key})
    batch = answer.json()["id"]

    async def completed() -> bool:
        return bool((await client.get(f"/v1/batches/{batch}"))["status"] == "completed")

    await eventually(completed, f"{batch} is completed", 60)


async def lift_twin(world: World) -> None:
    """Jobs of a paused model that ask the same. The higher priority of the second one counts for the first, too."""
    client, inputs = world.client, {"image": {"base64": "BBBB"}}
    async with asyncio.timeout(DELIVERY_SECONDS):
        while True:
            priorities = ("low", "high")
            jobs = [await client.submit("ocr", inputs, "canceled", reuse=REUSE, priority=each) for each in priorities]
            await look_for_joiners(world, parse(ids.Kind.JOB, jobs[0]))
            for job in jobs:
                await client.call("POST", f"/v1/jobs/{job}/cancel", 202, 409)
                await client.wait(job, "canceled")
            if not world.loser.list_missing(["common/jobs: lift_twins"]):
                return


async def look_for_joiners(world: World, job: UUID) -> None:
    """As a gateway does when the client of a job has left."""
    record = await world.own.fetchrow("SELECT tenant_id, reuse_key FROM jobs WHERE id = $1", job)
    assert record is not None
    async with world.database() as database:
        await repeat(lambda: is_awaited(database, ReuseKey(*record), job))


async def release_joiner(world: World) -> None:
    """A job that waits for a twin, and whose model is gone once that has ended: it waits for nobody any more."""
    client, inputs = world.client, {"image": {"base64": "CCCC"}}
    release, change = "common/jobs: release_joiners", "UPDATE live_jobs SET model = 'gone' WHERE id = $1"
    async with asyncio.timeout(DELIVERY_SECONDS):
        while world.loser.list_missing([release]):
            twin = await client.submit("ocr", inputs, "canceled", reuse=REUSE)
            joined = await client.submit("ocr", inputs, "canceled", "failed", reuse=REUSE)
            world.moved_jobs.add(parse(ids.Kind.JOB, joined))
            await world.own.execute(change, parse(ids.Kind.JOB, joined))
            await client.call("POST", f"/v1/jobs/{twin}/cancel", 202, 409)
            await client.wait(twin, "canceled")

            async def is_released(job: str = joined) -> bool:
                waiting = (await client.get(f"/v1/jobs/{job}"))["waiting_for"]
                return waiting is None or waiting["code"] != "same_job"

            await eventually(is_released, f"{joined} waits for nobody", 60)
            await client.call("POST", f"/v1/jobs/{joined}/cancel", 202, 409)
            await client.wait(joined)


async def share_files(world: World) -> None:
    """A large output that two jobs show. One of them is erased, which ends its URLs."""
    client, jobs = world.other, []
    for _ in range(2):
        jobs.append(await client.submit("echo", LARGE, output=None, reuse=REUSE))
        await client.wait(jobs[-1])
    first, second = [(await client.get(f"/v1/jobs/{job}"))["outputs"][0]["download_url"] for job in jobs]
    for url in (first, second):
        await client.call("GET", url, 200, 307)
    forget = "common/jobs: forget_result"
    await client.call("POST", f"/v1/jobs/{jobs[1]}/erase", 204, 409)
    await client.call("GET", second, 404)
    await client.call("GET", first, 200, 307)
    async with asyncio.timeout(DELIVERY_SECONDS):
        while world.loser.list_missing([forget]):
            job = await client.submit("echo", LARGE, reuse=REUSE)
            await client.wait(job)
            await client.call("POST", f"/v1/jobs/{job}/erase", 204, 409)


async def reuse_steps(world: World) -> None:
    """Runs whose step asks the same, with an input in a file. Each but the first takes a result, and is erased."""
    client = world.other
    await client.call("PUT", "/v1/pipelines/reused", 200, 201, json=TWICE)
    own = ["common/runs: find_hashes", "common/jobs: forget_results_of_run"]
    async with asyncio.timeout(DELIVERY_SECONDS):
        while True:
            runs = [await client.submit("reused", LARGE) for _ in range(2)]
            for run in runs:
                await client.wait(run)
            if not world.loser.list_missing(own):
                return
            await client.call("POST", f"/v1/jobs/{runs[1]}/erase", 204, 409)


SCENARIOS: Sequence[Any] = (ask_the_same, lift_twin, release_joiner, share_files, reuse_steps)
