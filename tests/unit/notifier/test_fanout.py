"""Event messages that cannot be handled."""

import asyncio
from typing import Any, cast

import pytest

from common import ids
from common.errors import DatabaseUnavailable, Reject, Retry
from common.rabbitmq.messages import CancelJob, JobEvent, JobEvents, JobQueued, JobsQueued, Message, WaitersPresent
from services.notifier import fanout
from services.notifier.delivery_worker import DeliveryWorker
from services.notifier.fanout import Fanout
from services.notifier.store.fanout import FanoutResult, FanoutStore


class UnavailableStore:
    async def fan_out(self, *_: object) -> FanoutResult:
        raise DatabaseUnavailable


@pytest.fixture
def fan() -> Fanout:
    unused, store = cast("Any", None), cast("FanoutStore", UnavailableStore())
    worker = DeliveryWorker(
        *(unused, unused, unused, asyncio.Event(), (0.0,)), timeout=1.0, concurrency=1, endpoint_concurrency=1
    )
    return Fanout(store, worker, 0.0)


@pytest.mark.parametrize("message", [JobEvent(ids.new()), JobEvents([(ids.new(), ""), (ids.new(), "")])])
async def test_it_is_retried_while_the_database_is_unavailable(
    fan: Fanout, monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    monkeypatch.setattr(fanout, "PAUSE_SECONDS", 0.0)
    with pytest.raises(Retry):
        await fan.handle(message, None)


@pytest.mark.parametrize(
    "message", [JobQueued(ids.new()), JobsQueued([ids.new()]), CancelJob(ids.new()), WaitersPresent()]
)
async def test_another_kind_of_message_is_rejected(fan: Fanout, message: Message) -> None:
    with pytest.raises(Reject):
        await fan.handle(message, None)
