"""Inputs are fetched over HTTP from servers that behave well, and from others."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from common import ids
from common.http_client.client import CheckedClient
from common.security.ssrf import AddressPolicy
from common.tensors import Datatype, Tensor, UrlContent
from services.dispatcher.inputs.fetched import FULL_SECONDS, FetchedContent, FetchFolder
from services.dispatcher.inputs.url_fetcher import FetchLimits, UrlFetcher
from services.dispatcher.triton.errors import InferenceError
from tests.integration.notifier.conftest import connects, names
from tests.support.receivers.content_server import (
    Answer,
    ContentServer,
    drip,
    flood,
    hang,
    redirect,
    reply,
    send,
    serve_contents,
)

__all__ = ["connects", "names"]

TENANT, OTHER = ids.new(), ids.new()
LOCAL = AddressPolicy.parse(["127.0.0.1/32"], allow_http=True)
MIB = 1024 * 1024
LIMIT = 4 * MIB
SPACE = 16 * MIB
SECONDS = 60.0  # no test reaches it
SHORT = 0.5
METADATA = "http://169.254.169.254/latest/meta-data/"


class Fetching:
    """A fetcher with its folder."""

    def __init__(self, path: Path, policy: AddressPolicy = LOCAL, limit: int = LIMIT, space: int = SPACE) -> None:
        self.folder = FetchFolder(str(path), space)
        client = CheckedClient.open(policy, timeout=SECONDS, concurrency=10)
        self.fetcher = UrlFetcher(client, policy, FetchLimits(limit, SECONDS), self.folder)

    async def fetch(self, *inputs: Tensor, timeout: float = SECONDS) -> list[bytes]:
        """Return the contents. Nothing is left of them afterwards."""
        try:
            async with self.fetcher.fetch(TENANT, inputs, timeout) as found:
                return [await read_all(content) for content in found.values()]
        finally:
            assert self.folder.space.free == self.folder.space.total

    async def refuse(self, url: str, datatype: Datatype = Datatype.BYTES, **options: Any) -> InferenceError:
        with pytest.raises(InferenceError) as caught:
            await self.fetch(element(url, datatype=datatype), **options)
        assert (caught.value.refused, "secret" in str(caught.value)) == (False, False)
        return caught.value


async def read_all(content: FetchedContent) -> bytes:
    pieces = []
    while piece := await content.read():
        pieces.append(piece)
    found = b"".join(pieces)
    assert len(found) == content.size
    return found


def element(url: str, name: str = "x", datatype: Datatype = Datatype.BYTES) -> Tensor:
    return Tensor(name, datatype, [1], UrlContent(url))


@pytest.fixture
async def fetching(tmp_path: Path) -> AsyncIterator[Fetching]:
    fetching = Fetching(tmp_path)
    yield fetching
    await fetching.fetcher.close()
    assert not any(await asyncio.to_thread(tmp_path.glob, "*"))


@pytest.fixture
async def contents() -> AsyncIterator[ContentServer]:
    async with serve_contents() as contents:
        yield contents


async def test_contents_are_fetched_whole(fetching: Fetching, contents: ContentServer) -> None:
    large = bytes(range(256)) * (LIMIT // 256)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    inputs = [
        element(contents.add("/large?key=secret", reply(large)), "a"),
        element(contents.add("/chunked", send(chunked)), "b"),
        element(contents.add("/until-the-end", send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")), "c"),
        element(contents.add("/empty", reply(b"")), "d"),
        Tensor("e", Datatype.UINT8, [2, 2], UrlContent(contents.add("/numbers", reply(b"1234")))),
        Tensor("f", Datatype.UINT8, [1], b"i"),
    ]
    contents.answers["/large"] = reply(large)
    assert await fetching.fetch(*inputs) == [large, b"abcde", b"until the end", b"", b"1234"]
    assert "accept-encoding: identity\r\n" in contents.heads[0].lower()
    assert not any(name in contents.heads[0].lower() for name in ("traceparent", "authorization", "cookie"))


@pytest.mark.parametrize(
    ("answer", "code", "retryable", "reason"),
    [
        (reply(b"", 404), "input_url_failed", False, "answered with status 404"),
        (reply(b"", 401), "input_url_failed", False, "correct the URL"),
        (reply(b"", 204), "input_url_failed", False, "status 204, not 200"),
        (reply(b"", 206), "input_url_failed", False, "status 206, not 200"),
        (reply(b"", 500), "input_url_failed", True, "answered with status 500"),
        (reply(b"", 429), "input_url_failed", True, "answered with status 429"),
        (reply(b"", 302), "input_url_failed", False, "redirects to nowhere"),
        (redirect("/itself"), "input_url_failed", False, "redirects more than 5 times"),
        (redirect(METADATA), "input_url_refused", False, "redirects to a URL that may not be called: requests to 169."),
        (redirect("//127.0.0.2/x"), "input_url_refused", False, "127.0.0.2"),
        (redirect("ftp://127.0.0.1/x"), "input_url_refused", False, "must start with"),
        (redirect("http://user:secret@127.0.0.1/"), "input_url_refused", False, "user name or password"),
        (redirect("http://[::1/"), "input_url_failed", False, "redirects to a URL that is none"),
        (reply(gzip.compress(bytes(100)), content_encoding="gzip"), "input_url_encoded", False, "compressed (gzip)"),
        (send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "input_url_failed", True, "broke the connection"),
        (send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"), "input_url_failed", True, "broke"),
        (send(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n"), "input_url_failed", False, "valid HTTP"),
        (send(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20000 + b"\r\n\r\n"), "input_url_failed", False, "valid HTTP"),
        (send(b""), "input_url_failed", True, "broke the connection"),
        (reply(bytes(LIMIT + 1)), "input_url_too_large", False, f"more than {LIMIT} bytes"),
        (flood, "input_url_too_large", False, "CHARONIA_MAX_TENSOR_BYTES"),
    ],
)
async def test_a_server_without_the_content(
    fetching: Fetching, contents: ContentServer, answer: Answer, code: str, retryable: bool, reason: str
) -> None:
    url = contents.add("/itself", answer)
    failure = (await fetching.refuse(f"{url}?key=secret")).failure
    assert (failure.code, failure.retryable, reason in failure.message) == (code, retryable, True), failure
    assert failure.message.startswith("input 'x': 127.0.0.1 ")


@pytest.mark.parametrize("answer", [hang, drip, send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nh")])
async def test_a_slow_server_ends_with_the_deadline(
    fetching: Fetching, contents: ContentServer, answer: Answer
) -> None:
    async def stall(writer: asyncio.StreamWriter) -> None:
        await answer(writer)
        await hang(writer)

    failure = (await fetching.refuse(contents.add("/slow", stall), timeout=SHORT)).failure
    assert (failure.code, failure.retryable) == ("input_url_timeout", True)
    assert "within 0.5 s" in failure.message


async def test_more_than_was_announced_is_cut_off(fetching: Fetching, contents: ContentServer) -> None:
    url = contents.add("/more", send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"))
    assert await fetching.fetch(element(url)) == [b"abc"]


async def test_numbers_have_the_bytes_of_their_shape(fetching: Fetching, contents: ContentServer) -> None:
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"
    for answer, reason in (
        *((reply(b"abc"), "has 3 bytes, but the shape needs 4"), (send(endless), "has more, but the shape needs 4")),
        (send(b"HTTP/1.1 200 OK\r\n\r\nabc"), "has 3 bytes, but the shape needs 4"),
    ):
        failure = (await fetching.refuse(contents.add("/numbers", answer), Datatype.FP32)).failure
        assert (failure.code, failure.retryable, reason in failure.message) == ("input_url_wrong_size", False, True)


async def test_a_port_without_a_listener(fetching: Fetching) -> None:
    async with serve_contents() as contents:
        url = contents.url
    failure = (await fetching.refuse(url)).failure
    assert (failure.code, failure.retryable) == ("input_url_failed", True)
    assert failure.message == "input 'x': 127.0.0.1 refuses the connection"


async def test_redirects_are_followed(fetching: Fetching, contents: ContentServer) -> None:
    contents.add("/found", reply(b"found"))
    for number in range(1, 5):
        contents.add(f"/{number}", redirect(f"{contents.url}/{number - 1}#part", 300 + number if number < 4 else 307))
    contents.add("/0", redirect("found", 308))
    assert await fetching.fetch(element(f"{contents.url}/4")) == [b"found"]


async def test_names_are_checked_when_they_are_called(
    fetching: Fetching, contents: ContentServer, names: dict[str, Any], connects: list[Any]
) -> None:
    names["private.example"] = ["10.0.0.1"]
    names["mixed.example"] = ["127.0.0.1", "10.0.0.1"]
    port = contents.url.rpartition(":")[2]
    for host in ("private.example", "mixed.example"):
        failure = (await fetching.refuse(f"http://{host}:{port}/")).failure
        assert (failure.code, failure.retryable) == ("input_url_refused", False)
        assert "10.0.0.1" not in failure.message  # the network of the operator
    contents.add("/away", redirect(f"http://private.example:{port}/"))
    assert (await fetching.refuse(f"{contents.url}/away")).failure.code == "input_url_refused"
    assert connects == [("127.0.0.1", int(port))]


async def test_a_policy_that_became_strict_holds_for_jobs_that_wait(tmp_path: Path, contents: ContentServer) -> None:
    for policy in (AddressPolicy(), AddressPolicy(allow_http=True)):
        strict = Fetching(tmp_path, policy)
        assert (await strict.refuse(contents.add("/", reply(b"x")))).failure.code == "input_url_refused"
        await strict.fetcher.close()
    assert contents.heads == []


async def test_a_large_content_takes_no_memory(tmp_path: Path, contents: ContentServer) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(24 * 1024):  # small chunks, with 7 bytes around each
            writer.write(b"400\r\n" + bytes(1024) + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    fetching = Fetching(tmp_path, limit=128 * MIB, space=512 * MIB)
    tracemalloc.start()
    try:
        async with fetching.fetcher.fetch(TENANT, [element(contents.add("/", answer))], 60.0) as found:
            _, most = tracemalloc.get_traced_memory()
            assert found["x"].size == 24 * MIB
    finally:
        tracemalloc.stop()
    assert most < 8 * MIB
    await fetching.fetcher.close()


async def test_a_tenant_leaves_space_to_others(tmp_path: Path, contents: ContentServer) -> None:
    fetching = Fetching(tmp_path, space=2 * LIMIT)
    inputs = [element(contents.add("/", reply(bytes(LIMIT * 3 // 4))))]
    async with fetching.fetcher.fetch(TENANT, inputs, SECONDS), fetching.fetcher.fetch(TENANT, inputs, SECONDS):
        with pytest.raises(InferenceError) as caught:
            async with fetching.fetcher.fetch(TENANT, inputs, SECONDS):
                pass
        assert (caught.value.failure.code, caught.value.refused) == ("input_url_waiting", True)
        assert caught.value.delay == FULL_SECONDS
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (LIMIT * 3 // 4)
        with pytest.raises(InferenceError, match="no place now"):  # before the body, which breaks off
            await fetching.fetcher.fetch(TENANT, [element(contents.add("/head", send(head)))], SECONDS).__aenter__()
        small = [element(contents.add("/small", reply(bytes(1024))))]
        async with fetching.fetcher.fetch(OTHER, small, SECONDS):
            pass
    await fetching.fetcher.close()


async def test_jobs_wait_while_the_disk_fails(tmp_path: Path, contents: ContentServer) -> None:
    fetching = Fetching(tmp_path / "missing")
    with pytest.raises(InferenceError) as caught:
        await fetching.fetch(element(contents.add("/", reply(b"x"))))
    assert (caught.value.failure.code, caught.value.refused) == ("input_url_waiting", True)
    await fetching.fetcher.close()
