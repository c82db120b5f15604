"""`python -m benchmarks.crowd <host> <port> <key>`: thousands of clients that wait for jobs, or listen to them."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from benchmarks.driver import Answering, serve

AT_ONCE = 50  # connections opened, and requests made, at a time
MODEL = "tokens"
WAIT = 60  # seconds, the most that may be asked for
WORDS = 5
DELAY = 40  # ms before each word
HOUR = 3600.0
END = b"event: job.canceled"


class Crowd:
    def __init__(self, host: str, port: int, key: str) -> None:
        self._host = host
        self._port = port
        self._key = key
        self._sockets: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._listening: dict[str, asyncio.Task[float]] = {}
        self._jobs: list[str] = []

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question["kind"]:
            case "submit":
                return await self._submit(question["count"])
            case "open":
                return await self._open(question["stream"])
            case "cancel":
                return await self._cancel(question["count"])
            case "first":
                return {"late": [late for _ in range(question["count"]) for late in await self._hear_tokens()]}
            case "close":
                return await self._close()
        raise ValueError(question)

    async def _submit(self, count: int) -> dict[str, Any]:
        """Jobs that run in an hour."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + HOUR))
        body = {"model": "echo", "inputs": {"x": [[1.0]]}, "run_at": at}
        answers = await gather(self._call("POST", "/v1/jobs", body) for _ in range(count))
        self._jobs = [answer["id"] for answer in answers]
        return {}

    async def _open(self, stream: bool) -> dict[str, Any]:
        """A connection for each job."""
        if stream:
            await gather(self._listen(job) for job in self._jobs)
        else:
            await gather(self._wait(job) for job in self._jobs)
        return {}

    async def _listen(self, job: str) -> None:
        reader = await self._request("GET", f"/v1/jobs/{job}/events", "Accept: text/event-stream\r\n")
        await reader.readuntil(b"event: job.queued")
        self._listening[job] = asyncio.create_task(_hear_end(reader))

    async def _wait(self, job: str) -> None:
        reader = await self._request("GET", f"/v1/jobs/{job}?wait={WAIT}")
        self._listening[job] = asyncio.create_task(_hear_answer(reader))

    async def _cancel(self, count: int) -> dict[str, Any]:
        """From the cancel's answer to what its listener hears, in ms."""
        late = []
        for _ in range(count):
            job = self._jobs.pop()
            heard = self._listening.pop(job)
            await self._call("POST", f"/v1/jobs/{job}/cancel", {})
            answered = time.perf_counter()
            async with asyncio.timeout(WAIT):
                late.append((await heard - answered) * 1000)
        return {"late": late}

    async def _hear_tokens(self) -> list[float]:
        """For each response, ms from when the model made it to when the client has it."""
        body = {"model": MODEL, "inputs": {"text": [" ".join(["$now"] * WORDS)], "delay_ms": [DELAY]}}
        job = await self._call("POST", "/v1/jobs", body)
        reader = await self._request("GET", f"/v1/jobs/{job['id']}/events", "Accept: text/event-stream\r\n")
        late = []
        while not (line := await reader.readline()).startswith(b"event: job.succeeded"):
            if line.startswith(b"data: ") and b'"job.output"' in line:
                outputs = msgspec.json.decode(line[6:])["data"]["outputs"]
                late.append((time.time() - float(outputs[0]["data"][0])) * 1000)
        await self._close()
        return late

    async def _close(self) -> dict[str, Any]:
        for task in self._listening.values():
            task.cancel()
        self._listening.clear()
        for _, writer in self._sockets:
            writer.close()
        self._sockets.clear()
        return {}

    async def _request(self, method: str, path: str, headers: str = "", body: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self._sockets.append((reader, writer))
        head = f"{method} {path} HTTP/1.1\r\nHost: charonia\r\nAuthorization: Bearer {self._key}\r\n{headers}"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return reader

    async def _call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """On a connection of its own, so that it waits behind nobody."""
        reader = await self._request(method, path, "Connection: close\r\n", msgspec.json.encode(body) if body else b"")
        _, writer = self._sockets.pop()
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        if b" 202 " not in head.split(b"\r\n")[0]:
            raise ValueError(head.decode() + content.decode())
        answer: dict[str, Any] = msgspec.json.decode(content)
        return answer


async def _hear_end(reader: asyncio.StreamReader) -> float:
    await reader.readuntil(END)
    return time.perf_counter()


async def _hear_answer(reader: asyncio.StreamReader) -> float:
    await reader.readuntil(b"\r\n\r\n")
    return time.perf_counter()


async def gather(calls: Any) -> list[Any]:
    """The results, a few at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def run(call: Any) -> Any:
        async with room:
            return await call

    return await asyncio.gather(*(run(call) for call in calls))


@asynccontextmanager
async def open_crowd() -> AsyncIterator[Answering]:
    crowd = Crowd(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    yield crowd.answer
    with suppress(OSError):
        await crowd.answer({"kind": "close"})


if __name__ == "__main__":
    serve(open_crowd)
