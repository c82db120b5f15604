"""Models in PyTorch, on a GPU if there is one: Triton directly and through Charonia, with more and more instances.

The figures of each number of instances begin with `gpu.N`. Latencies are in ms and CPU in ms per job.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx

from benchmarks.gpu.figures import compare, group_by_kind
from benchmarks.gpu.model_metrics import describe_models, read_work
from benchmarks.gpu.nvml import Gpu, find_gpu, measure_busy
from benchmarks.gpu.plan import Plan
from benchmarks.gpu.readiness import await_models, await_slots
from benchmarks.gpu.repository import DECODER, VISION, write_models
from benchmarks.gpu.sizes import SIZES, Size, choose_size
from benchmarks.gpu.streams import stream_from_triton, stream_jobs
from benchmarks.gpu.summary import summarize
from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario
from benchmarks.harness.instances import set_instances
from benchmarks.harness.report import Figures, pick, with_prefix
from deploy.local.terminal import say

RATES = (10, 50, 200)  # jobs/s
BEARABLE = 0.9  # of the jobs/s at full load: a higher rate would only measure how a queue grows
WARM_SECONDS = 2.0
SHOWN = ("around", "accepted", "webhook", "late", "own")
FEW = 4  # streams whose first tokens are compared


def prepare_models(directory: Path, options: argparse.Namespace) -> None:
    write_models(directory, SIZES[choose_size(options.size, find_gpu() is not None)])


def measure(bench: Bench) -> Iterator[Figures]:
    gpu, plan = find_gpu(), Plan(bench.options.minutes * 60)
    bench.facts |= _describe(bench, gpu)
    while plan.has_time():
        figures: Figures = {}
        for count in double(bench.options.instances):
            if plan.has_time():
                found, took = plan.run(partial(_measure_instances, bench, gpu, count))
                figures |= found
                say(f"{count} of each service: done after {took:.0f} s.")
        set_instances(bench.stack, 1)
        yield figures
    say(f"The time is over: no further part ends within {bench.options.minutes} minutes.")


def _measure_instances(bench: Bench, gpu: Gpu | None, count: int) -> Figures:
    """Return all figures with so many instances of each service."""
    size = _size(bench)
    set_instances(bench.stack, count)
    await_slots(bench.stack, size)
    bench.call_triton(1, VISION, size.in_flight)
    bench.run_closed(WARM_SECONDS, VISION, in_flight=size.in_flight)
    direct = _watch(bench, gpu, VISION, lambda: bench.call_triton(bench.seconds, VISION, size.in_flight))
    closed = _watch(bench, gpu, VISION, lambda: bench.run_closed(bench.seconds, VISION, in_flight=size.in_flight))
    figures = with_prefix("direct", pick(direct, "rate", "batch", "compute", "busy", "cpu.triton"))
    figures["direct.cores.client"] = group_by_kind(direct)["cores.direct client"]
    figures |= with_prefix("closed", pick(closed, "rate", "batch", "compute", "busy", "webhook", "own"))
    figures |= with_prefix("closed", group_by_kind(closed))
    for rate in RATES:
        if rate < BEARABLE * closed["rate"]:
            found = bench.run_open(bench.seconds, model=VISION, rate=rate)
            figures |= with_prefix(f"open{rate}", pick(found, *SHOWN))
    for name, in_flight in (("few", FEW), ("many", size.streams)):
        figures |= with_prefix(name, _measure_streams(bench, gpu, in_flight))
    bench.stack.check()
    return with_prefix(f"gpu.{count}", figures | compare(figures))


def _measure_streams(bench: Bench, gpu: Gpu | None, in_flight: int) -> Figures:
    """Return the figures of so many streams of tokens, without Charonia and with it."""
    size, figures = _size(bench), Figures()
    common = {"in_flight": in_flight, "prompt": size.prompt, "tokens": size.tokens}
    address, ports = bench.stack.triton.grpc_address, bench.ports
    loads: dict[str, Callable[[], Figures]] = {
        "direct": lambda: bench.run(stream_from_triton, ["direct client"], bench.seconds, address=address, **common),
        "stream": lambda: bench.run(stream_jobs, ["load"], bench.seconds, ports=ports, **common),
    }
    for name, load in loads.items():
        found = _watch(bench, gpu, DECODER, load)
        figures |= with_prefix(name, pick(found, "rate", "compute", "busy", "first", "own"))
    return figures


def _watch(bench: Bench, gpu: Gpu | None, model: str, load: Callable[[], Figures]) -> Figures:
    """Return the figures of a load, and those of the model meanwhile.

    `compute` is the share of the time in which its instances computed, and `busy` that in which the GPU did.
    """
    before, began = read_work(_read_metrics(bench), model), time.monotonic()
    with measure_busy(gpu) as busy:
        figures = load()
    seconds, done = time.monotonic() - began, read_work(_read_metrics(bench), model) - before
    instances = _size(bench).instances if model == VISION else 1
    figures |= {"compute": done.seconds / seconds / instances, "batch": done.requests / max(done.batches, 1.0)}
    return figures if busy.mean is None else figures | {"busy": busy.mean}


def _describe(bench: Bench, gpu: Gpu | None) -> dict[str, object]:
    """Return what the result says of the models and the GPU; raise BenchmarkFailed unless they can be measured."""
    await_models(bench.stack)
    models = describe_models(_read_metrics(bench))
    if gpu is not None and bench.options.size == "auto" and any(each["device"] == "cpu" for each in models.values()):
        raise BenchmarkFailed(f"PyTorch cannot use {gpu.name}: install a build for its CUDA, or choose a --size")
    size = choose_size(bench.options.size, gpu is not None)
    return {"gpu": gpu.name if gpu else None, "size": size, "models": models}


def _size(bench: Bench) -> Size:
    return SIZES[bench.facts["size"]]


def _read_metrics(bench: Bench) -> str:
    return httpx.get(bench.stack.triton.metrics_url, trust_env=False).text


def double(most: int) -> Iterator[int]:
    """Yield 1, 2, 4 and so on."""
    count = 1
    while count <= most:
        yield count
        count *= 2


SCENARIO = Scenario(
    measure,
    {"rates": list(RATES), "few_streams": FEW},
    ("instances", "minutes"),
    write_models=prepare_models,
    summarize=summarize,
    check_jobs=True,
)
