"""Work that has no end, and how it ends."""

import asyncio
import contextlib

import pytest
from charonia.cli.listen.listener import run_until_one_ends

DEADLINE_SECONDS = 10.0


async def work() -> None:
    await asyncio.Event().wait()


async def work_that_swallows_a_cancel() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await work()
    await work()


async def fail() -> None:
    raise LookupError("no server")


async def test_an_error_ends_all_work_even_what_swallows_a_cancel() -> None:
    with pytest.raises(LookupError, match="no server"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await run_until_one_ends([work(), work_that_swallows_a_cancel(), fail()])
