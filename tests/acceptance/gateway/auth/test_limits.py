"""Rate limits and queue limits of keys and tenants hold over all gateways, and responses report them."""

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta

import httpx

from deploy.local.stack import Stack
from services.gateway.jobs.queue_limits.limits import DEFAULT_RETRY_SECONDS
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job, Jobs, read
from tests.support.api.model_inputs import tokens, work
from tests.support.stacks.key_command import make_key, run_keys
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

RATE = 5  # requests a second
ECHO = {"x": [[1.0]]}
MAX_QUEUED = 6  # jobs that may wait in the queue
SLOTS = 32  # jobs of the model `work` that run or are about to, at most: quick jobs of earlier tests double its 16
RATELIMIT = re.compile(rf'"key";r=([0-{RATE}]);t=([01])')


def read_remaining(response: httpx.Response) -> int:
    """Return the remaining requests, as the headers say."""
    assert response.headers["ratelimit-policy"] == f'"key";q={RATE};w=1'
    match = RATELIMIT.fullmatch(response.headers["ratelimit"])
    assert match is not None, response.headers["ratelimit"]
    return int(match[1])


async def test_rate_limit_of_a_key_holds_over_all_gateways(stack: Stack, gateways: list[str]) -> None:
    key = await make_key(stack, "quick", "--rate-limit", str(RATE))
    async with open_client(stack, key, gateways[0]) as first, open_client(stack, key, gateways[1]) as second:
        began = time.monotonic()
        responses = await asyncio.gather(*(api.http.get("/v1/models") for _ in range(20) for api in (first, second)))
        seconds = time.monotonic() - began
        served = [response for response in responses if response.status_code == 200]
        refused = [response for response in responses if response.status_code == 429]
        assert len(served) + len(refused) == len(responses)
        assert RATE <= len(served) <= RATE + RATE * seconds + 1
        assert refused
        assert max(map(read_remaining, served)) == RATE - 1
        for response in refused:
            assert (read_remaining(response), response.headers["retry-after"]) == (0, "1")
            assert response.json()["type"] == "urn:charonia:problem:rate_limited"
        for api in (first, second):

            async def is_served(api: Api = api) -> bool:
                return (await api.http.get("/v1/models")).status_code == 200

            await eventually(is_served, "the key may make requests again")


async def test_only_responses_to_limited_keys_have_rate_limit_headers(stack: Stack, api: Api) -> None:
    key = await make_key(stack, "told", "--rate-limit", str(RATE), "--scope", "read")
    calls = [("GET", "/v1/models", 200), ("GET", "/v1/jobs/none", 404), ("POST", "/v1/jobs", 403)]
    async with open_client(stack, key) as limited:
        for method, path, status in calls:
            response = await limited.http.request(method, path, json=None)
            assert (response.status_code, read_remaining(response) < RATE) == (status, True)
    for method, path, _ in calls:
        response = await api.http.request(method, path, json=None)
        assert not {"ratelimit", "ratelimit-policy"} & response.headers.keys()


async def test_tenant_with_a_full_queue_is_refused_until_it_shrinks_and_others_are_not(
    stack: Stack, gateways: list[str], api: Api
) -> None:
    key = await make_key(stack, "bounded")
    limited = await run_keys(stack, "tenant", "bounded", "--max-queued", str(MAX_QUEUED))
    assert (limited.returncode, limited.stdout) == (0, f"bounded: max queued {MAX_QUEUED}\n")
    async with open_client(stack, key, gateways[0]) as first, open_client(stack, key, gateways[1]) as second:
        try:
            submits = [submit(gateway, 60_000) for _ in range(30) for gateway in (first, second)]
            responses = await asyncio.gather(*submits)
            accepted = [response.json()["id"] for response in responses if response.status_code == 202]
            refused = [response for response in responses if response.status_code != 202]
            assert MAX_QUEUED <= len(accepted) <= SLOTS + 3 * MAX_QUEUED  # gateways see each other's jobs late
            assert refused
            for response in refused:
                assert (response.status_code, response.json()["type"]) == (429, "urn:charonia:problem:queue_full")
                assert 1 <= int(response.headers["retry-after"]) <= DEFAULT_RETRY_SECONDS
                full = f"the queue of this tenant is full: at most {MAX_QUEUED} jobs may wait"
                assert full in response.json()["detail"]
            assert (await api.run("echo", ECHO)).status == "succeeded"
        finally:
            await cancel_all(first)
        assert {(await first.wait(job)).status for job in accepted} == {"canceled"}
        for gateway in (first, second):

            async def is_accepted(gateway: Api = gateway) -> bool:
                return (await submit(gateway, 1000)).status_code == 202

            await eventually(is_accepted, "jobs are accepted again")


