"""A message of an event, where it cannot be handled."""

import asyncio
from typing import Any, cast

import pytest

from common import ids
from common.errors import DatabaseUnavailable, Reject, Retry
from common.messages import CancelJob, JobEvent, JobEvents, JobQueued, JobsQueued, Listening, Message
from services.notifier import fanout
from services.notifier.fanout import Fanout
from services.notifier.outbound import Outbound
from services.notifier.store import FannedOut, Store


class AwayStore:
    async def fan_out(self, *_: object) -> FannedOut:
        raise DatabaseUnavailable


@pytest.fixture
def fan() -> Fanout:
    nothing, store = cast("Any", None), cast("Store", AwayStore())  # nothing is sent here
    outbound = Outbound(store, nothing, nothing, asyncio.Event(), (0.0,), timeout=1.0, concurrency=1, each=1)
    return Fanout(store, outbound, 0.0)


@pytest.mark.parametrize("message", [JobEvent(ids.new()), JobEvents([(ids.new(), ""), (ids.new(), "")])])
async def test_it_goes_back_while_the_database_is_away(
    fan: Fanout, monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    monkeypatch.setattr(fanout, "PAUSE_SECONDS", 0.0)
    with pytest.raises(Retry):
        await fan.handle(message, None)


@pytest.mark.parametrize("message", [JobQueued(ids.new()), JobsQueued([ids.new()]), CancelJob(ids.new()), Listening()])
async def test_one_of_another_kind_is_rejected(fan: Fanout, message: Message) -> None:
    with pytest.raises(Reject):
        await fan.handle(message, None)
