"""The pauses while the object store is away."""

from common.object_store.pauses import FIRST_SECONDS, MAX_SECONDS, Pauses
from tests.unit.clock import Clock


def test_a_pause_doubles_until_a_success() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    lengths = []
    for _ in range(8):
        pauses.note_failure()
        lengths.append(pauses.left())
        clock.now += pauses.left()
    assert lengths[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert lengths[-2:] == [MAX_SECONDS, MAX_SECONDS]
    assert pauses.left() == 0
    pauses.note_success()
    pauses.note_failure()
    assert pauses.left() == FIRST_SECONDS


def test_failures_of_reads_that_began_together_count_once() -> None:
    pauses = Pauses(Clock())
    for _ in range(20):
        pauses.note_failure()
    assert pauses.left() == FIRST_SECONDS