async def test_tenant_with_too_many_bytes_waiting_is_refused_until_they_are_gone(stack: Stack) -> None:
    key = await make_key(stack, "heavy")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    heavy = {"model": "echo", "inputs": {"x": [[0.5] * 1000]}, "run_at": tomorrow}  # 4 KB
    async with (
        another_gateway(stack, CHARONIA_MAX_QUEUED_BYTES="10000") as gateway,
        open_client(stack, key, gateway.url) as api,
    ):
        accepted = [read(await api.http.post("/v1/jobs", json=heavy), 202, Job) for _ in range(2)]
        never = await api.http.post("/v1/batches", json=[heavy] * 3)
        assert (never.status_code, never.json()["type"]) == (422, "urn:charonia:problem:invalid_request")
        other = heavy | {"model": "tokens", "inputs": tokens(["word"] * 1600)}  # 8 KB
        never = await api.http.post("/v1/batches", json=[heavy, other])
        assert never.status_code == 422
        (error,) = never.json()["errors"]
        assert "at most 10000 may wait; send fewer or smaller jobs at a time" in error["detail"]
        for path, body in [("/v1/jobs", heavy), ("/v1/batches", [heavy])]:
            refused = await api.http.post(path, json=body)
            assert (refused.status_code, refused.json()["type"]) == (429, "urn:charonia:problem:queue_full")
            assert "inputs of at most 10000 bytes may wait" in refused.json()["detail"]
            assert int(refused.headers["retry-after"]) >= 1
        assert (await api.run("echo", ECHO)).status == "succeeded"
        read(await api.http.post(f"/v1/jobs/{accepted[0].id}/cancel"), 202, Job)

        async def is_accepted() -> bool:
            return (await api.http.post("/v1/jobs", json=heavy)).status_code == 202

        await eventually(is_accepted, "jobs are accepted again")
        for job in read(await api.http.get("/v1/jobs", params={"status": "queued"}), 200, Jobs).items:
            read(await api.http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)


async def submit(api: Api, ms: int) -> httpx.Response:
    return await api.http.post("/v1/jobs", json={"model": "work", "inputs": work(ms)})


async def cancel_all(api: Api) -> None:
    """Cancel all jobs of the tenant that have not ended."""
    for job in await api.list_all_jobs():
        if job.finished_at is None:
            read(await api.http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)


async def test_queue_limit_of_zero_stops_a_tenant_and_the_default_frees_it(stack: Stack) -> None:
    async with open_client(stack, await make_key(stack, "stopped")) as api:
        for limit, shown, status in [("0", "0", 429), ("default", "default of the gateways", 202)]:
            done = await run_keys(stack, "tenant", "stopped", "--max-queued", limit)
            assert (done.returncode, done.stdout) == (0, f"stopped: max queued {shown}\n")

            async def has_status(status: int = status) -> bool:
                response = await api.http.post("/v1/jobs", json={"model": "echo", "inputs": ECHO})
                return response.status_code == status

            await eventually(has_status, f"a submit is answered {status}")
    assert (await run_keys(stack, "tenant", "nobody")).stderr == "keys: tenant 'nobody' not found; `create` adds one\n"
