"""Collects connections that failed."""

import gc
from collections.abc import AsyncIterator

import pytest


@pytest.fixture(scope="module", autouse=True)
async def collected() -> AsyncIterator[None]:
    """Collect failed connections while the loop runs: only then can aio-pika close them when they are deleted.

    Otherwise the collection happens in another test, with a RuntimeWarning.
    """
    yield
    gc.collect()
