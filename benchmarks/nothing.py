"""`python -m benchmarks.nothing`: an endpoint as that for jobs, which reads a body and answers 202; no more.

It is what the gateway is made of, Litestar on uvicorn, so that what is left between the two is what a job costs.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import uvicorn
from litestar import Litestar, MediaType, Request, Response, Router, post

from benchmarks.driver import Answering, serve
from common.health import configuration
from deploy.local.ports import HOST


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    listener = socket.create_server((HOST, 0), backlog=1000)
    body = b""

    @post("/", status_code=HTTPStatus.ACCEPTED)
    async def submit_job(request: Request[Any, Any, Any]) -> Response[bytes]:
        await request.body()
        return Response(body, media_type=MediaType.JSON, headers={"Location": "/v1/jobs/job_0"})

    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        """Its port; from now on it answers with so many `bytes`, where they are given."""
        nonlocal body
        body = b" " * question.get("bytes", len(body))
        return {"port": listener.getsockname()[1]}

    app = Litestar([Router("/v1/jobs", route_handlers=[submit_job])], openapi_config=None, logging_config=None)
    server = uvicorn.Server(configuration(app, *listener.getsockname(), timeout_keep_alive=75))
    serving = asyncio.create_task(server.serve([listener]))
    yield answer
    server.should_exit = True
    await serving


if __name__ == "__main__":
    serve(open_load)
