"""Thirty models and memory for three: Charonia's rule, the least recently used one, and jobs in order of arrival.

First, what the planner costs while each job finds its model: in turns with dispatchers that load nothing. Then each
pattern of arrivals under each rule, with the same jobs. A job that has not started at the end counts with what it
waited until then.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario
from benchmarks.harness.report import Figure, Figures, pick, with_prefix
from benchmarks.residency.load import run_arrivals
from benchmarks.residency.memory_watch import MemoryWatch
from benchmarks.residency.patterns import MODELS, PATTERNS, Arrival, list_arrivals, name_model
from deploy.local.servers.postgres import DATABASE
from deploy.local.services import Service
from deploy.local.stack import MODEL_MEMORY
from deploy.local.terminal import say
from tests.support.stacks.sized_models import SizedModels

COMPRESSION = 10.0  # times as fast as loads of 0.5 to 5 s, besides what Triton needs by itself: two seconds a swap
LOADS = 0.5, 5.0  # seconds that the shortest and the longest load wait, uncompressed
MAX_WAIT = 240  # seconds: 3.6 times what it takes to swap all models once, as in the simulation of decision 30
ALLOCATED = 100 * 10**6  # bytes of each model
TAKEN = 140 * 10**6  # with its process
HELD = 3  # models
COMPUTE_SECONDS = 0.05  # of a job
LENGTH = 90.0  # times as long as other parts: 360 s by default
IN_ORDER = 32  # jobs at a time
WARM_SECONDS = 2.0
RATE = 50  # jobs/s, while each finds its model
LEARN_SECONDS = 300.0  # until each model was loaded once
CANCEL_SECONDS = 60.0  # until what is left has ended
KNOWN = "SELECT count(DISTINCT name) FROM served_models"
QUIET = "SELECT count(*) FROM residencies WHERE phase IN ('loading', 'draining') OR place IS NOT NULL"
RESIDENT = "SELECT name FROM residencies WHERE phase = 'resident' ORDER BY loaded_at DESC LIMIT 1"
LIVE = "SELECT count(*) FROM jobs WHERE status IN ('queued', 'processing')"
FORGET = "UPDATE residencies SET arrivals = 0, used_at = now()"
ROW = "{:<10} {:<10} {:>6} {:>8} {:>10} {:>10} {:>9} {:>11}"


class Variant(NamedTuple):
    """What decides: a rule of the dispatcher, and how many jobs are submitted at a time."""

    rule: str
    in_flight: int | None = None


VARIANTS: Mapping[str, Variant] = {
    "charonia": Variant("charonia"),
    "lru": Variant("lru"),
    "fifo": Variant("lru", IN_ORDER),
}


def write_models(folder: Path, _options: argparse.Namespace) -> None:
    models = SizedModels(folder)
    shortest, longest = LOADS
    for number in range(MODELS):
        place = number * 7 % MODELS  # popular models are neither the quickest nor the slowest to load
        seconds = (shortest + (longest - shortest) * place / (MODELS - 1)) / COMPRESSION
        models.add(name_model(number), ALLOCATED, seconds, COMPUTE_SECONDS, memory=str(TAKEN))


def measure(bench: Bench) -> Iterator[Figures]:
    use_rule(bench, "charonia")
    await_value(bench, KNOWN, MODELS, LEARN_SECONDS)
    await_value(bench, QUIET, 0, LEARN_SECONDS)
    figures = measure_cost(bench)
    for pattern in PATTERNS:
        arrivals = list_arrivals(pattern, bench.seconds * LENGTH)
        for name, variant in VARIANTS.items():
            found = measure_arrivals(bench, arrivals, variant)
            figures |= with_prefix(f"{pattern}.{name}", found)
            say(f"{pattern}, {name}: {', '.join(f'{each} {value:.4g}' for each, value in found.items())}")
    yield figures


def measure_cost(bench: Bench) -> Figures:
    """Return what jobs of a resident model take, without and with the planner."""
    model = bench.stack.postgres.query(RESIDENT, DATABASE)
    figures: Figures = {}
    for name in ("off", "on", "on", "off"):
        use_rule(bench, "charonia" if name == "on" else None)
        for seconds in (WARM_SECONDS, 2 * bench.seconds):
            arrivals = [Arrival(number / RATE, model) for number in range(round(seconds * RATE))]
            found = bench.run(run_arrivals, ["load"], seconds + CANCEL_SECONDS, port=bench.ports[0], arrivals=arrivals)
        for figure, value in pick(found, "webhook.p50", "webhook.p99", "cpu", "own").items():
            figures[f"{name}.{figure}"] = figures.get(f"{name}.{figure}", 0.0) + value / 2
    return figures


def measure_arrivals(bench: Bench, arrivals: list[Arrival], variant: Variant) -> Figures:
    dispatcher = use_rule(bench, variant.rule)
    await_value(bench, QUIET, 0, CANCEL_SECONDS)
    before = read_counts(dispatcher)
    watch = bench.child("watch")
    watch.call(MemoryWatch.begin, database_url=bench.stack.postgres.url, triton=bench.stack.triton.process.pid)
    found = bench.child("load").call(
        run_arrivals,
        port=bench.ports[0],
        arrivals=arrivals,
        seconds=bench.seconds * LENGTH,
        in_flight=variant.in_flight,
    )
    counts = {name: count - before[name] for name, count in read_counts(dispatcher).items()}
    memory = watch.call(MemoryWatch.end)
    if found["failed"]:
        raise BenchmarkFailed(f"jobs were refused or failed: {found}")
    await_value(bench, LIVE, 0, CANCEL_SECONDS)
    return pick(found, "jobs", "left", "rate", "wait") | counts | memory


def use_rule(bench: Bench, rule: str | None) -> Service:
    """Run a dispatcher with this rule, or one that loads nothing, in place of the one before."""
    stack, (before,) = bench.stack, bench.stack.dispatchers
    before.stop()
    stack.postgres.query(FORGET, DATABASE)
    environment, wrapper = stack.environment, list[str]()
    if rule is None:
        environment = {name: value for name, value in environment.items() if name != MODEL_MEMORY}
    else:
        wrapper = [sys.executable, "-m", "benchmarks.residency.dispatcher", rule, str(COMPRESSION)]
    service = Service("dispatcher", before.port, environment, stack.log_dir, name=before.name, wrapper=wrapper)
    stack.dispatchers[:] = [service]
    service.start()
    return service


def read_counts(dispatcher: Service) -> Figures:
    """Return how many models it has loaded, and how many of them in place of another one."""
    text = httpx.get(f"{dispatcher.url}/metrics", trust_env=False).text
    names = {"loads": "charonia_model_loads_total", "swaps": "charonia_model_swaps_total"}
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {short: sum(each.value for each in samples if each.name == name) for short, name in names.items()}


def await_value(bench: Bench, query: str, value: int, seconds: float) -> None:
    """Wait until a query returns this number; raise BenchmarkFailed if it does not in time."""
    deadline = time.monotonic() + seconds
    while (found := int(bench.stack.postgres.query(query, DATABASE))) != value:
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{query}: {found} instead of {value}")
        time.sleep(0.5)


def summarize(figures: Mapping[str, Figure], _facts: Mapping[str, Any]) -> Iterable[str]:
    """Yield a table of the rules, and which goals are reached."""
    yield ROW.format("arrivals", "rule", "swaps", "jobs/s", "p50 s", "p99 s", "rows MB", "RSS MB")
    for pattern in PATTERNS:
        for name in VARIANTS:
            own = {each: figures[f"{pattern}.{name}.{each}"].median for each in ("swaps", "rate")}
            waits = [figures[f"{pattern}.{name}.wait.{each}"].median / 1000 for each in ("p50", "p99")]
            memory = [figures[f"{pattern}.{name}.memory.{each}"].median for each in ("rows", "processes")]
            yield ROW.format(pattern, name, *(f"{value:.4g}" for value in (*own.values(), *waits, *memory)))
    yield ""
    for title, is_reached in check_goals({name: figure.median for name, figure in figures.items()}).items():
        yield f"{'reached' if is_reached else 'not reached':<12} {title}"


def check_goals(figures: Mapping[str, float]) -> Mapping[str, bool]:
    """Return which goals are reached."""
    budget = HELD * TAKEN / 1e6
    waits = [figures[f"{pattern}.charonia.wait.p99"] for pattern in PATTERNS]
    memory = [value for name, value in figures.items() if ".charonia.memory." in name]
    return {
        "Zipf: at most half of the swaps of the least recently used rule": 2 * figures["zipf.charonia.swaps"]
        <= figures["zipf.lru.swaps"],
        "Zipf: 1.5 times its jobs/s": figures["zipf.charonia.rate"] >= 1.5 * figures["zipf.lru.rate"],
        "Zipf: 1.5 times the jobs/s in order of arrival": figures["zipf.charonia.rate"]
        >= 1.5 * figures["zipf.fifo.rate"],
        f"p99 of the wait within {MAX_WAIT} s": max(waits) <= 1000 * MAX_WAIT,
        f"memory within {budget:g} MB": max(memory) <= budget,
    }


SCENARIO = Scenario(
    measure,
    {"models": MODELS, "held": HELD, "compression": COMPRESSION, "max_wait": MAX_WAIT, "in_order": IN_ORDER},
    environment={MODEL_MEMORY: str(HELD * TAKEN), "CHARONIA_MODEL_MAX_WAIT": str(MAX_WAIT)},
    write_models=write_models,
    summarize=summarize,
    once=True,
)
