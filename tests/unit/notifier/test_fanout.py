"""A message of an event, where it cannot be handled."""

from collections.abc import Mapping
from typing import cast
from uuid import UUID

import pytest

from common import ids
from common.errors import DatabaseUnavailable, Reject, Retry
from common.messages import CancelJob, JobEvent, JobEvents, JobQueued, JobsQueued, Message
from services.notifier import fanout
from services.notifier.fanout import Fanout
from services.notifier.store import Store


class AwayStore:
    async def add_deliveries(self, _events: Mapping[UUID, str], _delay: float) -> int:
        raise DatabaseUnavailable


@pytest.fixture
def fan() -> Fanout:
    return Fanout(cast("Store", AwayStore()), 0.0, lambda: None)


@pytest.mark.parametrize("message", [JobEvent(ids.new()), JobEvents([(ids.new(), ""), (ids.new(), "")])])
async def test_it_goes_back_while_the_database_is_away(
    fan: Fanout, monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    monkeypatch.setattr(fanout, "PAUSE_SECONDS", 0.0)
    with pytest.raises(Retry):
        await fan.handle(message, None)


@pytest.mark.parametrize("message", [JobQueued(ids.new()), JobsQueued([ids.new()]), CancelJob(ids.new())])
async def test_one_of_another_kind_is_rejected(fan: Fanout, message: Message) -> None:
    with pytest.raises(Reject):
        await fan.handle(message, None)
