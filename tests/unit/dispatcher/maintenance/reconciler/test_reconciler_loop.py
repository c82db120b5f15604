"""The reconciler's loop survives outages, and ends that cannot be written."""

import asyncio

import pytest

from common.errors import CharoniaError, DatabaseUnavailable
from common.rabbitmq.change_publisher import ChangePublisher
from services.dispatcher.maintenance.reconciler import reconciler as module
from services.dispatcher.maintenance.reconciler.reconciler import Reconciler
from services.dispatcher.results.store import NotStored, ResultStore
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.support.result_recorder import make_recorder
from tests.unit.fake_database import FakeDatabase
from tests.unit.fake_publisher import FakePublisher


@pytest.mark.parametrize("error", [DatabaseUnavailable(), NotStored()])
async def test_it_continues_after_an_error(error: CharoniaError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.0)
    rounds: list[BaseException] = [error, error, asyncio.CancelledError()]

    async def reconcile(_age: float) -> int:
        raise rounds.pop(0)

    database, publisher, wake_ups = FakeDatabase(), FakePublisher(), RecordedWakeUps()
    recorder = make_recorder(database, ResultStore(database), wake_ups, ChangePublisher(publisher))
    reconciler = Reconciler(database, recorder, publisher, wake_ups)
    monkeypatch.setattr(reconciler, "reconcile", reconcile)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await reconciler.run()
    assert not rounds
