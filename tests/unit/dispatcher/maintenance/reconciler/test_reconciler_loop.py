"""The reconciler's loop survives outages, and ends that cannot be written."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from common.errors import CharoniaError, DatabaseUnavailable
from common.postgres.database import Database
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.dispatcher.maintenance.reconciler import reconciler as module
from services.dispatcher.maintenance.reconciler.reconciler import Reconciler
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import NotStored


@pytest.mark.parametrize("error", [DatabaseUnavailable(), NotStored()])
async def test_it_continues_after_an_error(error: CharoniaError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.0)
    rounds: list[BaseException] = [error, error, asyncio.CancelledError()]

    async def reconcile(_age: float) -> int:
        raise rounds.pop(0)

    publisher = cast("Publisher", SimpleNamespace(connection=SimpleNamespace(is_up=True)))
    reconciler = Reconciler(
        cast("Database", None),
        cast("ResultRecorder", None),
        publisher,
        cast("WakeUpPublisher", None),
    )
    monkeypatch.setattr(reconciler, "reconcile", reconcile)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await reconciler.run()
    assert not rounds
