"""Submits jobs over HTTP, at next to no CPU cost, and receives their webhooks.

Figures have names. `jobs`, `counted` (in the seconds that count), `failed` and `duplicates` are numbers of jobs.
`accepted`, `webhook`, `around`, `queue`, `total` and `late` have percentiles in ms; benchmarks/method.md explains them.
"""

import asyncio
import base64
import itertools
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from benchmarks.gpu.sizes import IMAGE_SIDE
from benchmarks.harness.raw_http import ACCEPTED, RESPONSE_SECONDS, Connection
from benchmarks.harness.receiver import Receiver
from benchmarks.harness.report import Figures, percentiles
from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY

LEAD_SECONDS = 0.5  # of load before counting begins
LOST_SECONDS = 30.0  # until a `202`, or then a webhook, counts as lost
WORK_MS = 20  # how long a batch of the model `work` takes
SLOW_MS = 20_000  # the same for `slow`
IMAGE = bytes(range(256)) * (3 * IMAGE_SIDE**2 // 256)
INPUTS = {
    **dict.fromkeys(("echo", "three_steps", "three_models"), '{"x":[[1,2,3]]}'),
    "work": f'{{"ms":[[{WORK_MS}]]}}',
    "slow": f'{{"ms":[[{SLOW_MS}]]}}',
    "vision_transformer": f'{{"image":{{"base64":"{base64.b64encode(IMAGE).decode()}"}}}}',
}

HEADERS = f"Host: {HOST}\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"

_numbers = itertools.count()  # each job has one in its metadata, by which its webhook is recognized


class Job(msgspec.Struct):
    """One job: times of time.perf_counter() in seconds, metrics in milliseconds; None for what did not happen."""

    sent: float
    accepted: float | None = None
    succeeded: float | None = None
    metrics: dict[str, float] = {}


class Client:
    def __init__(self) -> None:
        self.receiver = Receiver()
        self._idle: defaultdict[int, deque[Connection]] = defaultdict(deque)  # by port

    async def run_job(self, port: int, model: str, sent: float, webhook_url: str) -> Job:
        """Submit a job and wait for its webhook."""
        job, number = Job(sent), next(_numbers)
        webhook = self.receiver.expected[number] = asyncio.get_running_loop().create_future()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LOST_SECONDS) as deadline:
                connection = await self._connect(port)
                status, _ = await connection.send(build_submit(model, webhook_url, DEVELOPMENT_KEY, [number]))
                self._idle[port].append(connection)
                if status == ACCEPTED:
                    job.accepted = time.perf_counter()
                    deadline.reschedule(asyncio.get_running_loop().time() + LOST_SECONDS)
                    at, body = await webhook
                    event = msgspec.json.decode(body)
                    if event["type"] == "job.succeeded":
                        job.succeeded, job.metrics = at, event["data"]["metrics"]
        return job

    async def _connect(self, port: int) -> Connection:
        """Return the connection that rested longest, so that none rests until the gateway closes it; or a new one."""
        while self._idle[port]:
            connection = self._idle[port].popleft()
            if not connection.transport.is_closing():
                return connection
        return await Connection.open(port)

    async def summarize(self, jobs: Sequence[Job]) -> Figures:
        """Return the figures of these jobs; close all connections."""
        for connection in itertools.chain.from_iterable(self._idle.values()):
            connection.transport.close()
        self.receiver.server.close()
        _, duplicates = await self.receiver.take_arrived(0, 0.0)
        ended = [(job.metrics, (job.succeeded - job.sent) * 1000) for job in jobs if job.succeeded is not None]
        times = {
            "accepted": [(job.accepted - job.sent) * 1000 for job in jobs if job.accepted is not None],
            "webhook": [took for _, took in ended],
            "around": [took - (metrics["inference_ms"] or 0.0) for metrics, took in ended],
            "queue": [metrics["queue_ms"] for metrics, _ in ended],
            "total": [metrics["total_ms"] for metrics, _ in ended],
        }
        counts = {"jobs": len(jobs), "failed": len(jobs) - len(ended), "duplicates": duplicates}
        return counts | {name: value for kind in times for name, value in percentiles(kind, times[kind]).items()}


