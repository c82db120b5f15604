"""Streams of tokens, through Triton alone and through the gateway's server-sent events.

`jobs` and `failed` are numbers of streams, `counted` is tokens in the seconds that count, and `first` has percentiles
of the time to the first token in ms.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence

import aiohttp
import grpc
import msgspec
import numpy as np
from tritonclient.grpc import service_pb2 as pb

from benchmarks.gpu.repository import DECODER
from benchmarks.harness.load_generator import LEAD_SECONDS, LOST_SECONDS
from benchmarks.harness.report import Figures, percentiles
from benchmarks.harness.triton_client import SERIALIZERS, STREAM
from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY

HEADERS = {"Authorization": f"Bearer {DEVELOPMENT_KEY}", "Accept": "text/event-stream"}
LINE_BYTES = 2**20
OUTPUT = b"event: job.output"
DATA = b"data: "

Start = Callable[[], AsyncIterator[int]]  # a stream: yields the numbers of tokens that come at the same time


async def stream_from_triton(address: str, in_flight: int, seconds: float, prompt: int, tokens: int) -> Figures:
    """Keep `in_flight` streams under way, without Charonia."""
    request = pb.ModelInferRequest(model_name=DECODER)
    for name, values in (("prompt", list(range(prompt))), ("tokens", [tokens])):
        request.inputs.add(name=name, datatype="INT32", shape=[1, len(values)])
        request.raw_input_contents.append(np.array(values, dtype=np.int32).tobytes())
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_stream(STREAM, *SERIALIZERS)

        async def start() -> AsyncIterator[int]:
            async for message in call(request, timeout=LOST_SECONDS):
                yield 0 if message.error_message else 1

        return await measure_streams(start, in_flight, seconds, tokens)


async def stream_jobs(ports: Sequence[int], in_flight: int, seconds: float, prompt: int, tokens: int) -> Figures:
    """Keep `in_flight` jobs under way, each submitted to the next gateway, which streams its events."""
    gateways = itertools.cycle(f"http://{HOST}:{port}/v1/jobs" for port in ports)
    body = {"model": DECODER, "inputs": {"prompt": [list(range(prompt))], "tokens": [[tokens]]}}
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=LOST_SECONDS)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=HEADERS, read_bufsize=LINE_BYTES
    ) as http:

        async def start() -> AsyncIterator[int]:
            async with http.post(next(gateways), json=body, raise_for_status=True) as response:
                async for count in read_tokens(aiter(response.content)):
                    yield count

        return await measure_streams(start, in_flight, seconds, tokens)


async def read_tokens(lines: AsyncIterator[bytes]) -> AsyncIterator[int]:
    """Yield how many tokens each event brings; those of a job that does not succeed do not count in full."""
    kind = b""
    async for line in lines:
        if line.startswith(b"event: "):
            kind = line.rstrip()
        elif kind == OUTPUT and line.startswith(DATA):
            yield len(msgspec.json.decode(line.removeprefix(DATA))["data"]["outputs"])


async def measure_streams(
    start: Start, in_flight: int, seconds: float, tokens: int, clock: Callable[[], float] = time.perf_counter
) -> Figures:
    """Keep streams under way; each must bring so many tokens. Streams that begin early have no time to first token."""
    figures: Figures = {"jobs": 0, "counted": 0, "failed": 0}
    firsts: list[float] = []
    begin = clock() + LEAD_SECONDS
    end = begin + seconds

    async def follow() -> None:
        """Follow one stream after the other."""
        while (sent := clock()) < end:
            received = 0
            try:
                async for count in start():
                    now = clock()
                    if not received and sent >= begin:
                        firsts.append((now - sent) * 1000)
                    received += count
                    figures["counted"] += count if begin <= now < end else 0
            except (OSError, TimeoutError, aiohttp.ClientError, grpc.RpcError):
                received = 0
            figures["jobs"] += 1
            figures["failed"] += received != tokens

    await asyncio.gather(*(follow() for _ in range(in_flight)))
    return figures | percentiles("first", firsts)
