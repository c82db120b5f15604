"""The consumers of 20 dispatchers with 100 models each, on one RabbitMQ node.

Seconds until they consume, connections and channels, memory in MB, CPU in ms per second, and ms of a wake-up.
"""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario
from benchmarks.harness.child_process import CALL_SECONDS, ChildProcess
from benchmarks.harness.processes import CpuMeter, read_memory
from benchmarks.harness.queue_worker import MODELS, QUEUES, RATE, QueueWorker, publish
from benchmarks.harness.report import Figures, percentiles, with_prefix
from common.settings import QueueType
from deploy.local.processes.ports import free_ports
from deploy.local.servers.rabbitmq import RabbitMQ

DISPATCHERS = 20
COUNTS = "{length(rabbit_networking:connections()), length(rabbit_channel:list()), erlang:memory(total)}."


def measure(bench: Bench) -> Iterator[Figures]:
    workers = [bench.child(f"dispatcher {number}") for number in range(DISPATCHERS)]
    figures: Figures = {}
    for queue_type in get_args(QueueType):
        broker = RabbitMQ(bench.stack.settings.stack_dir / queue_type, *free_ports(3))
        try:
            broker.start()
            found = measure_broker(bench, broker, workers, queue_type)
        finally:
            broker.stop()
        figures |= with_prefix(queue_type, found)
    yield figures


def measure_broker(bench: Bench, broker: RabbitMQ, workers: Sequence[ChildProcess], queue_type: QueueType) -> Figures:
    """Start all consumers on a new broker, let them reconnect and idle, and then send them wake-ups."""
    pid = broker.process.pid or 0
    figures = count(broker, pid, "empty")
    arguments = {"url": broker.url, "queue_type": queue_type}
    first, *others = workers
    figures["start.first"] = first.call(QueueWorker.start, name="dispatcher 0", **arguments)
    figures |= count(broker, pid, "one")
    starting = [worker.start(QueueWorker.start, name="another", **arguments) for worker in others]
    figures["start.others"] = max(future.result(CALL_SECONDS) for future in starting)
    figures |= count(broker, pid, "all")
    restarting = [worker.start(QueueWorker.restart) for worker in workers]
    broker.ctl("close_all_connections", "growth", timeout=CALL_SECONDS)
    figures["start.again"] = max(future.result(CALL_SECONDS) for future in restarting)
    figures |= count(broker, pid, "again")
    meter = CpuMeter({"broker": pid, "dispatcher": first.pid})
    time.sleep(bench.seconds)
    figures |= with_prefix("idle", meter.read(bench.seconds))
    sent = bench.child("publisher").call(publish, seconds=bench.seconds, **arguments)
    delays = [delay for worker in workers for delay in worker.call(QueueWorker.take_delays)]
    if len(delays) != sent:
        raise BenchmarkFailed(f"{len(delays)} of {sent} wake-ups came")
    figures |= percentiles("wake_up", delays) | {"dispatcher.memory": read_memory(first.pid)}
    for stopping in [worker.start(QueueWorker.stop) for worker in workers]:
        stopping.result(CALL_SECONDS)
    return figures


def count(broker: RabbitMQ, pid: int, prefix: str) -> Figures:
    """Return the connections and channels of a broker, its memory and its open files."""
    connections, channels, allocated = (
        int(number) for number in re.findall(r"\d+", broker.ctl("eval", COUNTS, timeout=CALL_SECONDS))
    )
    return with_prefix(
        prefix,
        {
            "connections": connections,
            "channels": channels,
            "files": len([*Path(f"/proc/{pid}/fd").iterdir()]),
            "memory": read_memory(pid),
            "allocated": allocated / 1e6,
        },
    )


SETUP = {"dispatchers": DISPATCHERS, "models": MODELS, "queues": QUEUES, "wake_ups": RATE}
SCENARIO = Scenario(measure, SETUP, counts={"gateways": 0, "dispatchers": 0, "notifiers": 0}, once=True)
