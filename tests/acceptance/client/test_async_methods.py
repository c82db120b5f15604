"""The asynchronous client has the same methods."""

import asyncio
import inspect

import charonia
import pytest
from charonia import AsyncCharonia, Charonia

from deploy.local.settings import ROOT
from tests.support.api.model_inputs import LINES


async def test_jobs_run_side_by_side(async_client: AsyncCharonia) -> None:
    found = await asyncio.gather(*(async_client.run("echo", x=number) for number in range(20)))
    assert [each["y"] for each in found] == [[[2.0 * number]] for number in range(20)]
    assert (await async_client.run("ocr", image=ROOT / "deploy/local/demo.png"))["text"] == LINES


async def test_events_and_tokens_are_streamed(async_client: AsyncCharonia) -> None:
    assert [part.text async for part in async_client.stream("tokens", text="a b c")] == ["a", " b", " c"]
    job = await async_client.submit("echo", x=1)
    assert [event.type async for event in job.events()] == ["job.queued", "job.started", "job.succeeded"]


async def test_a_stream_may_be_left(async_client: AsyncCharonia) -> None:
    async for part in async_client.stream("tokens", text="a b c", delay_ms=200):
        assert part.text == "a"
        break
    async for done in async_client.map("echo", range(1000), concurrency=8):
        assert done.error is None
        break


async def test_failures_and_cancellations_are_raised(async_client: AsyncCharonia) -> None:
    with pytest.raises(charonia.JobFailed):
        await async_client.run("faulty", mode="invalid")
    job = await async_client.submit("work", ms=60_000)
    await job.cancel()
    with pytest.raises(charonia.JobCanceled):
        await job.result(timeout=30)


async def test_items_are_mapped(async_client: AsyncCharonia) -> None:
    found = [done async for done in async_client.map("echo", range(40), concurrency=16)]
    assert sorted((done.index, done["y"]) for done in found) == [(number, [[2.0 * number]]) for number in range(40)]


async def test_models_and_jobs_are_listed(async_client: AsyncCharonia) -> None:
    assert (await async_client.models.get("ocr")).inputs[0].name == "image"
    assert "ocr" in [each.name async for each in async_client.models.list()]
    job = await async_client.submit("echo", x=1)
    async for listed in async_client.jobs.list(model="echo"):
        assert listed.id >= job.id
        break


def test_both_clients_have_the_same_methods() -> None:
    def list_methods(kind: type) -> dict[str, list[str]]:
        members = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in members if name[0] != "_"}

    asynchronous = {name.replace("aclose", "close"): each for name, each in list_methods(AsyncCharonia).items()}
    assert asynchronous == list_methods(Charonia)
