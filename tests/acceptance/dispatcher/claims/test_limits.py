"""Operators limit and pause models and tenants, over all dispatchers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import work
from tests.support.stacks.key_command import make_key, run_command
from tests.support.waiting import eventually

JOBS = 30
JOB_MS = 50
MOST = 2  # jobs that run at a time
# Without a wake-up at each end, the reconciler would start two jobs in half a second: all 60 in 15 s.
SECONDS = 10.0


@asynccontextmanager
async def limit(stack: Stack, *options: str) -> AsyncIterator[None]:
    """Limit the model `work`, and lift all limits in the end."""
    done = await run_command(stack, "limits", "model", "work", *options)
    assert (done.returncode, done.stderr) == (0, "")
    try:
        yield
    finally:
        free = ("--max-running", "none", "--max-running-per-tenant", "none", "--resume")
        lifted = await run_command(stack, "limits", "model", "work", *free)
        assert lifted.stdout == "work: max running none, of one tenant none, not paused\n"


async def run_jobs(api: Api) -> list[Job]:
    submitted = [await api.submit("work", work(JOB_MS)) for _ in range(JOBS)]
    return [await api.wait(job.id) for job in submitted]


def count_overlap(jobs: list[Job]) -> int:
    """Return how many of the jobs ran at a time, at most."""
    spans = [(job.started_at, job.finished_at) for job in jobs if job.started_at and job.finished_at]
    return max(sum(start <= at < (end or start) for start, end in spans) for at, _ in spans)


def find_longest_wait(jobs: list[Job]) -> float:
    """Return the most seconds from the submit of a job to its end."""
    return max((job.finished_at - job.created_at).total_seconds() for job in jobs if job.finished_at)


async def read_model(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = (await api.http.get("/v1/models/work")).raise_for_status().json()
    return found


async def does_not_start(api: Api) -> str | None:
    """Return the id of a new job that is still queued after two seconds."""
    response = await api.http.post("/v1/jobs", json={"model": "work", "inputs": work(0)}, headers={"Prefer": "wait=1"})
    if response.status_code != 202:
        return None
    job = read(await api.http.get(f"/v1/jobs/{response.json()['id']}", params={"wait": 1}), 200, Job)
    return job.id if job.status == "queued" else None


async def test_a_model_runs_as_many_jobs_as_allowed_without_idling(stack: Stack, api: Api, other_tenant: Api) -> None:
    async with limit(stack, "--max-running", str(MOST)):

        async def is_limited() -> bool:
            halves = await asyncio.gather(run_jobs(api), run_jobs(other_tenant))
            jobs = [job for half in halves for job in half]
            assert {job.status for job in jobs} == {"succeeded"}
            return count_overlap(jobs) <= MOST and find_longest_wait(jobs) < SECONDS

        await eventually(is_limited, "the limit holds, and no job waits too long", 60.0)
        shown = await read_model(api)
        assert (shown["max_running"], shown["max_running_per_tenant"], shown["paused"]) == (MOST, None, False)


async def test_jobs_of_a_paused_model_wait_until_it_resumes(stack: Stack, api: Api) -> None:
    async with limit(stack, "--pause"):
        job = await eventually(lambda: does_not_start(api), "a job does not start")
        assert (await read_model(api))["paused"]
        assert (await api.get(job)).status == "queued"
        assert (await api.run("echo", {"x": [[1.0]]})).status == "succeeded"
    assert (await api.wait(job)).status == "succeeded"


async def test_jobs_of_a_paused_tenant_wait_until_it_resumes(stack: Stack, api: Api) -> None:
    async with open_client(stack, await make_key(stack, "halted")) as halted:
        paused = await run_command(stack, "limits", "tenant", "halted", "--pause")
        assert paused.stdout.startswith("halted: paused since ")
        job = await eventually(lambda: does_not_start(halted), "a job does not start")
        assert (await api.run("work", work(0))).status == "succeeded"
        resumed = await run_command(stack, "limits", "tenant", "halted", "--resume")
        assert resumed.stdout == "halted: not paused, retention none\n"
        assert (await halted.wait(job)).status == "succeeded"
    unknown = await run_command(stack, "limits", "tenant", "nobody")
    assert (unknown.returncode, unknown.stderr) == (1, "limits: tenant 'nobody' not found; `keys create` adds one\n")
