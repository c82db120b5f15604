"""The scenarios, by the names on the command line."""

from collections.abc import Iterator

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.report import Figures
from benchmarks.scenarios import (
    big,
    burst,
    fairness,
    memory,
    notifier,
    pair,
    peers,
    retention,
    speed,
    submit,
    tracing,
    waiting,
    work,
)


def measure_core(bench: Bench) -> Iterator[Figures]:
    """Measure speed, work, submit and pair on one stack in each round, and burst in the first."""
    parts = [part.SCENARIO.rounds(bench) for part in (speed, work, submit, pair, burst)]
    while True:
        yield {name: value for part in parts for name, value in next(part).items()}
        parts = parts[:4]


MODULES = (speed, peers, work, submit, burst, pair, memory, big, retention, fairness, waiting, notifier, tracing)
SCENARIOS = {module.__name__.rpartition(".")[2]: module.SCENARIO for module in MODULES} | {
    "core": Scenario(measure_core, {**speed.SCENARIO.setup, **work.SCENARIO.setup}, check_jobs=True),
    "deliveries": notifier.DELIVERIES,
}