async def run_closed(ports: Sequence[int], in_flight: int, seconds: float, model: str) -> Figures:
    """Keep `in_flight` jobs under way, each on the next of the gateways' ports."""
    client, gateways, jobs = Client(), itertools.cycle(ports), list[Job]()
    url = await client.receiver.listen()
    begin = time.perf_counter() + LEAD_SECONDS
    end = begin + seconds

    async def repeat() -> None:
        while (now := time.perf_counter()) < end:
            jobs.append(await client.run_job(next(gateways), model, now, url))

    await asyncio.gather(*(repeat() for _ in range(in_flight)))
    counted = sum(1 for job in jobs if job.succeeded is not None and begin <= job.succeeded < end)
    figures = await client.summarize([job for job in jobs if begin <= job.sent])
    return figures | {"jobs": len(jobs), "counted": counted}


async def run_open(ports: Sequence[int], rate: float, seconds: float, model: str) -> Figures:
    """Submit `rate` jobs a second, each to the next of the gateways' ports, however long they take.

    Latencies count from when a job was due.
    """
    client, late, jobs, gateways = Client(), list[float](), list[asyncio.Task[Job]](), itertools.cycle(ports)
    url = await client.receiver.listen()
    begin = time.perf_counter() + LEAD_SECONDS
    for index in range(round(rate * seconds)):
        due = begin + index / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        late.append((time.perf_counter() - due) * 1000)
        jobs.append(asyncio.create_task(client.run_job(next(gateways), model, due, url)))
    return await client.summarize(await asyncio.gather(*jobs)) | percentiles("late", late)


async def submit(
    port: int,
    connections: int,
    model: str,
    webhook_url: str = "",
    seconds: float | None = None,
    requests: int | None = None,
    spread: float = 0.0,
    batch: int | None = None,
    key: str = DEVELOPMENT_KEY,
) -> Figures:
    """Submit jobs and do not wait for their ends; `batch` is the number of jobs in a request.

    The load ends after `seconds`, or after this many `requests`, which are due evenly over `spread` seconds.
    Jobs without a `webhook_url` send no webhook.
    """
    opened = await asyncio.gather(*(Connection.open(port) for _ in range(connections)))
    start = time.perf_counter()
    begin = start + (LEAD_SECONDS if seconds else 0.0)
    end = begin + (seconds or RESPONSE_SECONDS)
    indexes: Iterator[int] = iter(range(requests)) if requests else itertools.count()
    answers: list[tuple[float, float, bool, int]] = []  # sent, answered, accepted, bytes

    async def repeat(connection: Connection) -> None:
        for index in indexes:
            request = build_submit(model, webhook_url, key, list(itertools.islice(_numbers, batch or 1)), bool(batch))
            sent = max(time.perf_counter(), start + index * spread / (requests or 1))
            await asyncio.sleep(sent - time.perf_counter())
            status, body = await connection.send(request)
            answers.append((sent, time.perf_counter(), status == ACCEPTED, len(body)))
            if seconds and time.perf_counter() >= end:
                return

    await asyncio.gather(*map(repeat, opened))
    for connection in opened:
        connection.transport.close()
    accepted = [at for _, at, ok, _ in answers if ok]
    times = [(at - sent) * 1000 for sent, at, *_ in answers if sent >= begin]
    return {
        "jobs": len(accepted) * (batch or 1),
        "counted": sum(1 for at in accepted if begin <= at < end) * (batch or 1),
        "failed": len(answers) - len(accepted),
        "seconds": time.perf_counter() - start,
        "bytes": max(size for *_, size in answers),
        "accepted.mean": statistics.mean(times),
        "accepted.max": max(times),
    }


def build_submit(model: str, webhook_url: str, key: str, numbers: Sequence[int], batch: bool = False) -> bytes:
    """Return the bytes of a request that submits a job for each number, alone or in a batch."""
    webhook = f',"webhook":{{"url":"{webhook_url}"}}' if webhook_url else ""
    common = f'"model":"{model}","inputs":{INPUTS[model]}{webhook}'
    jobs = ",".join(f'{{{common},"metadata":{{"number":{number}}}}}' for number in numbers)
    path, body = ("/v1/batches", f"[{jobs}]") if batch else ("/v1/jobs", jobs)
    return f"POST {path} HTTP/1.1\r\n{HEADERS % key}Content-Length: {len(body)}\r\n\r\n{body}".encode()
