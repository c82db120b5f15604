"""Resident memory of each service in MB: idle, with 64 jobs in flight, and with very many.

Jobs that are not done in time are deleted with the stack.
"""

import time
from collections.abc import Iterator

from benchmarks.harness.bench import IN_FLIGHT, SERVICES, Bench, Scenario, check
from benchmarks.harness.processes import read_memory
from benchmarks.harness.receiver import Receiver
from benchmarks.harness.report import Figures, with_prefix

BATCH = 1_000  # jobs of one request: a larger one would need memory for itself
CONNECTIONS = 4
LENGTH = 6  # how many times longer than other parts the very many jobs run at most
SETTLE_SECONDS = 2.0


def measure(bench: Bench) -> Iterator[Figures]:
    bench.run_closed(1)
    pids = {service.name: service.process.pid or 0 for service in bench.stack.services}
    time.sleep(SETTLE_SECONDS)
    idle = {name: read_memory(pid) for name, pid in pids.items()}
    bench.run_closed(bench.seconds)
    busy = {name: read_memory(pid, "VmHWM") for name, pid in pids.items()}
    jobs, seconds, begin = bench.options.jobs, bench.seconds * LENGTH, time.perf_counter()
    bench.submit(connections=CONNECTIONS, requests=jobs // BATCH, batch=BATCH)
    submitted = time.perf_counter() - begin
    arrived, duplicates = bench.child("receiver").call(Receiver.take_arrived, count=jobs, seconds=seconds)
    full = {name: read_memory(pid, "VmHWM") for name, pid in pids.items()}
    check({"jobs": jobs, "failed": 0, "duplicates": duplicates})
    yield {
        **with_prefix("memory.idle", idle),
        **with_prefix("memory.busy", busy),
        **with_prefix("memory.full", full),
        **with_prefix("memory.grown", {name: full[name] - busy[name] for name in SERVICES}),
        "memory.submit": submitted,
        "memory.done": len(arrived),
    }


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT}, ("jobs",), once=True)
