"""Pools of worker processes do not end each other's processes."""

import os

from services.gateway.http.worker_processes import Workers


async def test_a_pool_that_closes_leaves_the_processes_of_another() -> None:
    first, second = Workers(1, 30.0), Workers(1, 30.0)
    try:
        await first.run(os.getpid)
        process = await second.run(os.getpid)
        first.close()
        assert await second.run(os.getpid) == process
    finally:
        first.close()
        second.close()
