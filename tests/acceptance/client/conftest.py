"""Clients of the stack's gateway, synchronous and asynchronous."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from charonia import AsyncCharonia, Charonia

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack

Restart = Callable[..., threading.Thread]  # its argument is `after`, in seconds


@pytest.fixture
def client(stack: Stack) -> Iterator[Charonia]:
    with Charonia(stack.url, DEVELOPMENT_KEY) as client:
        yield client


@pytest.fixture
async def async_client(stack: Stack) -> AsyncIterator[AsyncCharonia]:
    async with AsyncCharonia(stack.url, DEVELOPMENT_KEY) as client:
        yield client


@pytest.fixture
def restart(breakable: Stack) -> Iterator[Restart]:
    """A function that kills the gateway, now or after some seconds, and starts it again in a thread."""
    gateway = breakable.gateways[0]
    threads: list[threading.Thread] = []

    def kill_and_start() -> None:
        gateway.kill()
        gateway.start()

    def restart(after: float = 0) -> threading.Thread:
        for thread in threads:
            thread.join()
        if after:
            threads.append(threading.Timer(after, kill_and_start))
        else:
            gateway.kill()
            threads.append(threading.Thread(target=gateway.start))
        threads[-1].start()
        return threads[-1]

    yield restart
    for thread in threads:
        thread.join()
