"""A job that takes a result at its submit, beside a bare submit; and a thousand jobs that ask the same at once.

Latencies are in ms, CPU in ms per job. `ratio` is of the medians: a hit with `Prefer: wait`, by a submit that waits for
nothing. `joined.executions` counts what Triton ran for each thousand.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator
from http import HTTPStatus

from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario
from benchmarks.harness.load_generator import HEADERS
from benchmarks.harness.raw_http import ACCEPTED, Connection
from benchmarks.harness.report import Figures, percentiles, pick, with_prefix
from deploy.local.services import DEVELOPMENT_KEY

RATE = 20  # submits per second, each kind by turns: what one leaves to do is over before the next one
JOINED = 1000
WORK_MS = 500
MAX_AGE = 3600  # seconds

_questions = itertools.count(time.time_ns() // 1_000_000)  # new ones in each run of the benchmark


def build(model: str, inputs: str, *, reuse: bool, wait: int = 0) -> bytes:
    """Return the bytes of a submit."""
    more = f',"reuse":{{"max_age":{MAX_AGE}}}' if reuse else ""
    body = f'{{"model":"{model}","inputs":{inputs}{more}}}'
    headers = HEADERS % DEVELOPMENT_KEY + (f"Prefer: wait={wait}\r\n" if wait else "")
    return f"POST /v1/jobs HTTP/1.1\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()


async def alternate(port: int, seconds: float) -> Figures:
    """Submit by turns a bare job, and one whose question was answered. Return their latencies."""
    connection = await Connection.open(port)
    inputs = f'{{"x":[[{next(_questions)}]]}}'
    requests = {
        "bare": (build("echo", inputs, reuse=False), ACCEPTED),
        "hit": (build("echo", inputs, reuse=True, wait=30), HTTPStatus.OK),
    }
    await connection.send(requests["hit"][0])  # it runs, and the others take its result
    taken: dict[str, list[float]] = {name: [] for name in requests}
    begin = time.perf_counter()
    for number, name in zip(range(int(seconds * RATE)), itertools.cycle(requests), strict=False):
        await asyncio.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
        request, expected = requests[name]
        sent = time.perf_counter()
        status, body = await connection.send(request)
        if status != expected:
            raise BenchmarkFailed(f"{name}: {status} {body[:500]!r}")
        taken[name].append((time.perf_counter() - sent) * 1000)
    connection.transport.close()
    return {"jobs": sum(map(len, taken.values())), "failed": 0} | {
        figure: value for name, each in taken.items() for figure, value in percentiles(name, each).items()
    }


async def join(port: int, seconds: float) -> Figures:
    """Submit jobs that ask the same at once, and wait for all of them."""
    request = build("work", f'{{"ms":[[{WORK_MS + next(_questions) % 400}]]}}', reuse=True, wait=60)
    begin = time.perf_counter()

    async def submit() -> None:
        connection = await Connection.open(port)
        status, body = await connection.send(request)
        connection.transport.close()
        if status != HTTPStatus.OK:
            raise BenchmarkFailed(f"a job that joined: {status} {body[:500]!r}")

    async with asyncio.TaskGroup() as group:
        for _ in range(JOINED):
            group.create_task(submit())
    return {"jobs": JOINED, "failed": 0, "seconds": time.perf_counter() - begin}


def measure(bench: Bench) -> Iterator[Figures]:
    (port, *_) = bench.ports
    bench.run(alternate, ["load"], 1, port=port)
    while True:
        found = bench.run(alternate, ["load"], bench.seconds, port=port)
        before = sum(bench.count_inferences("work")[:1])
        joined = bench.run(join, ["load"], 1, port=port)
        executions = sum(bench.count_inferences("work")[:1]) - before
        yield {
            "ratio": found["hit.p50"] / found["bare.p50"],
            "ratio.p99": found["hit.p99"] / found["bare.p99"],
            **{name: value for name, value in found.items() if name.startswith(("hit.", "bare."))},
            **with_prefix("joined", pick(joined, "seconds", "own", "cpu.postgres")),
            "joined.executions": float(executions),
        }


SCENARIO = Scenario(measure, {"rate": RATE, "joined": JOINED}, check_jobs=False)
