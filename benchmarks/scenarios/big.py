"""A stack whose tables are big, beside one whose tables are empty.

Latencies are in ms, CPU in ms per job. The figures `ratio` are the big one's, as multiples of the empty one's.
"""

import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from uuid import UUID

from benchmarks.harness.bench import IN_FLIGHT, RATE, Bench, BenchmarkFailed, Scenario, rotate
from benchmarks.harness.fill_tables import fill_tables
from benchmarks.harness.load_generator import HEADERS
from benchmarks.harness.private_stack import open_bench
from benchmarks.harness.raw_http import Connection
from benchmarks.harness.report import Figures, percentiles, pick, with_prefix
from common import ids
from deploy.local.servers.postgres import DATABASE
from deploy.local.services import DEVELOPMENT_KEY

AGE = 30 * 86_400.0  # seconds; of the oldest rows
WARM_SECONDS = 4.0
LOOKED_UP = 400  # jobs, of all that have ended, in each part
SEEN = 10 * LOOKED_UP  # jobs on the pages from which they are drawn
PATHS = {"list": "/v1/jobs", "failed": "/v1/jobs?status=failed"}
DRAW = """
SELECT id FROM (SELECT id FROM jobs TABLESAMPLE SYSTEM (%s) WHERE finished_at IS NOT NULL) seen
ORDER BY random() LIMIT %s
"""
COMPARED = ("accepted.p50", "queue.p50", "webhook.p50", "look_up.p50", "list.p50")


async def read(port: int, jobs: Sequence[str]) -> Figures:
    """Look up these jobs and a page of each list in turns, one at a time. Return their latencies."""
    connection = await Connection.open(port)
    taken: dict[str, list[float]] = {"look_up": [], **{name: [] for name in PATHS}}
    for job in jobs:
        for name, path in {"look_up": f"/v1/jobs/{job}", **PATHS}.items():
            sent = time.perf_counter()
            status, body = await connection.send(f"GET {path} HTTP/1.1\r\n{HEADERS % DEVELOPMENT_KEY}\r\n".encode())
            if status != HTTPStatus.OK:
                raise BenchmarkFailed(f"{path}: {status} {body[:500]!r}")
            taken[name].append((time.perf_counter() - sent) * 1000)
    connection.transport.close()
    return {figure: value for name, each in taken.items() for figure, value in percentiles(name, each).items()}


def draw_jobs(bench: Bench, rows: int) -> list[str]:
    """Return the ids of jobs that have ended, drawn from the whole history."""
    found = bench.stack.postgres.query(DRAW % (min(100.0, 100 * SEEN / max(1, rows)), LOOKED_UP), DATABASE)
    return [ids.encode(ids.Kind.JOB, UUID(line)) for line in found.split()]


def measure(bench: Bench) -> Iterator[Figures]:
    options, directory = bench.options, bench.stack.settings.stack_dir.with_name("full")
    with open_bench(directory, options, {}) as full:
        seconds = fill_tables(full.stack, options.rows, AGE, options.queued)
        benches = {"empty": bench, "full": full}
        for each in benches.values():
            each.run_closed(WARM_SECONDS)
        rows = {"empty": 0, "full": options.rows}
        for order in rotate(tuple(benches)):
            figures: Figures = {"big.filled": seconds}
            for variant in order:
                found = measure_stack(benches[variant], draw_jobs(benches[variant], rows[variant]))
                figures |= with_prefix(f"big.{variant}", found)
            full.stack.check()
            ratios = {f"{name}.ratio": figures[f"big.full.{name}"] / figures[f"big.empty.{name}"] for name in COMPARED}
            ratios |= {"ratio": figures["big.full.rate"] / figures["big.empty.rate"]}
            yield figures | with_prefix("big", ratios)


def measure_stack(bench: Bench, jobs: Sequence[str]) -> Figures:
    """Return what a stack does under full load, at a low rate, and with reads only."""
    found = pick(bench.run_closed(bench.seconds), "rate", "cpu")
    found |= pick(bench.run_open(bench.seconds), "accepted", "queue", "webhook")
    return found | bench.child("load").call(read, port=bench.ports[0], jobs=jobs)


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT, "rate": RATE, "looked_up": LOOKED_UP}, ("rows", "queued"))
