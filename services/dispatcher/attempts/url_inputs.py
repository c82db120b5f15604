"""Fetches the inputs of a running job from URLs. Meanwhile the job holds neither a slot nor memory."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, TypeVar

from common.tensors import Tensor
from services.dispatcher.attempts.running_job import RunningJob
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.fetch_permits import USUAL, FetchParty
from services.dispatcher.claims.input_budget import name_fetched
from services.dispatcher.inputs.fetched import FetchedContent, waits
from services.dispatcher.inputs.url_fetcher import UrlFetcher

WAIT_SECONDS = 600.0  # for a permit; what was fetched is fetched again after it

T = TypeVar("T")


class FetchedInputs(NamedTuple):
    """The contents of inputs by name, and the seconds that it took to fetch them."""

    contents: Mapping[str, FetchedContent]
    seconds: float


class UrlInputs:
    def __init__(self, fetcher: UrlFetcher, claims: Claims) -> None:
        self._fetcher = fetcher
        self._claims = claims

    async def close(self) -> None:
        await self._fetcher.close()

    @asynccontextmanager
    async def fetch(self, running: RunningJob, inputs: Sequence[Tensor]) -> AsyncIterator[FetchedInputs]:
        """Fetch inputs, then yield with a slot of the model and with room for their bytes.

        The job waits in vain for WAIT_SECONDS at most, for a permit and then for a slot and room. Its timeout does not
        count these waits. Raises InferenceError.
        """
        job, model, permits = running.job, running.model, self._claims.fetch_permits
        party, most = FetchParty(model.name, job.tenant_id), max(USUAL, model.concurrency.size)
        running.slot.give_back()
        async with AsyncExitStack() as held:
            await wait(permits.acquire(party, most))
            held.callback(permits.release, party)
            began = time.monotonic()
            contents = await held.enter_async_context(self._fetcher.fetch(party.tenant, inputs, job.timeout))
            seconds = time.monotonic() - began
            size = sum(content.size for content in contents.values())
            await wait(self._take_slot_and_room(running, size))
            yield FetchedInputs(contents, seconds)

    async def _take_slot_and_room(self, running: RunningJob, size: int) -> None:
        """Take a slot, then room. A job without a slot holds no room, and one that waits for room holds no slot."""
        if await self._try_to_take(running, size, is_next=False):
            return
        budget, queue = self._claims.inputs, name_fetched(running.job)
        async with budget.turn(queue):
            await budget.wait_for(queue, size)
            while not await self._try_to_take(running, size, is_next=True):
                await budget.wait_for(queue, size)

    async def _try_to_take(self, running: RunningJob, size: int, *, is_next: bool) -> bool:
        """Wait for a slot, then take room. Give the slot back, and return False, if there is none."""
        await running.slot.acquire(running.job.priority)
        budget, queue = self._claims.inputs, name_fetched(running.job)
        room = budget.try_take(queue, size, is_next=is_next)
        if room is None:
            running.slot.give_back()
            return False
        running.held.callback(budget.release, queue, room)
        return True


async def wait(waiting: Awaitable[T]) -> T:
    """Wait at most WAIT_SECONDS. Raises InferenceError, so that the job goes back to its queue."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            return await waiting
    except TimeoutError:
        raise waits() from None
