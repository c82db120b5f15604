"""Streams on a real Triton wait for the object store: they do not fail, and leave their slots to others."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from common import tensors
from common.job_states import Priority, Status
from services.dispatcher.models.catalogue import Catalogue
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.shared_loads import SharedLoads
from services.dispatcher.results import stream_recorder
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.triton.client import TritonClient
from tests.integration.dispatcher.attempts.test_runner import SOON, LocalDispatcher, dispatcher
from tests.integration.dispatcher.inference import integer, text
from tests.integration.jobs import submit

__all__ = ["dispatcher"]


@pytest.fixture
async def streams(dispatcher: LocalDispatcher, client: TritonClient) -> LocalDispatcher:
    """A dispatcher of a streaming model with one slot."""

    async def ignore(_model: ServedModel) -> None:
        """There is no broker to consume from."""

    loads = SharedLoads(client, dispatcher.world.stores.loads)
    catalogue = Catalogue(client, dispatcher.world.stores.models, loads, ignore, interval=60.0, slots=0, grace=60.0)
    assert await catalogue.refresh()
    dispatcher.model = catalogue.models["tokens"]
    dispatcher.model.concurrency.resize(1)
    return dispatcher


@pytest.fixture
async def back(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once the object store, which is away, takes outputs again."""
    event = asyncio.Event()

    async def wait(*_: object) -> None:
        await event.wait()

    monkeypatch.setattr(OutputFiles, "save", wait)
    return event


async def start(streams: LocalDispatcher, responses: int, timeout: float = 60.0) -> UUID:
    given = [text("text", " ".join("a" * responses)), integer("delay_ms", 0)]
    values: dict[str, Any] = {"model": "tokens", "tensors": tensors.pack(given)}
    job = await submit(streams.world.database, streams.world.tenant, timeout=timeout, **values)
    await streams.handle(job, Priority.NORMAL)
    return job


async def test_a_stream_waits_for_the_store_beyond_its_timeout(
    streams: LocalDispatcher, back: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_recorder, "MAX_WAITING", 2)
    job = await start(streams, 40, timeout=6.0)
    tasks = [each.task for each in streams.jobs.values()]
    done, _ = await asyncio.wait(tasks, timeout=7.0)
    assert not done
    back.set()
    await streams.until_idle()
    state = await streams.look(job)
    assert (state.status, state.attempt) == (Status.SUCCEEDED, 1)


async def test_streams_that_wait_for_the_store_leave_their_slots_to_others(
    streams: LocalDispatcher, back: asyncio.Event
) -> None:
    concurrency = streams.model.concurrency
    jobs = [await start(streams, 3)]
    async with asyncio.timeout(SOON):
        jobs.append(await start(streams, 3))
    assert (concurrency.used, concurrency.saving) == (1, 1)  # at most as many as slots wait without one
    back.set()
    await streams.until_idle()
    assert [(await streams.look(job)).status for job in jobs] == [Status.SUCCEEDED] * 2
