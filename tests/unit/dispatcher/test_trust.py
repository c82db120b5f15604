"""Which models' answers are believed."""

from services.dispatcher.trust import LONGEST, Trust


def test_a_lost_trust_comes_back_in_time() -> None:
    now = 0.0
    trust = Trust(lambda: now)
    assert trust.has("work")
    trust.lose("work")
    trust.keep({"work"})
    assert not trust.has("work")
    now = LONGEST + 1
    assert trust.has("work")
    trust.keep({"work"})
    assert not trust.lost
