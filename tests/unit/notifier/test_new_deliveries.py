"""Event messages that cannot be handled."""

from typing import Any, cast

import pytest

from common import ids
from common.errors import DatabaseUnavailable, Reject, Retry
from common.rabbitmq.messages import CancelJob, EventsRecorded, JobsQueued, KeysRevoked, Message
from services.notifier import new_deliveries
from services.notifier.delivery_worker import DeliveryWorker
from services.notifier.due_endpoints import DueEndpoints
from services.notifier.new_deliveries import NewDeliveries
from services.notifier.store.new_deliveries import NewClaims, NewDeliveryStore


class UnavailableStore:
    async def claim(self, *_: object) -> NewClaims:
        raise DatabaseUnavailable


@pytest.fixture
def taker() -> NewDeliveries:
    unused, store = cast("Any", None), cast("NewDeliveryStore", UnavailableStore())
    worker = DeliveryWorker(
        *(unused, unused, unused, DueEndpoints(), (0.0,)), timeout=1.0, concurrency=1, endpoint_concurrency=1
    )
    return NewDeliveries(store, worker, 0.0)


@pytest.mark.parametrize(
    "message", [EventsRecorded([(ids.new(), "")]), EventsRecorded([(ids.new(), ""), (ids.new(), "")])]
)
async def test_it_is_retried_while_the_database_is_unavailable(
    taker: NewDeliveries, monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    monkeypatch.setattr(new_deliveries, "PAUSE_SECONDS", 0.0)
    with pytest.raises(Retry):
        await taker.handle(message, None)


@pytest.mark.parametrize("message", [JobsQueued(1), CancelJob(ids.new()), KeysRevoked()])
async def test_another_kind_of_message_is_rejected(taker: NewDeliveries, message: Message) -> None:
    with pytest.raises(Reject):
        await taker.handle(message, None)
