"""Jobs per second of a stack whose tables are big, beside one whose tables are empty; CPU in ms per job."""

from collections.abc import Iterator

from benchmarks.harness.bench import IN_FLIGHT, Bench, Scenario, rotate
from benchmarks.harness.fill_tables import fill_tables
from benchmarks.harness.private_stack import open_bench
from benchmarks.harness.report import Figures, pick, with_prefix

AGE = 30 * 86_400.0  # seconds; of the oldest rows
WARM_SECONDS = 4.0


def measure(bench: Bench) -> Iterator[Figures]:
    options, directory = bench.options, bench.stack.settings.stack_dir.with_name("full")
    with open_bench(directory, options, {}) as full:
        seconds = fill_tables(full.stack, options.rows, AGE, options.queued)
        benches = {"empty": bench, "full": full}
        for each in benches.values():
            each.run_closed(WARM_SECONDS)
        for order in rotate(tuple(benches)):
            figures: Figures = {"big.filled": seconds}
            for variant in order:
                found = benches[variant].run_closed(bench.seconds)
                figures |= with_prefix(f"big.{variant}", pick(found, "rate", "cpu"))
            full.stack.check()
            yield figures | {"big.ratio": figures["big.full.rate"] / figures["big.empty.rate"]}


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT}, ("rows", "queued"))
