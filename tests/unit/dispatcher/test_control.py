"""Control messages request a renewal of leases, or announce waiters, whom a dispatcher remembers for a while."""

import pytest

from common import ids
from common.errors import UnknownMessage
from common.rabbitmq.messages import CancelJob, JobsQueued, QueuedJob, WaitersPresent
from services.dispatcher.attempts.lease_renewer import LeaseRenewer
from services.dispatcher.control import PRESENCE_SECONDS, REPEAT_SECONDS, ControlHandler, WaiterPresence
from tests.unit.fake_database import FakeDatabase

JOB = ids.new()


async def test_a_cancel_requests_a_renewal() -> None:
    waiters, leases = WaiterPresence(), LeaseRenewer(FakeDatabase(), {}, 60.0)
    await ControlHandler(leases, waiters).handle(CancelJob(JOB), None)
    assert leases.is_requested


async def test_a_message_of_waiters_is_noted() -> None:
    now = [0.0]
    waiters, leases = WaiterPresence(lambda: now[0]), LeaseRenewer(FakeDatabase(), {}, 60.0)
    handler = ControlHandler(leases, waiters)
    now[0] = PRESENCE_SECONDS
    await handler.handle(CancelJob(JOB), None)
    assert not waiters.has_waiters()
    await handler.handle(WaitersPresent(), None)
    assert waiters.has_waiters()


async def test_another_message_is_unknown() -> None:
    handler = ControlHandler(LeaseRenewer(FakeDatabase(), {}, 60.0), WaiterPresence())
    with pytest.raises(UnknownMessage):
        await handler.handle(JobsQueued([QueuedJob(JOB, JOB)]), None)


def test_waiters_are_assumed_until_no_message_has_come_for_long() -> None:
    now = [100.0]
    waiters = WaiterPresence(lambda: now[0])
    assert waiters.has_waiters()  # a gateway may have sent its message before
    now[0] += REPEAT_SECONDS
    assert not waiters.has_waiters()
    waiters.note_waiters()
    now[0] += PRESENCE_SECONDS / 2
    waiters.note_waiters()
    now[0] += PRESENCE_SECONDS - 1
    assert waiters.has_waiters()
    now[0] += 1
    assert not waiters.has_waiters()


def test_a_new_connection_shortens_no_presence() -> None:
    now = [100.0]
    waiters = WaiterPresence(lambda: now[0])
    waiters.note_waiters()
    waiters.assume_waiters()
    now[0] += PRESENCE_SECONDS - 1
    assert waiters.has_waiters()
    now[0] += 1
    waiters.assume_waiters()
    assert waiters.has_waiters()
