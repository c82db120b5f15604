"""What a chat completion costs beside a job with a wait, and how soon the chunks of a streaming model arrive.

CPU in ms per call, of all services together. Latencies in ms: of answers from the request, of first chunks from the
moment in which the model sends its first response.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario, rotate
from benchmarks.harness.load_generator import HEADERS
from benchmarks.harness.private_stack import link_models
from benchmarks.harness.raw_http import Connection
from benchmarks.harness.report import Figures, percentiles, pick, with_prefix
from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT

IN_FLIGHT = 16
WHOLE, STREAMING = "whole_answer", "streamed_answer"
PROGRAM = Path(__file__).parents[1] / "models" / "stamps" / "1"
MESSAGES = [{"role": "user", "content": "What time is it?"}]
INPUT = json.dumps({"messages": MESSAGES, "stream": False})
PATHS = {"job": "/v1/jobs", "chat": "/openai/v1/chat/completions"}
BODIES: dict[str, dict[str, Any]] = {
    "job": {"model": WHOLE, "inputs": {"request": [INPUT]}},
    "chat": {"model": WHOLE, "messages": MESSAGES},
}
DATA = b"data: "


def write_models(models: Path, options: argparse.Namespace) -> None:
    """Link the demo's models, and write two that say the time: at once, and in pieces."""
    link_models(models, ROOT / "deploy" / "models")
    for name, streams in ((WHOLE, False), (STREAMING, True)):
        (models / name).mkdir()
        (models / name / "1").symlink_to(PROGRAM)
        policy = "model_transaction_policy { decoupled: True }\n" if streams else ""
        (models / name / "config.pbtxt").write_text(
            f'name: "{name}" backend: "python" max_batch_size: 0\n{policy}'
            'input [ { name: "request" data_type: TYPE_STRING dims: [ 1 ] } ]\n'
            'output [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]\n'
            'parameters { key: "charonia.openai" value { string_value: "messages" } }\n'
        )


def build(kind: str) -> bytes:
    """Return the bytes of a request that waits for its answer."""
    body = json.dumps(BODIES[kind]).encode()
    head = f"POST {PATHS[kind]} HTTP/1.1\r\n{HEADERS % DEVELOPMENT_KEY}Prefer: wait=30\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def call_closed(ports: list[int], kind: str, in_flight: int, seconds: float) -> Figures:
    """Keep calls under way, each of which waits for its answer."""
    request, times, failed = build(kind), list[float](), 0
    connections = await asyncio.gather(*(Connection.open(ports[0]) for _ in range(in_flight)))
    end = time.perf_counter() + seconds

    async def repeat(connection: Connection) -> None:
        nonlocal failed
        while (began := time.perf_counter()) < end:
            status, _ = await connection.send(request)
            failed += status != HTTPStatus.OK
            times.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*map(repeat, connections))
    for connection in connections:
        connection.transport.close()
    return {"jobs": len(times), "counted": len(times), "failed": failed} | percentiles("answer", times)


async def stream(ports: list[int], seconds: float) -> Figures:
    """Stream one answer after the other. Return how late the first chunks are."""
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    body = {"model": STREAMING, "messages": MESSAGES, "stream": True}
    late, end = list[float](), time.perf_counter() + seconds
    async with aiohttp.ClientSession(f"http://{HOST}:{ports[0]}", headers=headers) as http:
        while time.perf_counter() < end:
            async with http.post(PATHS["chat"], json=body, raise_for_status=True) as response:
                late.append(await read_lateness(response))
    return {"jobs": len(late), "failed": 0} | percentiles("first", late)


async def read_lateness(response: aiohttp.ClientResponse) -> float:
    """Return by how many ms the first chunk is late, and read the others."""
    late: float | None = None
    async for line in response.content:
        if line.startswith(DATA) and late is None:
            content = json.loads(line.removeprefix(DATA))["choices"][0]["delta"]["content"]
            late = (time.time() - float(content)) * 1000
    if late is None:
        raise BenchmarkFailed("a stream ended without a chunk")
    return late


def measure(bench: Bench) -> Iterator[Figures]:
    for kind in PATHS:
        bench.run(call_closed, ["load"], 1, ports=bench.ports, kind=kind, in_flight=IN_FLIGHT)
    for order in rotate(tuple(PATHS)):
        figures: Figures = {}
        for kind in order:
            found = bench.run(call_closed, ["load"], bench.seconds, ports=bench.ports, kind=kind, in_flight=IN_FLIGHT)
            figures |= with_prefix(kind, pick(found, "answer", "rate", "own", "cpu"))
        figures["chat.more"] = figures["chat.own"] - figures["job.own"]
        found = bench.run(stream, ["load"], bench.seconds, ports=bench.ports)
        yield figures | with_prefix("stream", pick(found, "first", "own", "cpu"))


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT}, write_models=write_models, check_jobs=True)
