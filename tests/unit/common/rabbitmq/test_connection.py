"""Every error of a lost connection becomes one exception. A bug keeps its own."""

import asyncio
import contextlib
import gc
import logging
import warnings
from typing import cast
from unittest.mock import create_autospec

import pytest
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPConnectionError, ChannelInvalidStateError

from common.errors import BrokerUnavailable
from common.rabbitmq import connection

DEADLINE_SECONDS = 10.0


async def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        AMQPConnectionError(),
        ChannelInvalidStateError(),
        ConnectionResetError(),
        asyncio.CancelledError(),
        Exception(),  # aiormq's, for calls under way when we close the connection
    ],
    ids=repr,
)
async def test_a_lost_connection_is_an_outage(error: BaseException) -> None:
    with pytest.raises(BrokerUnavailable):
        await connection.with_deadline(fail(error))


async def test_a_call_that_takes_too_long_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALL_SECONDS", 0.01)
    with pytest.raises(BrokerUnavailable):
        await connection.with_deadline(asyncio.Event().wait())


async def test_a_bug_is_no_outage() -> None:
    with pytest.raises(ValueError, match="a bug"):
        await connection.with_deadline(fail(ValueError("a bug")))


async def test_a_cancelled_caller_stays_cancelled() -> None:
    call = asyncio.create_task(connection.with_deadline(asyncio.Event().wait()))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_cancellation_that_a_call_swallows_still_counts() -> None:
    async def swallow() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    task = asyncio.create_task(connection.with_deadline(swallow()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_that_connecting_swallows_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = create_autospec(AbstractConnection)

    async def swallow(*_: object) -> AbstractConnection:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return cast(AbstractConnection, opened)

    async def set_up(_connection: AbstractConnection) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(connection, "connect_to", swallow)
    task = asyncio.create_task(connection.BrokerConnection("amqp://127.0.0.1:1/", "tests", set_up, set_up).run())
    await asyncio.sleep(0)
    task.cancel()
    assert await asyncio.wait([task], timeout=DEADLINE_SECONDS) == ({task}, set())
    assert task.cancelled()
    opened.close.assert_awaited_once_with()


def test_a_failed_connection_is_collected_without_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Its error keeps it until no loop runs any more."""
    caplog.set_level(logging.CRITICAL, "aiormq.connection")  # a log record would keep the error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what other tests left
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner, warnings.catch_warnings(record=True) as caught:
        with pytest.raises(connection.CONNECTION_ERRORS) as raised:
            runner.run(connection.connect("amqp://127.0.0.1:1/", "tests"))
        asyncio.set_event_loop(None)
        del raised
        gc.collect()
    assert caught == []
