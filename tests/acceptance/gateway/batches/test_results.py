"""The results of a batch are lines in the order submitted. They take little memory, and continue at any line."""

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api_client import Api, Job, read
from tests.support.api_shapes import Batch, BatchAccepted, FieldError, Strict
from tests.support.batches import LINES, send_batch, submit_batch, wait_for_batch, write_lines
from tests.support.key_command import make_key, run_keys
from tests.support.large_outputs import enlarge_outputs, measure_peak
from tests.support.model_inputs import fault, tokens, work
from tests.support.own_gateway import another_gateway
from tests.support.waiting import eventually
from tests.support.webhook_receiver import Receiver

MEGABYTE = 1024 * 1024
COUNT = 1000
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
GUIDE = (ROOT / "docs/how-to/batches.md").read_text()
ONCE = {"max_attempts": 1}


class Problem(Strict, frozen=True):
    type: str
    detail: str
    errors: list[FieldError]


class Result(Strict, frozen=True):
    index: int
    custom_id: str | None
    job: Job | None
    error: Problem | None


def echo(value: int, **options: object) -> dict[str, object]:
    return {"model": "echo", "inputs": {"x": [[value]]}, **options}


def parse_lines(content: bytes) -> list[Result]:
    assert content.endswith(b"\n") or not content
    return [msgspec.json.decode(line, type=Result) for line in content.splitlines()]


async def read_results(api: Api, batch_id: str, **query: str | int) -> list[Result]:
    """Return the results. Of the name of a parameter, an underscore at the end is left out."""
    query = {name.rstrip("_"): value for name, value in query.items()}
    response = await api.http.get(f"/v1/batches/{batch_id}/results", params=query, timeout=60)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].split(";")[0] == LINES["content-type"]
    return parse_lines(response.content)


async def wait(api: Api, batch_id: str, seconds: float = 60) -> Batch:
    return read(await api.http.get(f"/v1/batches/{batch_id}", params={"wait": seconds}, timeout=90), 200, Batch)


async def test_results_have_a_line_for_each_item_in_the_order_submitted(api: Api, other_tenant: Api) -> None:
    items: list[Any] = [echo(0, custom_id="first"), 1, echo(2) | {"inptus": {}, "custom_id": "typo"}, b"", echo(4)]
    items[3] = {"model": "faulty", "inputs": fault("invalid"), "custom_id": "fails", "metadata": {"of": "me"}}
    batch = await submit_batch(api, items)
    assert [(error.index, error.custom_id) for error in batch.errors] == [(1, None), (2, "typo")]
    assert (await wait(api, batch.id)).status == "completed"
    results = await read_results(api, batch.id)
    assert [(each.index, each.custom_id) for each in results] == [
        (0, "first"),
        (1, None),
        (2, "typo"),
        (3, "fails"),
        (4, None),
    ]
    for error in batch.errors:
        assert results[error.index].error == Problem(error.type, error.detail, error.errors)
        assert results[error.index].job is None
    for result in (results[0], results[3], results[4]):
        assert result.error is None
        assert result.job is not None
        assert result.job == await api.get(result.job.id)
    assert [each.job and each.job.status for each in results] == ["succeeded", None, None, "failed", "succeeded"]
    for start in range(7):
        assert await read_results(api, batch.id, from_=start) == results[start:]
    assert (await other_tenant.http.get(f"/v1/batches/{batch.id}/results")).status_code == 404
    assert batch.urls.results.endswith(f"/v1/batches/{batch.id}/results")


async def test_results_wait_for_the_last_job_unless_they_may_be_partial(api: Api) -> None:
    submitted = await submit_batch(api, [echo(0), {"model": "work", "inputs": work(1), "run_at": in_an_hour()}])
    early = await wait(api, submitted.id, 1)
    assert (early.status, early.counts["queued"]) == ("processing", 1)
    response = await api.http.get(f"/v1/batches/{submitted.id}/results")
    assert (response.status_code, response.json()["type"]) == (409, "urn:charonia:problem:conflict")
    partial = await read_results(api, submitted.id, partial="true")
    assert [each.job and each.job.status for each in partial] == ["succeeded", "queued"]
    assert partial[1].job is not None
    read(await api.http.post(f"/v1/jobs/{partial[1].job.id}/cancel"), 202, Job)
    assert (await wait(api, submitted.id)).status == "completed"
    assert [each.job and each.job.status for each in await read_results(api, submitted.id)] == ["succeeded", "canceled"]


