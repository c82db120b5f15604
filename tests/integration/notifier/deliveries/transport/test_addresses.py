"""The sender connects to allowed addresses only, even if DNS answers change."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from common.errors import AddressRefused
from common.security.dns import resolve
from common.security.ssrf import AddressPolicy, check_host
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts.result import AttemptError
from tests.integration.notifier.conftest import Names
from tests.integration.notifier.receiver import BODY, ENCRYPTOR, OK, claim, receive, write
from tests.integration.waiting import until
from tests.support.receivers.special_addresses import NOT_PUBLIC, ODD_LITERALS

Connects = list[tuple[Any, ...]]
SECONDS = 10.0  # deadline of an attempt; no test reaches it
FIRST = AddressPolicy.parse(["127.0.0.1/32"], allow_http=True)  # only this loopback address


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    sender = Sender.open(ENCRYPTOR, FIRST, timeout=SECONDS, concurrency=10)
    yield sender
    await sender.close()


@pytest.fixture
async def strict() -> AsyncIterator[Sender]:
    """A sender to public addresses only, also over plain http."""
    sender = Sender.open(ENCRYPTOR, AddressPolicy(allow_http=True), timeout=SECONDS, concurrency=10)
    yield sender
    await sender.close()


async def test_no_special_address_is_connected_to_by_name(strict: Sender, names: Names, connects: Connects) -> None:
    for number, address in enumerate(NOT_PUBLIC):
        names[f"n{number}.example"] = [address]
        result = await strict.send(claim(f"http://n{number}.example/"))
        assert (address, result.error, result.internal) == (address, AttemptError.ADDRESS_REFUSED, False)
    assert connects == []


async def test_no_special_address_is_connected_to_as_a_literal(
    strict: Sender, sender: Sender, connects: Connects
) -> None:
    for literal in (*(f"[{each}]" if ":" in each else each for each in NOT_PUBLIC), *ODD_LITERALS):
        result = await strict.send(claim(f"http://{literal}/"))
        assert (literal, result.error) == (literal, AttemptError.ADDRESS_REFUSED)
    for literal in ODD_LITERALS:  # not even if its network is allowed
        result = await sender.send(claim(f"http://{literal}/"))
        assert (literal, result.error) == (literal, AttemptError.ADDRESS_REFUSED)
    assert connects == []


async def test_no_literal_is_connected_to_without_a_check_of_the_url(strict: Sender, connects: Connects) -> None:
    for literal in (f"[{each}]" if ":" in each else each for each in NOT_PUBLIC if "%" not in each):
        request = strict.build_request(httpx.URL(f"http://{literal}/"), BODY, {})
        result = await strict.exchange(request)
        assert (literal, result.error) == (literal, AttemptError.ADDRESS_REFUSED)
    assert connects == []


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "https://user@example.com/", "https://example.com:6379/", "https://example.com:0/"]
)
async def test_forbidden_urls_are_refused_at_every_send(url: str, connects: Connects) -> None:
    sender = Sender.open(
        ENCRYPTOR, AddressPolicy.parse(["127.0.0.0/8"], allow_http=False), timeout=SECONDS, concurrency=10
    )
    assert (await sender.send(claim(url))).error == AttemptError.ADDRESS_REFUSED
    await sender.close()
    assert connects == []


async def test_a_name_that_was_public_at_creation_is_checked_again(
    sender: Sender, names: Names, connects: Connects
) -> None:
    async with receive(write(OK), host="127.0.0.2") as receiver:
        url = f"http://rebinding.example:{receiver.port}/"
        names["rebinding.example"] = ["8.8.8.8"]
        await check_host(url, FIRST)
        names["rebinding.example"] = ["127.0.0.2"]
        assert (await sender.send(claim(url))).error == AttemptError.ADDRESS_REFUSED
    assert (receiver.connections, connects) == (0, [])


@pytest.mark.parametrize("answers", [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "::1"]])
async def test_one_forbidden_address_refuses_the_name(
    sender: Sender, names: Names, connects: Connects, answers: list[str]
) -> None:
    async with receive(write(OK)) as receiver:
        url = f"http://mixed.example:{receiver.port}/"
        names["mixed.example"] = answers
        with pytest.raises(AddressRefused):
            await check_host(url, FIRST)
        assert (await sender.send(claim(url))).error == AttemptError.ADDRESS_REFUSED
        assert (receiver.connections, connects) == (0, [])
        names["mixed.example"] = ["127.0.0.1"]
        assert (await sender.send(claim(url))).error is None


async def test_the_connection_goes_to_the_checked_address(sender: Sender, names: Names, connects: Connects) -> None:
    answers = iter([["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2"]])
    names["quick.example"] = lambda: next(answers)
    async with receive(write(OK)) as receiver:
        assert (await sender.send(claim(f"http://quick.example:{receiver.port}/"))).error is None
    assert f"host: quick.example:{receiver.port}\r\n".encode() in receiver.heads[0].lower()
    assert connects == [("127.0.0.1", receiver.port)]
    assert next(answers) == ["127.0.0.2"]  # it was resolved once


async def test_a_pooled_connection_keeps_its_checked_address(sender: Sender, names: Names, connects: Connects) -> None:
    async with receive(write(OK)) as receiver:
        url = f"http://moving.example:{receiver.port}/"
        names["moving.example"] = ["127.0.0.1"]
        assert (await sender.send(claim(url))).error is None
        names["moving.example"] = ["127.0.0.2"]
        assert (await sender.send(claim(url))).error is None
        assert (receiver.connections, connects) == (1, [("127.0.0.1", receiver.port)])


async def test_a_redirect_to_metadata_is_not_followed(sender: Sender, connects: Connects) -> None:
    for status in (301, 302, 303, 307, 308):
        target = "http://169.254.169.254/latest/meta-data/"
        redirect = f"HTTP/1.1 {status} Go\r\nLocation: {target}\r\nRefresh: 0; {target}\r\nContent-Length: 0\r\n\r\n"
        async with receive(write(redirect.encode())) as receiver:
            result = await sender.send(claim(f"http://127.0.0.1:{receiver.port}/"))
            assert (result.error, result.status_code) == (AttemptError.HTTP_STATUS, status)
            assert (connects.pop(), connects, len(receiver.heads)) == (("127.0.0.1", receiver.port), [], 1)


async def test_a_name_that_does_not_resolve(sender: Sender, names: Names) -> None:
    names |= {"nosuch.example": socket.EAI_NONAME, "silent.example": socket.EAI_AGAIN}
    results = [await sender.send(claim(f"http://{name}/")) for name in ("nosuch.example", "silent.example")]
    assert [(each.error, each.internal) for each in results] == [
        (AttemptError.DNS_FAILED, False),
        (AttemptError.DNS_FAILED, True),
    ]


async def test_slow_name_servers_delay_no_other_name(sender: Sender, names: Names) -> None:
    answered, waiting = threading.Event(), []

    def hang() -> list[str]:
        waiting.append(1)
        answered.wait(30)
        return ["127.0.0.1"]

    silent = [f"silent{number}.example" for number in range(50)]
    names |= dict.fromkeys(silent, hang)
    slow = [asyncio.create_task(resolve(name, 443)) for name in silent]
    try:
        await until(lambda: len(waiting) == len(silent), "all names are being resolved")
        async with receive(write(OK)) as receiver:
            names["good.example"] = ["127.0.0.1"]
            assert (await sender.send(claim(f"http://good.example:{receiver.port}/"))).error is None
        assert not any(task.done() for task in slow)
    finally:
        answered.set()
    assert [await task for task in slow] == [[(socket.AF_INET, "127.0.0.1")]] * len(silent)
