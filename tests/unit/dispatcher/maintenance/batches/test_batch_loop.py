"""The loop that completes batches survives outages of the database, and logs each once."""

import asyncio
from uuid import UUID

import pytest

from common.errors import DatabaseUnavailable
from common.rabbitmq.change_publisher import ChangePublisher
from services.dispatcher.maintenance.batches.batch_completer import BatchCompleter
from services.dispatcher.maintenance.batches.store import BatchStore, OpenBatch
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.unit.fake_publisher import FakePublisher


class FakeStore(BatchStore):
    """Finds nothing, or is away, then stops the loop."""

    def __init__(self, *away: bool) -> None:
        self.away = list(away)

    async def find_open(self, _after: UUID, _limit: int) -> list[OpenBatch]:
        if not self.away:
            raise asyncio.CancelledError
        if self.away.pop(0):
            raise DatabaseUnavailable
        return []


async def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore(True, True, True, False, True, True)
    completer = BatchCompleter(store, RecordedWakeUps(), ChangePublisher(FakePublisher()), "", 0.0)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await completer.run()
    assert [record.message for record in caplog.records] == ["batch.database_unavailable"] * 2
