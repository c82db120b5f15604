"""Submits jobs of many models when they arrive, and notes how long each waits for its start."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import count

import msgspec

from benchmarks.harness.load_generator import HEADERS
from benchmarks.harness.raw_http import ACCEPTED, Connection
from benchmarks.harness.receiver import Receiver
from benchmarks.harness.report import Figures, percentiles
from benchmarks.residency.patterns import Arrival
from deploy.local.services import DEVELOPMENT_KEY

CANCEL = "POST /v1/jobs/%s/cancel HTTP/1.1\r\n%sContent-Length: 0\r\n\r\n"

_numbers = count()


class Load:
    """A queue of jobs in front of one gateway. Times are seconds since the first job could arrive."""

    def __init__(self, port: int, in_flight: int | None) -> None:
        """`in_flight`: so many jobs are submitted at a time, in the order of their arrival. None: each at once."""
        self.waits: list[float] = []
        self.tooks: list[float] = []
        self.failed = 0
        self.last_end = 0.0
        self._port = port
        self._places = None if in_flight is None else asyncio.Semaphore(in_flight)
        self._receiver = Receiver()
        self._url = ""
        self._idle = deque[Connection]()
        self._live: dict[int, str] = {}
        self._waiting: dict[int, float] = {}
        self._began = 0.0

    @property
    def now(self) -> float:
        return time.perf_counter() - self._began

    async def run(self, arrivals: Sequence[Arrival], seconds: float) -> None:
        """Return when all jobs have ended, or after `seconds`: then cancel the rest, which waited until now."""
        self._url = await self._receiver.listen()
        self._began = time.perf_counter()
        tasks = []
        try:
            async with asyncio.timeout(seconds):
                for arrival in arrivals:
                    await asyncio.sleep(max(0.0, arrival.at - self.now))
                    tasks.append(asyncio.create_task(self._run_job(arrival)))
                await asyncio.gather(*tasks)
        except TimeoutError:
            self.last_end = self.now
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.waits += [self.now - at for at in self._waiting.values()]
            for job in self._live.values():
                await self._send(CANCEL % (job, HEADERS % DEVELOPMENT_KEY))
        finally:
            self._receiver.server.close()
            for connection in self._idle:
                connection.transport.close()

    async def _run_job(self, arrival: Arrival) -> None:
        number = next(_numbers)
        self._waiting[number] = arrival.at
        if self._places is None:
            await self._submit(number, arrival)
        else:
            async with self._places:
                await self._submit(number, arrival)

    async def _submit(self, number: int, arrival: Arrival) -> None:
        sent = self.now
        webhook = self._receiver.expected[number] = asyncio.get_running_loop().create_future()
        status, answer = await self._send(self._build(number, arrival.model))
        if status != ACCEPTED:
            self.failed += 1
            return
        self._live[number] = msgspec.json.decode(answer)["id"]
        at, body = await webhook
        del self._live[number], self._waiting[number]
        event = msgspec.json.decode(body)
        self.failed += event["type"] != "job.succeeded"
        ended = at - self._began
        self.waits.append(sent - arrival.at + (event["data"]["metrics"]["queue_ms"] or 0.0) / 1000)
        self.tooks.append(ended - arrival.at)
        self.last_end = max(self.last_end, ended)

    def _build(self, number: int, model: str) -> str:
        fields = f'"model":"{model}","inputs":{{"x":[[1]]}},"webhook":{{"url":"{self._url}"}}'
        body = f'{{{fields},"metadata":{{"number":{number}}}}}'
        return f"POST /v1/jobs HTTP/1.1\r\n{HEADERS % DEVELOPMENT_KEY}Content-Length: {len(body)}\r\n\r\n{body}"

    async def _send(self, request: str) -> tuple[int, bytes]:
        connection = self._idle.popleft() if self._idle else await Connection.open(self._port)
        if connection.transport.is_closing():
            connection = await Connection.open(self._port)
        answer = await connection.send(request.encode())
        self._idle.append(connection)
        return answer


async def run_arrivals(port: int, arrivals: Sequence[Arrival], seconds: float, in_flight: int | None = None) -> Figures:
    """Return jobs/s until the last one ended or the time was over, and percentiles in ms.

    `wait` is from arrival to start. A job that has not started counts with what it waited until the time was over.
    """
    load = Load(port, in_flight)
    await load.run(arrivals, seconds)
    ended = len(load.tooks)
    found = {"jobs": ended, "failed": load.failed, "left": len(arrivals) - ended, "seconds": load.last_end}
    waits, tooks = ([1000 * each for each in values] for values in (load.waits, load.tooks))
    return {**found, "rate": ended / load.last_end, **percentiles("wait", waits), **percentiles("webhook", tooks)}
