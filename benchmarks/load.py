"""`python -m benchmarks.load <url> <key>`: submits jobs to Charonia and receives their webhooks."""

import asyncio
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from benchmarks.bodies import BODIES
from benchmarks.driver import Answering, serve
from benchmarks.wire import ACCEPTED, Connection, Reception, listen, post

LEAD = 0.5  # seconds of load before counting begins
PATIENCE = 30.0  # seconds until a `202` or a webhook counts as lost


class Metadata(msgspec.Struct):
    number: int


class Metrics(msgspec.Struct):
    inference_ms: float | None


class Data(msgspec.Struct):
    metadata: Metadata
    metrics: Metrics


class Event(msgspec.Struct):
    """What is needed of a webhook's body."""

    type: str
    data: Data


class Course(msgspec.Struct):
    """One job: times in seconds of time.perf_counter(), `inference` in milliseconds; None where it did not happen."""

    sent: float
    accepted: float | None = None
    arrived: float | None = None
    inference: float = 0.0


class Load:
    def __init__(self, api: str, key: str) -> None:
        self._api = api
        self._key = key
        self._numbers = itertools.count()
        self._awaited: dict[int, asyncio.Future[tuple[float, Event]]] = {}
        self._idle: defaultdict[int, list[Connection]] = defaultdict(list)  # connections by port
        self._decoder = msgspec.json.Decoder(Event)
        self._doubled = 0
        self._hook = ""

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        """Receive webhooks inside."""
        server, self._hook = await listen(self._receive)
        yield
        server.close()

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        self._doubled = 0
        self._body = BODIES[question.get("model", "echo")]
        self._ports = itertools.cycle([int(api.rpartition(":")[2]) for api in question.get("apis", [self._api])])
        if question["kind"] == "closed":
            found = await self._run_closed(question["in_flight"], question["seconds"])
        else:
            found = await self._run_open(question["rate"], question["seconds"])
        for connection in itertools.chain.from_iterable(self._idle.values()):
            connection.transport.close()
        self._idle.clear()
        return found | {"doubled": self._doubled}

    def _receive(self, _reception: Reception, _path: bytes, body: bytes) -> bool:
        event = self._decoder.decode(body)
        future = self._awaited.pop(event.data.metadata.number, None)
        if future is None:
            self._doubled += 1
        elif not future.done():
            future.set_result((time.perf_counter(), event))
        return True

    async def _submit(self, number: int) -> int:
        """Return the status."""
        port = next(self._ports)
        connection = self._idle[port].pop() if self._idle[port] else await Connection.open(port)
        status, _ = await connection.ask(post("/v1/jobs", self._key, self._body % (self._hook, number)))
        self._idle[port].append(connection)
        return status

    async def _run_job(self, sent: float) -> Course:
        course, number = Course(sent), next(self._numbers)
        future = self._awaited[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PATIENCE) as patience:
                if await self._submit(number) != ACCEPTED:
                    return course
                course.accepted = time.perf_counter()
                patience.reschedule(asyncio.get_running_loop().time() + PATIENCE)
                at, event = await future
        except (OSError, TimeoutError):
            return course
        finally:
            self._awaited.pop(number, None)
        if event.type == "job.succeeded":
            course.arrived, course.inference = at, event.data.metrics.inference_ms or 0.0
        return course

    async def _run_closed(self, in_flight: int, seconds: float) -> dict[str, Any]:
        begin = time.perf_counter() + LEAD
        end = begin + seconds
        courses: list[Course] = []

        async def work() -> None:
            while (now := time.perf_counter()) < end:
                courses.append(await self._run_job(now))

        await asyncio.gather(*(work() for _ in range(in_flight)))
        counted = sum(1 for course in courses if course.arrived is not None and begin <= course.arrived < end)
        return {"counted": counted} | tell([course for course in courses if begin <= course.sent], len(courses))

    async def _run_open(self, rate: float, seconds: float) -> dict[str, Any]:
        """Jobs come when they come, whatever became of those before; latency counts from when a job was due."""
        begin, late, jobs = time.perf_counter() + LEAD, [], []
        for index in range(round(rate * seconds)):
            due = begin + index / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late.append((time.perf_counter() - due) * 1000)
            jobs.append(asyncio.create_task(self._run_job(due)))
        return {"late": late} | tell(await asyncio.gather(*jobs), len(jobs))


def tell(courses: list[Course], jobs: int) -> dict[str, Any]:
    """Latencies in milliseconds, and how many did not come to their end."""
    ended = [(course, course.arrived) for course in courses if course.arrived is not None]
    return {
        "jobs": jobs,
        "failed": len(courses) - len(ended),
        "accepted": [(course.accepted - course.sent) * 1000 for course in courses if course.accepted is not None],
        "webhook": [(arrived - course.sent) * 1000 for course, arrived in ended],
        "around": [(arrived - course.sent) * 1000 - course.inference for course, arrived in ended],
    }


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    load = Load(sys.argv[1], sys.argv[2])
    async with load.listen():
        yield load.answer


if __name__ == "__main__":
    serve(open_load)
