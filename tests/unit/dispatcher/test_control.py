"""Control messages request a leases or announce waiters."""

from typing import cast

import pytest

from common import ids
from common.errors import Reject
from common.postgres.database import Database
from common.rabbitmq.messages import CancelJob, JobsQueued, WaitersPresent
from services.dispatcher.attempts.lease_renewer import LeaseRenewer
from services.dispatcher.control import PRESENCE_SECONDS, ControlHandler, WaiterPresence

JOB = ids.new()


async def test_a_cancel_requests_a_leases() -> None:
    waiters, leases = WaiterPresence(), LeaseRenewer(cast("Database", None), {}, 60.0)
    await ControlHandler(leases, waiters).handle(CancelJob(JOB), None)
    assert leases.is_requested


async def test_a_message_of_waiters_is_noted() -> None:
    now = [0.0]
    waiters, leases = WaiterPresence(lambda: now[0]), LeaseRenewer(cast("Database", None), {}, 60.0)
    handler = ControlHandler(leases, waiters)
    now[0] = PRESENCE_SECONDS
    await handler.handle(CancelJob(JOB), None)
    assert not waiters.has_waiters()
    await handler.handle(WaitersPresent(), None)
    assert waiters.has_waiters()


async def test_another_message_is_rejected() -> None:
    handler = ControlHandler(LeaseRenewer(cast("Database", None), {}, 60.0), WaiterPresence())
    with pytest.raises(Reject):
        await handler.handle(JobsQueued(1), None)
