"""Jobs per second with two instances of each service, beside one; each job goes to the next gateway in turn."""

from collections.abc import Iterator

from benchmarks.harness.bench import IN_FLIGHT, Bench, Scenario, rotate
from benchmarks.harness.instances import set_instances
from benchmarks.harness.report import Figures

WARM_SECONDS = 8.0  # a new process fills its caches, and learns how quick a model is


def measure(bench: Bench) -> Iterator[Figures]:
    bench.run_closed(1)
    for order in rotate(("one", "two")):
        rates = {variant: _measure(bench, variant) for variant in order}
        set_instances(bench.stack, 1)
        yield {"pair.one.rate": rates["one"], "pair.two.rate": rates["two"], "pair.ratio": rates["two"] / rates["one"]}


def _measure(bench: Bench, variant: str) -> float:
    set_instances(bench.stack, 2 if variant == "two" else 1)
    bench.run_closed(WARM_SECONDS)
    return bench.run_closed(bench.seconds)["rate"]


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT}, check_jobs=True)
