"""A dispatcher remembers waiters for a while."""

from services.dispatcher.control import PRESENCE_SECONDS, REPEAT_SECONDS, WaiterPresence
from services.gateway.events.waiter_presence import FRESH_SECONDS
from services.gateway.events.waiters import POLL_SECONDS


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


def test_a_gateway_repeats_its_message_in_time() -> None:
    """A waiter that comes just after a message is covered by it, or by the next slow poll."""
    assert FRESH_SECONDS + POLL_SECONDS < PRESENCE_SECONDS
    assert FRESH_SECONDS < REPEAT_SECONDS
