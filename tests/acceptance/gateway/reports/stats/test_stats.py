"""A tenant reads its jobs in numbers."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import fault, work
from tests.support.stacks.key_command import make_key
from tests.support.waiting import eventually

NAMES = ("ended", "failed", "waiting", "running")


async def read_stats(api: Api) -> dict[tuple[str, str], dict[str, Any]]:
    response = await api.http.get("/v1/stats")
    assert response.status_code == 200, response.text
    return {(each["model"], each["priority"]): each for each in response.json()["items"]}


async def test_stats_show_what_waits_runs_and_ended_to_its_tenant_only(stack: Stack, other_tenant: Api) -> None:
    async with open_client(stack, await make_key(stack, "measured")) as api:
        assert await read_stats(api) == {}
        await asyncio.gather(*(api.run("echo", {"x": [[1.0]]}) for _ in range(3)))
        await api.run("faulty", fault("invalid"))
        later_at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        await api.submit("echo", {"x": [[1.0]]}, run_at=later_at, priority="low")
        running = await api.submit("work", work(60_000), priority="high")
        await api.wait(running.id, "processing")

        async def find_all() -> dict[tuple[str, str], dict[str, Any]] | None:
            found = await read_stats(api)
            is_whole = len(found) == 4 and found["work", "high"]["running"] == 1
            return found if is_whole and found["echo", "normal"]["last_5_minutes"]["ended"] == 3 else None

        stats = await eventually(find_all, "all jobs are counted")
        window = stats["echo", "normal"]["last_60_minutes"]
        assert (window["seconds"], window["ended"], window["failed"]) == (3600, 3, 0)
        assert window["ended_per_minute"] == 0.05
        assert 0 <= window["queue_ms"]["p50"] <= window["queue_ms"]["p95"]
        assert window["inference_ms"]["p50"] > 0
        assert stats["faulty", "normal"]["last_5_minutes"]["failed_per_minute"] == 0.2
        later = stats["echo", "low"]
        assert (later["waiting"], later["scheduled"], later["oldest_waiting_at"]) == (0, 1, None)
        read(await api.http.post(f"/v1/jobs/{running.id}/cancel"), 202, Job)
    assert ("echo", "low") not in await read_stats(other_tenant)


async def test_the_last_hour_is_counted_by_minute(stack: Stack) -> None:
    async def read_minutes(api: Api) -> list[dict[str, Any]]:
        response = await api.http.get("/v1/stats/minutes")
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["items"]
        return found

    before = datetime.now(UTC).replace(second=0, microsecond=0)
    async with open_client(stack, await make_key(stack, "measured by minute")) as api:
        assert all(not any(each[name] for name in NAMES) for each in await read_minutes(api))
        await asyncio.gather(*(api.run("echo", {"x": [[1.0]]}) for _ in range(3)))
        await api.run("faulty", fault("invalid"))
        later_at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        await api.submit("echo", {"x": [[1.0]]}, run_at=later_at)
        running = await api.submit("work", work(60_000))
        await api.wait(running.id, "processing")

        async def find_all() -> list[dict[str, Any]] | None:
            minutes = await read_minutes(api)
            ended = sum(each["ended"] for each in minutes)
            return minutes if (ended, minutes[-1]["running"], minutes[-1]["waiting"]) == (4, 1, 0) else None

        minutes = await eventually(find_all, "all jobs are counted")
        times = [datetime.fromisoformat(each["at"]) for each in minutes]
        assert [time - times[0] for time in times] == [timedelta(minutes=number) for number in range(60)]
        assert all(datetime.fromisoformat(each["at"]) >= before for each in minutes if each["ended"])
        assert sum(each["failed"] for each in minutes) == 1
        assert (minutes[0]["waiting"], minutes[0]["running"]) == (0, 0)
        read(await api.http.post(f"/v1/jobs/{running.id}/cancel"), 202, Job)
    async with open_client(stack, await make_key(stack, "idle by minute")) as idle:
        assert not any(each[name] for each in await read_minutes(idle) for name in NAMES)
