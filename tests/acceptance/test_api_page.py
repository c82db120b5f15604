"""docs/api.md is what the gateway does: each of its curl lines is sent, and answers what the page shows."""

import asyncio
import contextlib
import re
import subprocess
import sys
from pathlib import Path

import httpx

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.acceptance.api_page import PAGE, Call, Run, read_calls, settle, show
from tests.acceptance.documented import find_headers, list_headers
from tests.acceptance.receiver import Receiver
from tests.acceptance.waiting import eventually

TENANT = "docs"
FOR_MACHINES = "/metrics"  # told by Prometheus, not shown
STILL = 3.0  # seconds in which what follows from the call before has come to rest


async def test_every_call_on_the_page_answers_what_it_shows(stack: Stack, receiver: Receiver, tmp_path: Path) -> None:
    page = PAGE.read_text()
    run = Run(stack.url, await make_key(stack), receiver.inbox().url)
    renewed, end = "", 0
    async with httpx.AsyncClient(timeout=30) as http:
        document = (await http.get(f"{stack.url}/openapi.json")).json()
        for call in read_calls(page):
            came = await ask(http, run, call)
            assert list_headers(came) <= find_headers(document, came), f"{call.method} {call.path}"
            run.learn(call.answer, show(came, run))
            renewed += page[end : call.span[0]] + rewrite(page[slice(*call.span)], came, run)
            end = call.span[1]
    renewed += page[end:]
    (tmp_path / PAGE.name).write_text(renewed)
    assert settle(renewed) == settle(page), f"how it is now: {tmp_path / PAGE.name}"


async def ask(http: httpx.AsyncClient, run: Run, call: Call) -> httpx.Response:
    """The answer; for a call that only looks, once it is what the page shows, or does not become so."""
    last: list[httpx.Response] = []

    async def look() -> bool:
        last[:] = [await run.send(http, call)]
        return last[0].status_code == call.status and settle(show(last[0], run)) == settle(call.answer)

    if call.method == "GET":
        with contextlib.suppress(AssertionError):
            await eventually(look, "the answer is as shown", STILL)
        return last[0]
    return await run.send(http, call)


def rewrite(block: str, came: httpx.Response, run: Run) -> str:
    head, fence, _ = block.rpartition("```json " if "```json " in block else "```text ")
    return f"{run.rename(head)}{fence}{came.status_code}\n{show(came, run)}```\n"


async def make_key(stack: Stack) -> str:
    argv = [sys.executable, "-m", "services.gateway.keys", "create", TENANT]
    made = await asyncio.to_thread(
        subprocess.run, argv, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=True, timeout=30
    )
    return made.stdout.strip()


async def test_the_page_has_every_call(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    calls = {(call.method, call.path.partition("?")[0]) for call in read_calls(PAGE.read_text())}
    missing = [
        f"{method.upper()} {path}"
        for path, operations in paths.items()
        for method in operations
        if path != FOR_MACHINES
        and not any(
            called == method.upper() and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), where)
            for called, where in calls
        )
    ]
    assert missing == []
