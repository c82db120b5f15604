"""Whatever a lost connection makes of a call is one exception; a bug of ours stays what it is."""

import asyncio
import contextlib

import pytest
from aio_pika.exceptions import AMQPConnectionError, ChannelInvalidStateError

from common import link
from common.errors import BrokerUnavailable


async def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        AMQPConnectionError(),
        ChannelInvalidStateError(),
        ConnectionResetError(),
        asyncio.CancelledError(),
        Exception(),  # aiormq's, of calls under way when we close the connection ourselves
    ],
    ids=repr,
)
async def test_a_lost_connection_is_an_outage(error: BaseException) -> None:
    with pytest.raises(BrokerUnavailable):
        await link.bounded(fail(error))


async def test_a_call_that_takes_too_long_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "CALL_SECONDS", 0.01)
    with pytest.raises(BrokerUnavailable):
        await link.bounded(asyncio.Event().wait())


async def test_a_bug_is_no_outage() -> None:
    with pytest.raises(ValueError, match="a bug"):
        await link.bounded(fail(ValueError("a bug")))


async def test_a_caller_that_is_cancelled_stays_cancelled() -> None:
    call = asyncio.create_task(link.bounded(asyncio.Event().wait()))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_cancellation_that_a_call_swallows_counts_all_the_same() -> None:
    async def swallow() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    task = asyncio.create_task(link.bounded(swallow()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