def in_an_hour() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))


async def test_a_wait_ends_soon_after_the_last_job(api: Api) -> None:
    batch = await submit_batch(api, [{"model": "tokens", "inputs": tokens(["a", "b"], 500)}])
    began = time.monotonic()
    ended = await wait(api, batch.id)
    assert ended.status == "completed"
    assert time.monotonic() - began < 10
    assert (await wait(api, batch.id)) == ended
    assert (await api.http.get(f"/v1/batches/{batch.id}", params={"wait": 61})).status_code == 422


async def test_a_wait_includes_jobs_that_were_replayed(api: Api) -> None:
    flaky = {"model": "faulty", "inputs": fault("fail_times", 1) | {"key": [str(uuid4())]}, "retry": ONCE}
    batch = await submit_batch(api, [flaky, echo(1)])
    assert (await wait(api, batch.id)).counts["failed"] == 1
    (failed, _) = await read_results(api, batch.id)
    assert failed.job is not None
    await api.http.post("/v1/dead-letters/replay", json={"ids": [failed.job.id]})
    assert (await wait(api, batch.id)).counts["succeeded"] == 2
    assert [each.job and each.job.status for each in await read_results(api, batch.id)] == ["succeeded", "succeeded"]


async def test_defaults_hold_for_every_job_without_the_field(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    defaults = {"model": "echo", "priority": "low", "webhook": {"url": inbox.url}, "metadata": {"of": "all"}}
    jobs = [
        {"inputs": {"x": [[1]]}, "custom_id": "plain"},
        {"inputs": {"x": [[2]]}, "priority": "high", "webhook": None, "metadata": {"own": 1}},
        {"model": "tokens", "inputs": tokens(["a"])},
        {"inptus": {}},
    ]
    responses = [
        await send_batch(api, write_lines([{"defaults": defaults}, *jobs])),
        await api.http.post("/v1/batches", json=[{"defaults": defaults}, *jobs]),
    ]
    for response in responses:
        batch = read(response, 202, BatchAccepted)
        assert (batch.total, batch.accepted, [error.index for error in batch.errors]) == (4, 3, [3])
        await wait(api, batch.id)
        plain, own, other, _ = [each.job for each in await read_results(api, batch.id)]
        assert plain is not None
        assert own is not None
        assert other is not None
        assert (plain.model, plain.priority, plain.metadata) == ("echo", "low", {"of": "all"})
        assert (own.model, own.priority, own.metadata) == ("echo", "high", {"own": 1})
        assert (other.model, other.priority) == ("tokens", "low")
        for job, expected in ((plain, "succeeded"), (own, "none"), (other, "succeeded")):
            assert (await api.wait_for_webhooks(job.id)).webhook_status == expected


@pytest.mark.parametrize(
    ("defaults", "pointer"),
    [
        ({"priority": "urgent"}, "/defaults/priority"),
        ({"inputs": {}}, "/defaults/inputs"),
        ({"custom_id": "a"}, "/defaults/custom_id"),
        (1, "/defaults"),
        ({"metadata": {"a": "x" * 70_000}}, "/defaults"),
    ],
)
async def test_wrong_defaults_refuse_the_batch(api: Api, defaults: object, pointer: str) -> None:
    response = await send_batch(api, write_lines([{"defaults": defaults}, echo(1)]))
    assert (response.status_code, [error["pointer"] for error in response.json()["errors"]]) == (422, [pointer])


async def test_names_are_unique_in_a_batch_and_defaults_come_first(api: Api) -> None:
    items: list[object] = [echo(0, custom_id="a"), echo(1, custom_id="a"), {"defaults": {}}, echo(3, custom_id="")]
    items += [{"custom_id": "b"}, echo(5, custom_id="b"), echo(6, custom_id="c"), echo(7)]
    batch = await submit_batch(api, items)
    assert [(error.index, error.custom_id, error.errors[0].pointer) for error in batch.errors] == [
        (1, "a", "/custom_id"),
        (2, None, "/defaults"),
        (3, None, "/custom_id"),
        (4, "b", "/model"),
        (5, "b", "/custom_id"),
    ]
    assert (await api.http.post("/v1/jobs", json=echo(1, custom_id="a"))).status_code == 422


def find_blocks(beginning: str, end: str) -> str:
    """Return the commands of one part of the guide as a script."""
    part = GUIDE[GUIDE.index(beginning) : GUIDE.index(end)]
    return "\n".join(["set -eu", *BLOCK.findall(part)])


async def run_script(stack: Stack, script: str, directory: Path) -> str:
    """Run commands of the guide against the stack. Return their output."""
    process = await start_script(stack, script, directory)
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, errors
    return output.decode()


async def start_script(stack: Stack, script: str, directory: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *("bash", "-c", script.replace("localhost:8080", stack.url.removeprefix("http://"))),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_three_calls_take_a_thousand_jobs_from_a_file_to_a_file(stack: Stack, tmp_path: Path) -> None:
    """These are the commands of the guide."""
    script = find_blocks("## From a file to a file", "## Submit a batch")
    assert script.count("curl ") == 3
    accepted, shown = (await run_script(stack, script, tmp_path)).splitlines()
    assert accepted == f"{COUNT} of {COUNT} accepted"
    assert msgspec.json.decode(shown, type=Batch).counts["succeeded"] == COUNT
    results = parse_lines((tmp_path / "results.jsonl").read_bytes())
    assert [each.custom_id for each in results] == [f"row-{number}" for number in range(COUNT)]
    assert [each.index for each in results] == list(range(COUNT))
    assert [each.job and each.job.output("y") for each in results] == [[2.0 * number] for number in range(COUNT)]

    whole = (tmp_path / "results.jsonl").read_bytes()
    batch_id = msgspec.json.decode(shown, type=Batch).id
    (tmp_path / "results.jsonl").write_bytes(whole[: len(whole) // 3])  # in the middle of a line
    resume = find_blocks("## Read the results", "## Follow a batch")
    await run_script(stack, f"export BATCH={batch_id}\n{resume}", tmp_path)
    assert (tmp_path / "kept.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ("nobody", ["model 'nobody' not found"]),
        ("echo", ["1 of 2 accepted", "1 /inputs/y: the model has no input 'y'"]),
    ],
)
async def test_the_guides_commands_show_what_is_refused(
    stack: Stack, tmp_path: Path, model: str, texts: list[str]
) -> None:
    """A reader of the guide runs them in a terminal, where no command stops the next one."""
    script = find_blocks("## From a file to a file", "## Submit a batch").removeprefix("set -eu\n")
    _, commands = script.split("> jobs.jsonl\n")
    write_file(tmp_path / "jobs.jsonl", [{"model": model, "inputs": {each: [[1]]}} for each in ("x", "y")])
    (tmp_path / "results.jsonl").write_text("of the last batch\n")
    process = await start_script(stack, commands, tmp_path)
    output, errors = (each.decode() for each in await asyncio.wait_for(process.communicate(), 120))
    assert [text for text in texts if text not in output] == [], output + errors
    results = (tmp_path / "results.jsonl").read_text()
    assert (results == "of the last batch\n") == (model == "nobody")


def write_file(path: Path, lines: list[Any]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


async def make_large_batch(stack: Stack, api: Api, count: int, size: int) -> str:
    """Return the id of a completed batch of jobs with outputs of this many bytes."""
    batch = await submit_batch(api, [echo(number) for number in range(count)])
    await wait_for_batch(api, batch.id)
    for each in await read_results(api, batch.id):
        assert each.job is not None
        await enlarge_outputs(stack, each.job.trace_id, size)
    return batch.id


async def test_readers_of_large_results_take_a_bounded_amount_of_memory(stack: Stack, api: Api) -> None:
    size, count, readers = 12 * MEGABYTE, 6, 8
    batch_id = await make_large_batch(stack, api, count, size)
    async with another_gateway(stack) as gateway, open_client(stack, DEVELOPMENT_KEY, gateway.url) as client:
        await client.run("echo", {"x": [[1.0]]})
        before = measure_peak(gateway)

        async def read_all() -> bool:
            received = 0
            async with client.http.stream("GET", f"/v1/batches/{batch_id}/results", timeout=120) as response:
                try:
                    async for chunk in response.aiter_raw():
                        received += len(chunk)
                except httpx.RemoteProtocolError:  # no room in time
                    return False
            return received > count * size

        complete = await asyncio.gather(*(read_all() for _ in range(readers)))
        grown = measure_peak(gateway) - before
    assert any(complete)
    assert grown < 300 * MEGABYTE, f"grew by {grown // MEGABYTE} MB"  # all of them together have 576 MB


async def test_slow_readers_of_results_leave_room_for_all(stack: Stack, api: Api) -> None:
    """Another tenant has room at once. Its own tenant gets that of a slow reader, which is cut."""
    size = 12 * MEGABYTE
    batch_id = await make_large_batch(stack, api, 2, size)
    async with (
        another_gateway(stack, CHARONIA_MAX_RESPONSES=f"{4 * size}") as gateway,
        open_client(stack, await make_key(stack, "reader"), gateway.url) as other,
        open_client(stack, DEVELOPMENT_KEY, gateway.url) as own,
    ):
        theirs = await make_large_batch(stack, other, 2, size)
        path = f"/v1/batches/{batch_id}/results"
        async with own.http.stream("GET", path, timeout=30), own.http.stream("GET", path, timeout=30):
            answers = await asyncio.gather(
                own.http.get(path, timeout=30), other.http.get(f"/v1/batches/{theirs}/results", timeout=30)
            )
        for answer in answers:
            assert answer.status_code == 200
            assert [len(line) > size for line in answer.content.splitlines()] == [True, True]


def open_slow_client(stack: Stack, key: str) -> httpx.AsyncClient:
    """Return a client whose system takes little of a response before the client reads it."""
    transport = httpx.AsyncHTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)])
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=stack.url, headers=headers, transport=transport)


