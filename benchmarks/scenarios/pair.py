"""Jobs per second with two instances of each service, beside one; each job goes to the next gateway in turn."""

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.harness.bench import IN_FLIGHT, Bench, Scenario, rotate
from benchmarks.harness.report import Figures
from deploy.local.services import Service

WARM_SECONDS = 2.0


def measure(bench: Bench) -> Iterator[Figures]:
    bench.run_closed(1)
    for order in rotate(("one", "two")):
        rates = {variant: _measure(bench, variant) for variant in order}
        yield {"pair.one.rate": rates["one"], "pair.two.rate": rates["two"], "pair.ratio": rates["two"] / rates["one"]}


def _measure(bench: Bench, variant: str) -> float:
    """Start second instances, if they are to be measured, only for that."""
    with ExitStack() as closing:
        if variant == "two":
            for services in (bench.stack.dispatchers, bench.stack.notifiers, bench.stack.gateways):
                (first,) = services
                name, environment = f"{first.kind}-2", bench.stack.environment
                second = Service(first.kind, first.port + 1, environment, bench.stack.log_dir, name=name)
                services.append(second)
                closing.callback(services.remove, second)
                closing.callback(second.stop)
                second.start()
        bench.run_closed(WARM_SECONDS)
        return bench.run_closed(bench.seconds)["rate"]


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT}, check_jobs=True)
