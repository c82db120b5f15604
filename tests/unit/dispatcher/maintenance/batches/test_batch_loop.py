"""The loop that completes batches survives outages of the database, and logs each once."""

import asyncio
from typing import cast

import pytest

from common.errors import DatabaseUnavailable
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.dispatcher.maintenance.batches.batch_completer import BatchCompleter
from services.dispatcher.maintenance.batches.store import BatchStore


class FakeStore:
    """Finds nothing, or is away, then stops the loop."""

    def __init__(self, *away: bool) -> None:
        self.away = list(away)

    async def find_open(self, _after: object, _limit: int) -> list[object]:
        if not self.away:
            raise asyncio.CancelledError
        if self.away.pop(0):
            raise DatabaseUnavailable
        return []


async def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore(True, True, True, False, True, True)
    wake_ups, changes = cast("WakeUpPublisher", None), cast("ChangePublisher", None)
    completer = BatchCompleter(cast("BatchStore", store), wake_ups, changes, "", 0.0)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await completer.run()
    assert [record.message for record in caplog.records] == ["batch.database_unavailable"] * 2