async def collect(chunks: AsyncIterator[bytes], received: bytearray) -> None:
    async for chunk in chunks:
        received += chunk


async def test_results_that_break_off_are_incomplete_and_continue_at_the_next_line(stack: Stack, api: Api) -> None:
    """Here a revoked key breaks them off. A lack of room would, too."""
    name = f"results-{uuid4().hex[:8]}"
    key = await make_key(stack, name)
    async with open_client(stack, key) as client:
        batch_id = await make_large_batch(stack, client, 6, 4 * MEGABYTE)
        path = f"/v1/batches/{batch_id}/results"
        whole = (await client.http.get(path, timeout=60)).content
        async with open_slow_client(stack, key) as slow, slow.stream("GET", path, timeout=60) as response:
            chunks = response.aiter_raw()
            received = bytearray(await anext(chunks))
            (key_id,) = re.findall(r"key_\w+", (await run_keys(stack, "list", name)).stdout)
            assert (await run_keys(stack, "revoke", key_id)).returncode == 0

            async def is_refused() -> bool:
                return (await client.http.get("/v1/models")).status_code == 401

            await eventually(is_refused, "the key is revoked")
            with pytest.raises(httpx.RemoteProtocolError):
                await collect(chunks, received)
    kept = received[: received.rfind(b"\n") + 1]
    assert whole.startswith(received)
    async with open_client(stack, await make_key(stack, name)) as client:
        rest = await client.http.get(path, params={"from": kept.count(b"\n")}, timeout=60)
    assert kept + rest.content == whole
