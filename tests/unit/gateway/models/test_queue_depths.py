"""How often is counted what waits."""

import asyncio

from services.gateway.models.queue_depths import QueueDepths
from services.gateway.models.store import ModelStore


class FakeStore(ModelStore):
    """One job more each time it is asked, which takes a while."""

    def __init__(self) -> None:
        self.now = 0.0
        self.took = 0.0
        self.asked = 0

    async def count_queued(self) -> dict[tuple[str, str], int]:
        await asyncio.sleep(0)
        self.now += self.took
        self.asked += 1
        return {("echo", "normal"): self.asked}

    def clock(self) -> float:
        return self.now


async def test_one_count_is_for_all_who_ask_within_a_second_and_more_where_it_is_dear() -> None:
    store = FakeStore()
    depths = QueueDepths(store, store.clock)
    assert await asyncio.gather(*(depths.read() for _ in range(5))) == [{("echo", "normal"): 1}] * 5
    for wait, took, again in [
        (0.9, 0.0, False),
        (0.2, 0.5, True),
        (9.9, 0.5, False),
        (0.2, 60.0, True),
        (29.9, 60.0, False),
        (0.2, 0.0, True),
    ]:
        asked, store.took = store.asked, took
        store.now += wait
        assert await depths.read() == {("echo", "normal"): asked + again}
