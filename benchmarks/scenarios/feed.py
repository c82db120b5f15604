"""1,000 clients that follow feeds, compared with 1,000 that stream the events of jobs.

Memory in MB; CPU in ms per second; statements per second; latencies in ms, from an event to the client.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import cast

from benchmarks.harness.bench import QUERIES, Bench, BenchmarkFailed, Scenario, rotate
from benchmarks.harness.child_process import ChildProcess
from benchmarks.harness.counters import EXTENSION, group_statements
from benchmarks.harness.load_generator import HEADERS, INPUTS
from benchmarks.harness.processes import read_memory
from benchmarks.harness.raw_http import ACCEPTED, Connection
from benchmarks.harness.report import Figures, percentiles, with_prefix
from common import ids
from common.postgres.database import Database
from common.security.encryption import Encryptor
from deploy.local.processes.ports import HOST
from deploy.local.servers.postgres import DATABASE
from deploy.local.services import DEVELOPMENT_KEY, encryption_key
from services.gateway.auth.authentication import ensure_tenant, hash_key, new_key
from services.gateway.auth.store import KeyStore

LISTENERS = 1000
RATE = 20  # events per second
SHARED_RATE = 1  # the same, where each event is for all listeners
AT_A_TIME = 50  # connections opened, and jobs submitted
ARRIVE_SECONDS = 30.0
FEED = "/v1/events?after=latest"
EVENT = re.compile(rb'data: {"type":"job\.(?:output|canceled)","timestamp":"([^"]+)"')
LONGEST = 100  # bytes of what EVENT matches
ACTOR = "benchmark"
HEARD = {"off": 0, "jobs": 1, "tenants": 1, "tenant": LISTENERS}  # how many listeners hear of each cancel


class Listener(asyncio.Protocol):
    """Notes how late each event arrives."""

    def __init__(self, late: list[float], request: bytes) -> None:
        self._late = late
        self._request = request
        self._rest = b""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        if not self.opened.done():
            accepted = data.startswith(b"HTTP/1.1 200")
            self.opened.set_result(None) if accepted else self.opened.set_exception(BenchmarkFailed(str(data[:500])))
        data, end = self._rest + data, 0
        for event in EVENT.finditer(data):
            self._late.append((now - datetime.fromisoformat(event[1].decode()).timestamp()) * 1000)
            end = event.end()
        self._rest = data[end:][-LONGEST:]


class Crowd:
    """The listeners, each on a connection of its own, and the jobs that they hear of."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._listeners: list[Listener] = []
        self._keys: list[str] = []

    async def make_keys(self, database_url: str, encryption_key: str) -> None:
        """Make a tenant with a key for each listener."""
        database = await Database.connect(database_url, size=1, application=ACTOR)
        store, encryptor = KeyStore(database), Encryptor((encryption_key,))
        for number in range(LISTENERS):
            tenant_id, key = await ensure_tenant(store, encryptor, f"listener-{number}", actor=ACTOR), new_key()
            await store.add_key(ids.new(), tenant_id, "", hash_key(key), actor=ACTOR)
            self._keys.append(key)
        await database.close()

    async def submit(self, port: int, count: int, *, of_all: bool = False) -> list[tuple[str, str]]:
        """Submit jobs that run in an hour, of one tenant or of all in turns. Return their ids, each with its key."""
        keys, numbers, found = self._keys if of_all else [DEVELOPMENT_KEY], iter(range(count)), list[tuple[str, str]]()
        run_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        body = f'{{"model":"echo","inputs":{INPUTS["echo"]},"run_at":"{run_at}"}}'

        async def repeat(connection: Connection) -> None:
            for number in numbers:
                key = keys[number % len(keys)]
                found.append((await post(connection, "/v1/jobs", key, body), key))
            connection.transport.close()

        await asyncio.gather(*[repeat(await Connection.open(port)) for _ in range(AT_A_TIME)])
        return found

    async def start_tokens(self, port: int, seconds: float) -> str:
        """Submit a job with SHARED_RATE events a second. Return its id."""
        words = " ".join(["word"] * round(seconds * SHARED_RATE))
        inputs = json.dumps({"text": [words], "delay_ms": [1000 // SHARED_RATE]})
        connection = await Connection.open(port)
        job = await post(connection, "/v1/jobs", DEVELOPMENT_KEY, f'{{"model":"tokens","inputs":{inputs}}}')
        connection.transport.close()
        return job

    async def open(self, port: int, targets: Sequence[tuple[str, str]]) -> None:
        """Close all streams, and open one for each path, with its key."""
        for listener in self._listeners:
            listener.transport.close()
        self._late, self._listeners = [], []
        for first in range(0, len(targets), AT_A_TIME):
            await asyncio.gather(*(self._listen(port, *target) for target in targets[first : first + AT_A_TIME]))

    async def open_feeds(self, port: int, *, of_all: bool) -> None:
        """Close all streams, and follow the feed of one tenant LISTENERS times, or that of each."""
        await self.open(port, [(FEED, key) for key in (self._keys if of_all else [DEVELOPMENT_KEY] * LISTENERS)])

    async def _listen(self, port: int, path: str, key: str) -> None:
        request = f"GET {path} HTTP/1.1\r\n{HEADERS % key}Accept: text/event-stream\r\n\r\n".encode()
        loop = asyncio.get_running_loop()
        _, listener = await loop.create_connection(lambda: Listener(self._late, request), HOST, port)
        self._listeners.append(listener)
        await listener.opened

    async def cancel(self, port: int, jobs: Sequence[tuple[str, str]], rate: float) -> None:
        """Cancel jobs at this rate."""
        connections = [await Connection.open(port) for _ in range(AT_A_TIME)]
        begin, canceling = time.perf_counter(), list[asyncio.Task[str]]()
        for number, (job, key) in enumerate(jobs):
            await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
            connection = connections[number % len(connections)]
            canceling.append(asyncio.create_task(post(connection, f"/v1/jobs/{job}/cancel", key, "")))
        await asyncio.gather(*canceling)
        for connection in connections:
            connection.transport.close()

    async def take_late(self, count: int = 0) -> list[float]:
        """Return how late the events since the last call came, once there are so many. Raises BenchmarkFailed."""
        until = time.monotonic() + ARRIVE_SECONDS
        while len(self._late) < count:
            if time.monotonic() > until:
                raise BenchmarkFailed(f"{len(self._late)} events of {count} arrived")
            await asyncio.sleep(0.01)
        late, self._late[:] = self._late[:], []
        return late


async def post(connection: Connection, path: str, key: str, body: str) -> str:
    """Return the id in the answer. Raises BenchmarkFailed."""
    text = f"POST {path} HTTP/1.1\r\n{HEADERS % key}Content-Length: {len(body)}\r\n\r\n{body}"
    status, answer = await connection.send(text.encode())
    if status != ACCEPTED:
        raise BenchmarkFailed(f"POST {path} got {status}: {answer!r}")
    return str(json.loads(answer)["id"])


def measure(bench: Bench) -> Iterator[Figures]:
    crowd, gateway = bench.child("crowd"), bench.stack.gateways[0]
    bench.stack.postgres.query(EXTENSION)
    key = encryption_key(bench.stack.settings.stack_dir)
    crowd.call(Crowd.make_keys, database_url=bench.stack.postgres.url, encryption_key=key)
    for names in rotate([*HEARD, "job"]):
        figures: Figures = {}
        for name in names:
            gateway.stop()  # the next process has memory of its own
            gateway.start()
            found = measure_job(bench, crowd) if name == "job" else measure_cancels(bench, crowd, name)
            figures |= with_prefix(name, found)
        for part in ("idle", "load"):
            figures[f"{part}.ratio"] = figures[f"tenants.{part}.cpu.gateway"] / figures[f"jobs.{part}.cpu.gateway"]
        figures["shared.ratio"] = figures["tenant.load.cpu.gateway"] / figures["job.load.cpu.gateway"]
        yield figures


def measure_cancels(bench: Bench, crowd: ChildProcess, name: str) -> Figures:
    """Measure while nothing happens, and then while jobs are canceled."""
    port, rate = bench.ports[0], SHARED_RATE if name == "tenant" else RATE
    jobs = crowd.call(Crowd.submit, port=port, count=LISTENERS, of_all=name == "tenants")
    memory = find_memory(bench)
    if name == "jobs":
        crowd.call(Crowd.open, port=port, targets=[(f"/v1/jobs/{job}/events", key) for job, key in jobs])
    elif name != "off":
        crowd.call(Crowd.open_feeds, port=port, of_all=name == "tenants")
    crowd.call(Crowd.take_late)
    meter, before = bench.meter("crowd"), read_calls(bench)
    time.sleep(bench.seconds)
    idle = meter.read(bench.seconds) | compare_calls(before, read_calls(bench), bench.seconds)
    count = round(rate * bench.seconds)
    meter, before, began = bench.meter("crowd"), read_calls(bench), time.perf_counter()
    crowd.call(Crowd.cancel, port=port, jobs=jobs[:count], rate=rate)
    late = crowd.call(Crowd.take_late, count=HEARD[name] * count)
    seconds = time.perf_counter() - began
    load = meter.read(seconds) | compare_calls(before, read_calls(bench), seconds)
    return with_prefix("idle", idle) | with_load(load, late, seconds) | {"memory": find_memory(bench) - memory}


def measure_job(bench: Bench, crowd: ChildProcess) -> Figures:
    """Measure the streams of one job that has outputs all the time."""
    port = bench.ports[0]
    crowd.call(Crowd.submit, port=port, count=LISTENERS)  # so that all parts have the same past
    memory = find_memory(bench)
    job = crowd.call(Crowd.start_tokens, port=port, seconds=bench.seconds + ARRIVE_SECONDS)
    crowd.call(Crowd.open, port=port, targets=[(f"/v1/jobs/{job}/events", DEVELOPMENT_KEY)] * LISTENERS)
    crowd.call(Crowd.take_late)
    meter, before = bench.meter("crowd"), read_calls(bench)
    time.sleep(bench.seconds)
    load = meter.read(bench.seconds) | compare_calls(before, read_calls(bench), bench.seconds)
    late = crowd.call(Crowd.take_late)
    crowd.call(Crowd.cancel, port=port, jobs=[(job, DEVELOPMENT_KEY)], rate=RATE)
    return with_load(load, late, bench.seconds) | {"memory": find_memory(bench) - memory}


def with_load(figures: Figures, late: Sequence[float], seconds: float) -> Figures:
    return with_prefix("load", figures | percentiles("late", late) | {"events": len(late) / seconds})


def find_memory(bench: Bench) -> float:
    return read_memory(bench.stack.gateways[0].process.pid or 0)


def read_calls(bench: Bench) -> Mapping[str, tuple[float, float]]:
    """Return the calls and milliseconds of each statement so far."""
    rows = json.loads(bench.stack.postgres.query(QUERIES["list_statements"]))
    return group_statements(row[1:] for row in rows if row[0] == DATABASE)


def compare_calls(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]], seconds: float
) -> Figures:
    """Return the calls of all statements per second, and their milliseconds."""
    calls, took = (sum(after[name][i] - before.get(name, (0.0, 0.0))[i] for name in after) for i in (0, 1))
    return {"calls": calls / seconds, "statements": took / seconds}


SCENARIO = Scenario(measure, {"listeners": LISTENERS, "rate": RATE, "shared_rate": SHARED_RATE})
