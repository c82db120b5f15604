"""What traces cost: the same load without them, with one in a hundred, and with all; Triton sends its spans too.

Jobs per second, CPU in ms per job, latencies in ms, and bytes of spans per job.
"""

from collections.abc import Iterator, Mapping

from benchmarks.harness.bench import IN_FLIGHT, RATE, Bench, Scenario, rotate
from benchmarks.harness.receiver import Receiver
from benchmarks.harness.report import Figures, pick, with_prefix
from deploy.local.processes.ports import HOST
from deploy.local.services import Service
from deploy.local.stack import Stack

WARM_SECONDS = 2.0
OFF = {"OTEL_SDK_DISABLED": "true"}
ONE_IN_A_HUNDRED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}
VARIABLES: dict[str, dict[str, str]] = {"off": OFF, "some": ONE_IN_A_HUNDRED, "all": {}}
ENVIRONMENT = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{{spans_port}}"} | OFF


def measure(bench: Bench) -> Iterator[Figures]:
    collector = bench.child("collector")
    collector.call(Receiver.listen, port=bench.spans_port)
    bench.run_closed(3)
    for order in rotate(tuple(VARIABLES)):
        figures: Figures = {}
        for variant in order:
            _restart_services(bench.stack, VARIABLES[variant])
            bench.run_closed(WARM_SECONDS)
            collector.call(Receiver.take_span_bytes)
            closed = bench.run_closed(bench.seconds, more=["collector"])
            size = collector.call(Receiver.take_span_bytes) / closed["jobs"]
            steady = bench.run_open(bench.seconds)
            found = {"bytes": size, **pick(closed, "rate", "own", "cpu"), **pick(steady, "accepted", "webhook")}
            figures |= with_prefix(variant, found)
        for variant in ("some", "all"):
            figures[f"{variant}.ratio"] = figures[f"{variant}.rate"] / figures["off.rate"]
            figures[f"{variant}.cost"] = figures[f"{variant}.own"] - figures["off.own"]
        yield figures


def _restart_services(stack: Stack, variables: Mapping[str, str]) -> None:
    environment = {name: value for name, value in stack.environment.items() if name not in OFF} | dict(variables)
    for service in reversed(stack.services):
        service.stop()
    for services in (stack.gateways, stack.dispatchers, stack.notifiers):
        services[:] = [Service(each.kind, each.port, environment, stack.log_dir) for each in services]
    stack.start_services()


SCENARIO = Scenario(measure, {"rate": RATE, "in_flight": IN_FLIGHT}, environment=ENVIRONMENT)
