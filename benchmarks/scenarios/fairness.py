"""One tenant's jobs at a steady rate: alone, beside another tenant's full queue, and while that queue is filled.

Times in ms from submission to start (`queue`) and to the end (`total`), and CPU in ms per second.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario, check
from benchmarks.harness.load_generator import WORK_MS, submit
from benchmarks.harness.report import Figures, pick, with_prefix
from tests.support.stacks.key_command import make_key

RATE = 1  # jobs per second of the one tenant
JOBS = 10_000  # of the other
LENGTH = 6  # how many times longer than other parts, because the rate is low
DRAIN_SECONDS = 600.0
OTHERS: dict[str, dict[str, Any]] = {  # how the other tenant submits its jobs
    "beside": {"connections": 1, "requests": 1, "batch": JOBS},
    "flooded": {"connections": 32, "requests": JOBS},
}


def measure(bench: Bench) -> Iterator[Figures]:
    bench.run_open(3, ["probe"], "work", rate=10)
    other, port = bench.child("flood"), bench.stack.settings.gateway_port
    arguments = {"port": port, "model": "work", "key": asyncio.run(make_key(bench.stack, "flooding"))}
    other.call(submit, connections=32, requests=300, **arguments)
    bench.await_none("count_queued", DRAIN_SECONDS, "queued jobs")
    while True:
        figures = with_prefix("alone", _measure(bench))
        for kind, how in OTHERS.items():
            submitting = other.start(submit, **arguments, **how)
            if kind == "beside":
                submitting.result()
            figures |= with_prefix(kind, _measure(bench))
            (figures[f"{kind}.left"],) = bench.query("count_queued")
            if not figures[f"{kind}.left"]:
                raise BenchmarkFailed("the other tenant's queue was empty too soon: take fewer --seconds")
            found = check(submitting.result())
            figures |= {f"{kind}.rate": found["jobs"] / found["seconds"]}
            figures |= {f"{kind}.ratio": figures[f"{kind}.total.p99"] / figures["alone.total.p99"]}
            bench.await_none("count_queued", DRAIN_SECONDS, "queued jobs")
        yield {"ratio": figures.pop("beside.ratio"), **figures}


def _measure(bench: Bench) -> Figures:
    seconds = bench.seconds * LENGTH
    found = bench.run_open(seconds, ["probe", "flood"], "work", rate=RATE)
    cpu = {name: used * found["jobs"] / seconds for name, used in pick(found, "cpu").items()}
    return {**pick(found, "queue", "total"), **cpu}


SCENARIO = Scenario(measure, {"rate": RATE, "jobs": JOBS, "ms": WORK_MS})
