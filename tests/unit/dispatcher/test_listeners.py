"""When a dispatcher rings."""

from services.dispatcher.listeners import DEAF_SECONDS, MEMORY_SECONDS, Listeners
from services.gateway.attention import SURE_SECONDS
from services.gateway.watch import POLL_SECONDS


def test_somebody_may_listen_until_nobody_has_said_so_for_long() -> None:
    now = [100.0]
    listeners = Listeners(lambda: now[0])
    assert listeners.are_there()  # who said so may have done it before
    now[0] += DEAF_SECONDS
    assert not listeners.are_there()
    listeners.hear()
    now[0] += MEMORY_SECONDS / 2
    listeners.hear()
    now[0] += MEMORY_SECONDS - 1
    assert listeners.are_there()
    now[0] += 1
    assert not listeners.are_there()


def test_who_was_cut_off_forgets_nothing() -> None:
    now = [100.0]
    listeners = Listeners(lambda: now[0])
    listeners.hear()
    listeners.expect()
    now[0] += MEMORY_SECONDS - 1
    assert listeners.are_there()
    now[0] += 1
    listeners.expect()
    assert listeners.are_there()


def test_a_gateway_says_so_in_time() -> None:
    """Who comes while it is sure is told of by the next slow look, and to a dispatcher that did not hear it."""
    assert SURE_SECONDS + POLL_SECONDS < MEMORY_SECONDS
    assert SURE_SECONDS < DEAF_SECONDS
