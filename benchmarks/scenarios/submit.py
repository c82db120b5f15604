"""Jobs accepted per second while no dispatcher runs, beside an endpoint that does nothing; CPU in ms per accepted job.

Then the jobs run, and each must send its webhook once.
"""

import asyncio
import socket
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import uvicorn
from litestar import Litestar, MediaType, Request, Response, Router, post

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.report import Figures, with_prefix
from common.http.health import server_config
from deploy.local.processes.ports import HOST

CONNECTIONS = 32
DRAIN_SECONDS = 300.0

_tasks: list[asyncio.Task[None]] = []


async def serve(size: int) -> int:
    """Serve an endpoint that reads a body and answers with `size` bytes, as the gateway does; return the port."""
    listener, body = socket.create_server((HOST, 0), backlog=1000), b" " * size

    @post("/", status_code=HTTPStatus.ACCEPTED)
    async def submit_job(request: Request[Any, Any, Any]) -> Response[bytes]:
        await request.body()
        return Response(body, media_type=MediaType.JSON, headers={"Location": "/v1/jobs/job_0"})

    app = Litestar([Router("/v1/jobs", route_handlers=[submit_job])], openapi_config=None, logging_config=None)
    server = uvicorn.Server(server_config(app, *listener.getsockname(), timeout_keep_alive=75))
    _tasks.append(asyncio.create_task(server.serve([listener])))
    return int(listener.getsockname()[1])


def measure(bench: Bench) -> Iterator[Figures]:
    found = bench.submit(connections=CONNECTIONS, seconds=1.0)
    bench.await_webhooks(int(found["jobs"]), DRAIN_SECONDS)
    baseline_port = bench.child("nothing").call(serve, size=int(found["bytes"]))
    bench.submit(baseline_port, connections=CONNECTIONS, seconds=1.0)
    (dispatcher,) = bench.stack.dispatchers
    while True:
        baseline = bench.submit(baseline_port, connections=CONNECTIONS, seconds=bench.seconds)
        dispatcher.freeze()
        try:
            meter = bench.meter("submissions", "receiver")
            found = bench.submit(connections=CONNECTIONS, seconds=bench.seconds)
            cpu = meter.read(found["jobs"])
        finally:
            begin = time.perf_counter()
            dispatcher.thaw()
        bench.await_webhooks(int(found["jobs"]), DRAIN_SECONDS)
        yield {
            "submit.nothing.rate": baseline["counted"] / bench.seconds,
            "submit.rate": found["counted"] / bench.seconds,
            "submit.ratio": found["counted"] / baseline["counted"],
            "submit.drain": found["jobs"] / (time.perf_counter() - begin),
            **with_prefix("submit", cpu),
        }


SCENARIO = Scenario(measure, {"connections": CONNECTIONS}, check_jobs=True)
