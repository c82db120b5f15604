"""Files through the client: uploads, downloads, and large inputs of jobs."""

import asyncio
import hashlib
import io
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import charonia
import httpx
import numpy as np
import pytest
from charonia import Charonia, FileId, Url
from charonia.sources import LARGE

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.model_inputs import LINES
from tests.support.receivers.content_server import reply, serve_contents
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway

CONTENT = os.urandom(3_000_000)
IMAGE = ROOT / "deploy" / "local" / "demo.png"


@pytest.fixture
async def key(stack: Stack) -> str:
    """A key of a new tenant."""
    return await make_key(stack, f"client-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def client(stack: Stack, key: str) -> Iterator[Charonia]:
    with Charonia(stack.url, key) as client:
        yield client


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False


async def test_an_input_is_fetched_from_a_url(client: Charonia) -> None:
    async with serve_contents() as contents:
        url = contents.add("/scan.png", reply(IMAGE.read_bytes()))
        found = await asyncio.to_thread(client.run, "ocr", image=Url(url))
    assert found["text"] == LINES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "recording.pdf"
    found.write_bytes(CONTENT)
    return found


def test_a_file_goes_up_and_down(client: Charonia, path: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    file = client.files.upload(path, on_progress=steps.append)
    assert (file.size, file.content_type) == (len(CONTENT), "application/pdf")
    assert steps[-1] == len(CONTENT)
    with path.open("rb") as opened:
        opened.seek(1)
        assert client.files.upload(opened, content_type="a/b", expires_in=60).size == len(CONTENT) - 1
    assert client.files.upload(Unseekable(CONTENT)).sha256 == file.sha256
    assert client.files.upload(CONTENT).sha256 == file.sha256
    assert len(list(client.files.list())) == 4
    assert b"".join(client.files.read(file.id)) == CONTENT
    assert client.files.save(file.id, tmp_path / "copy").read_bytes() == CONTENT
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "recording.pdf"]
    client.files.delete(file.id)
    with pytest.raises(charonia.NotFound):
        client.files.get(file.id)


def test_a_small_file_is_uploaded_for_a_model_that_reads_it_itself(client: Charonia, tmp_path: Path) -> None:
    small = tmp_path / "small.flac"
    small.write_bytes(b"0123456789")
    expected = [hashlib.sha256(b"0123456789").hexdigest()]
    with small.open("rb") as opened:
        for value in (
            small,
            opened,
            b"0123456789",
            client.files.upload(small),
            FileId(client.files.upload(small).id),
        ):
            assert client.run("excerpt", audio=value)["sha256"] == expected
    assert [done["sha256"] for done in client.map("excerpt", [{"audio": small}] * 2)] == [expected] * 2
    with pytest.raises(charonia.InvalidInput, match=r"/inputs/audio: .* the model reads a file here itself"):
        client.run("excerpt", audio="0123456789")
    assert client.models.get("excerpt").inputs[0].reference


def test_a_large_file_becomes_an_input_by_reference(client: Charonia, tmp_path: Path) -> None:
    large = tmp_path / "scan.png"
    large.write_bytes(IMAGE.read_bytes() + bytes(LARGE))  # what follows the end of an image is ignored
    assert client.run("ocr", image=large)["text"] == LINES
    assert [done["text"] for done in client.map("ocr", [large, IMAGE, large], concurrency=1)] == [LINES] * 3
    with large.open("rb") as opened:
        assert client.run("ocr", image=opened)["text"] == LINES
    file, *others = client.files.list()
    assert len(others) == 3
    assert client.run("ocr", image=file)["text"] == LINES
    assert client.run("ocr", image=large, idempotency_key="once")["text"] == LINES
    assert client.run("ocr", image=large, idempotency_key="once")["text"] == LINES  # it went with the request
    assert len(list(client.files.list())) == 4


def test_raw_tensors_come_from_files(client: Charonia) -> None:
    numbers = np.arange(600_000, dtype=np.float32)
    file = client.files.upload(numbers.tobytes())
    np.testing.assert_array_equal(client.run("echo", x=file).numpy("y"), 2 * numbers[None])


def test_what_cannot_be_uploaded_is_named(client: Charonia, tmp_path: Path) -> None:
    with pytest.raises(charonia.InvalidInput, match="there is no file"):
        client.files.upload(tmp_path / "missing")
    with pytest.raises(charonia.InvalidInput, match="binary mode"):
        client.files.upload(io.StringIO("text"))  # type: ignore[arg-type]


class BreakingTransport(httpx.BaseTransport):
    """Breaks the first upload after a part of the body, and the first download after a part of the content."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()
        self._has_broken = {"POST": False, "GET": False}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(("/files", "/content")) and not self._has_broken[request.method]:
            self._has_broken[request.method] = True
            if request.method == "POST":
                next(iter(request.stream))  # type: ignore[arg-type]
                raise httpx.WriteError("broke", request=request)
            response = self._inner.handle_request(request)
            return httpx.Response(response.status_code, headers=response.headers, stream=Breaking(response))
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


class Breaking(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield next(self._response.iter_raw(1_100_000))
        raise httpx.ReadError("broke")

    def close(self) -> None:
        self._response.close()


def test_a_broken_transfer_goes_on(stack: Stack, key: str, path: Path, tmp_path: Path) -> None:
    with httpx.Client(transport=BreakingTransport()) as http:
        client = Charonia(stack.url, key, http=http)
        file = client.files.upload(path)
        assert client.files.save(file.id, tmp_path / "copy").read_bytes() == CONTENT


async def test_a_bucket_gives_the_content_itself(stack: Stack, key: str, s3: S3, path: Path, tmp_path: Path) -> None:
    bucket = f"client-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(bucket)
    async with (
        another_gateway(stack, CHARONIA_STORE_URL=f"s3://{bucket}", **s3.environment) as gateway,
        charonia.AsyncCharonia(gateway.url, key) as client,
    ):
        file = await client.files.upload(path)
        assert (await client.files.save(file.id, tmp_path / "copy")).read_bytes() == CONTENT
