"""Speed, work, submit and pair on one stack in each round, and burst in the first."""

from collections.abc import Iterator

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.report import Figures
from benchmarks.scenarios import burst, pair, speed, submit, work


def measure(bench: Bench) -> Iterator[Figures]:
    parts = [part.SCENARIO.rounds(bench) for part in (speed, work, submit, pair, burst)]
    while True:
        yield {name: value for part in parts for name, value in next(part).items()}
        parts = parts[:4]


SCENARIO = Scenario(measure, {**speed.SCENARIO.setup, **work.SCENARIO.setup}, check_jobs=True)
