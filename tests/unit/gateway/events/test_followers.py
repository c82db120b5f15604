"""Jobs follow the twin that they wait for, until nobody waits for them."""

from common import ids
from services.gateway.events.followers import Followers

FIRST, SECOND, TWIN, NEXT = (ids.new() for _ in range(4))


def test_jobs_follow_their_twin_to_the_next_one() -> None:
    followers = Followers()
    followers.note(FIRST, TWIN)
    followers.note(SECOND, TWIN)
    assert {*followers.find(TWIN)} == {FIRST, SECOND}
    followers.note(FIRST, NEXT)
    assert ({*followers.find(TWIN)}, {*followers.find(NEXT)}) == ({SECOND}, {FIRST})


def test_nothing_is_left_of_jobs_that_nobody_waits_for() -> None:
    followers = Followers()
    followers.note(FIRST, TWIN)
    followers.note(SECOND, TWIN)
    followers.note(FIRST, None)
    followers.forget(SECOND)
    followers.forget(SECOND)
    assert not followers.find(TWIN)
    assert (followers._by_twin, followers._twins) == ({}, {})
