"""The plan ends by itself."""

from benchmarks.gpu.plan import Plan
from benchmarks.scenarios.gpu import double


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_no_part_begins_that_would_end_late() -> None:
    clock = Clock()
    plan = Plan(100, clock)
    assert plan.has_time()
    assert plan.run(lambda: clock.spend(40)) == (None, 40)
    assert plan.has_time()
    plan.run(lambda: clock.spend(20))
    assert plan.has_time()  # 60 of 100 are over: the longest part still fits
    plan.run(lambda: clock.spend(1))
    assert not plan.has_time()


def test_instances_double() -> None:
    assert (list(double(8)), list(double(6)), list(double(1))) == ([1, 2, 4, 8], [1, 2, 4], [1])
