"""Whatever happens to the gateway, the caller sees no error, loses nothing and doubles nothing."""

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import aclosing

import charonia
import httpx
import pytest
from charonia import AsyncCharonia, Charonia

from deploy.local.stack import Stack
from tests.acceptance.client.conftest import Restart
from tests.support.stacks.key_command import make_key, revoke_key
from tests.support.stacks.own_gateway import another_gateway

WORDS = ["word0", *(f" word{number}" for number in range(1, 15))]
TEXT = "".join(WORDS)
PAUSE_MS = 200
ROUNDS = 10


class LossyTransport(httpx.BaseTransport):
    """Sends each request. Of the first tries of each it loses the answer, or gives another one."""

    def __init__(self, faults: list[Callable[[httpx.Request], httpx.Response]]) -> None:
        self._faults = faults
        self._inner = httpx.HTTPTransport()
        self.tries = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.tries += 1
        if request.method == "POST" and self._faults:
            fault = self._faults.pop(0)
            self._inner.handle_request(request).read()
            return fault(request)
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def lose_answer(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("the connection broke", request=request)


def answer_503(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(503, headers={"Retry-After": "0"}, json={"type": "urn:charonia:problem:unavailable"})


def answer_502(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(502, text="Bad gateway")


@pytest.fixture
async def key(stack: Stack) -> str:
    """A key of a new tenant, which has no jobs yet."""
    return await make_key(stack, f"client-{uuid.uuid4().hex[:8]}")


def test_lost_answers_double_no_job(stack: Stack, key: str) -> None:
    transport = LossyTransport([lose_answer, answer_503, answer_502])
    with httpx.Client(transport=transport) as http:
        client = Charonia(stack.url, key, http=http)
        assert client.run("echo", x=1)["y"] == [[2.0]]
        assert transport.tries == 1 + 4  # of the model's signature, and of the submit
        assert len(list(client.jobs.list())) == 1
        transport = LossyTransport([lose_answer])
    with httpx.Client(transport=transport) as http:
        client = Charonia(stack.url, key, http=http)
        assert sorted(done["y"] for done in client.map("echo", [1, 2], concurrency=8)) == [[[2.0]], [[4.0]]]
        assert len(list(client.jobs.list())) == 3


def test_a_call_without_a_key_of_its_own_is_not_repeated_blindly(stack: Stack, key: str) -> None:
    transport = LossyTransport([lose_answer])
    with httpx.Client(transport=transport) as http:
        client = Charonia(stack.url, key, http=http)
        with pytest.raises(charonia.ConnectionFailed, match="It may have had its effect"):
            client.webhooks.create("http://127.0.0.1:50009/hook")
        assert len(list(client.webhooks.list())) == 1


async def test_a_rate_limit_is_waited_for(stack: Stack) -> None:
    key = await make_key(stack, f"client-{uuid.uuid4().hex[:8]}", "--rate-limit", "5")
    async with AsyncCharonia(stack.url, key) as client:
        jobs = await asyncio.gather(*(client.submit("echo", x=number) for number in range(10)))
        assert len({job.id for job in jobs}) == 10
    errors: list[BaseException] = []
    async with AsyncCharonia(stack.url, key, timeout=2) as hasty:
        for _ in range(ROUNDS):  # on a busy machine a deadline may come before all refusals
            calls = (hasty.models.get("echo") for _ in range(20))
            found = await asyncio.gather(*calls, return_exceptions=True)  # all of them: the client is closed afterwards
            errors += [each for each in found if isinstance(each, BaseException)]
            if charonia.RateLimited in map(type, errors):
                break
    assert charonia.RateLimited in {type(each) for each in errors}
    assert {type(each) for each in errors} <= {charonia.RateLimited, charonia.DeadlineExceeded}
    assert all("with a longer timeout" in str(each) for each in errors if isinstance(each, charonia.RateLimited))


def test_an_outage_of_the_database_is_waited_for(breakable: Stack, key: str) -> None:
    with Charonia(breakable.url, key) as client:
        client.models.get("echo")
        breakable.postgres.stop()
        starting = threading.Timer(2, breakable.postgres.start)
        starting.start()
        try:
            assert client.run("echo", x=1)["y"] == [[2.0]]
        finally:
            starting.join()
        assert len(list(client.jobs.list())) == 1


async def test_a_stream_and_a_run_go_on_after_the_gateway_was_killed(
    breakable: Stack, key: str, restart: Restart
) -> None:
    async with AsyncCharonia(breakable.url, key) as client:
        run = asyncio.create_task(client.run("work", ms=3000))
        found = []
        async for part in client.stream("tokens", text=TEXT, delay_ms=PAUSE_MS):
            found.append(part.text)
            if len(found) == 5:
                starting = restart()
        await asyncio.to_thread(starting.join)
        assert found == WORDS
        assert (await run)["slept"] == [[3000]]
        assert len([job async for job in client.jobs.list()]) == 2


def test_events_go_on_after_the_gateway_was_killed(breakable: Stack, key: str, restart: Restart) -> None:
    with Charonia(breakable.url, key) as client:
        job = client.submit("tokens", text=TEXT, delay_ms=PAUSE_MS)
        events = []
        for event in job.events():
            events.append(event)
            if len(events) == 5:
                starting = restart()
        starting.join()
        assert [each.type for each in events] == [
            "job.queued",
            "job.started",
            *["job.output"] * len(WORDS),
            "job.succeeded",
        ]
        assert len({each.id for each in events}) == len(events)


def test_a_map_of_many_jobs_survives_a_killed_gateway(breakable: Stack, key: str, restart: Restart) -> None:
    with Charonia(breakable.url, key) as client:
        indexes = []
        for done in client.map("echo", range(120), concurrency=40):
            assert done["y"] == [[2.0 * done.item]]
            indexes.append(done.index)
            if len(indexes) == 30:
                starting = restart()
        starting.join()
        assert sorted(indexes) == list(range(120))
        assert sum(1 for _ in client.jobs.list()) == 120


async def test_a_revoked_key_ends_a_stream(stack: Stack) -> None:
    name = f"client-{uuid.uuid4().hex[:8]}"
    key = await make_key(stack, name)

    async def stream_and_revoke(client: AsyncCharonia) -> None:
        own = (await anext(client.keys.list())).id
        async for part in client.stream("tokens", text=20 * f"{TEXT} ", delay_ms=PAUSE_MS):  # until it is canceled
            if part.index == 1:
                await revoke_key(stack, own)

    async with AsyncCharonia(stack.url, key) as client, AsyncCharonia(stack.url, await make_key(stack, name)) as other:
        try:
            with pytest.raises(charonia.Unauthorized):
                await stream_and_revoke(client)
        finally:
            async for job in other.jobs.list():
                await (await other.jobs.get(job.id)).cancel()


async def test_a_frozen_gateway_holds_no_call_over_its_deadline_and_the_feed_goes_on_after_it(
    stack: Stack, key: str
) -> None:
    breaks, is_frozen = 0, False

    def note_break() -> None:
        nonlocal breaks
        breaks += is_frozen
        if breaks >= 2:  # the first is of the stream
            gateway.thaw()

    async with (
        another_gateway(stack) as gateway,
        AsyncCharonia(gateway.url, key, timeout=4) as client,
        AsyncCharonia(stack.url, key) as other,
        aclosing(client.events._read_messages(None, "oldest", 60, note_break)) as messages,
    ):
        assert await anext(messages) is None
        gateway.freeze()
        with pytest.raises(charonia.DeadlineExceeded):
            await client.models.get("echo")
        is_frozen = True
        job = await other.submit("echo", x=1)
        async for message in messages:
            if message is not None:
                break
    assert breaks >= 2
    assert message is not None
    assert job.id in message.data


def test_texts_with_unusual_line_ends_are_streamed(client: Charonia) -> None:
    words = ["a\u2028b", " c\x85d", " größe"]
    assert [part["token"] for part in client.stream("tokens", text="".join(words))] == [[word] for word in words]
