"""A file of 1 GiB up to the gateway and down again, beside `cp` and plain obstore on the same disk, in MiB/s.

Then the latency of small files in ms, one at a time, and CPU in ms per GiB.
"""

import hashlib
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import obstore
from obstore.store import LocalStore

from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario
from benchmarks.harness.report import Figures, percentiles, with_prefix
from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY

MIB = 1024 * 1024
SIZE = 1024  # MiB
SMALL = 4096  # bytes
PART = 8 * MIB  # of an upload, as in the gateway
CALL_SECONDS = 120.0
HEADERS = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
KEY = "tenant/file/content"


class Uploaded(msgspec.Struct):
    id: str
    size: int
    sha256: str


class Client:
    """Moves one file in each way, with as little work of its own as it can. Times are in seconds."""

    def __init__(self) -> None:
        self._source = Path()
        self._sha256 = ""
        self._buffer = bytearray(MIB)

    async def write_source(self, source: str) -> None:
        """Make the file."""
        self._source, digest, block = Path(source), hashlib.sha256(), os.urandom(MIB)
        with self._source.open("wb") as file:
            for _ in range(SIZE):
                file.write(block)
                digest.update(block)
        self._sha256 = digest.hexdigest()

    async def copy(self, *, synced: bool) -> float:
        """Copy the file with `cp`."""
        target = self._source.with_name("copy")

        def copy() -> None:
            subprocess.run(["cp", self._source, target], check=True)
            if synced:
                sync(target)

        seconds = measure_time(copy)
        target.unlink()
        return seconds

    async def put(self, *, synced: bool) -> float:
        """Put the file with obstore alone, which does not wait for the disk."""
        store = self._open_store()
        (self._root / KEY).unlink(missing_ok=True)
        began = begin()
        await obstore.put_async(store, KEY, self._read_source(), chunk_size=PART)
        if synced:
            sync(self._root / KEY)
        return time.perf_counter() - began

    async def get(self, *, ranges: bool) -> float:
        """Read with obstore what was put, as a stream or in ranges."""
        store, began, size = self._open_store(), begin(), 0
        if ranges:
            for first in range(0, SIZE * MIB, MIB):
                size += len(await obstore.get_range_async(store, KEY, start=first, length=MIB))
        else:
            async for piece in (await obstore.get_async(store, KEY)).stream(MIB):
                size += len(piece)
        seconds = time.perf_counter() - began
        check_size(size)
        return seconds

    async def put_small(self, seconds: float) -> Figures:
        """Put small objects with obstore and wait for the disk, one at a time."""
        store, until, taken = self._open_store(), time.perf_counter() + seconds, list[float]()
        while (began := time.perf_counter()) < until:
            await obstore.put_async(store, KEY, bytes(SMALL))
            sync(self._root / KEY)
            taken.append((time.perf_counter() - began) * 1000)
        return percentiles("put", taken)

    async def upload(self, port: int) -> tuple[float, str]:
        """Upload the file. Return the seconds, and its id."""
        began = begin()
        with closing(HTTPConnection(HOST, port, timeout=CALL_SECONDS)) as connection, self._source.open("rb") as file:
            connection.putrequest("POST", "/v1/files")
            for name, value in (HEADERS | {"Content-Length": str(SIZE * MIB)}).items():
                connection.putheader(name, value)
            connection.endheaders()
            connection.sock.sendfile(file)
            response = connection.getresponse()
            text = response.read()
            seconds = time.perf_counter() - began
        uploaded = check_uploaded(response.status, text)
        check_size(uploaded.size)
        if uploaded.sha256 != self._sha256:
            raise BenchmarkFailed("the upload has another SHA-256 than the file")
        return seconds, uploaded.id

    async def download(self, port: int, file_id: str) -> float:
        """Download the file, and delete it."""
        began, size = begin(), 0
        with closing(HTTPConnection(HOST, port, timeout=CALL_SECONDS)) as connection:
            connection.request("GET", f"/v1/files/{file_id}/content", headers=HEADERS)
            response = connection.getresponse()
            while read := response.readinto(self._buffer):
                size += read
            seconds = time.perf_counter() - began
            check_size(size)
            delete(connection, file_id)
        return seconds

    async def move_small(self, port: int, seconds: float) -> Figures:
        """Upload and download small files, one at a time."""
        until, up, down = time.perf_counter() + seconds, list[float](), list[float]()
        with closing(HTTPConnection(HOST, port, timeout=CALL_SECONDS)) as connection:
            while (began := time.perf_counter()) < until:
                connection.request("POST", "/v1/files", bytes(SMALL), HEADERS)
                response = connection.getresponse()
                uploaded, between = check_uploaded(response.status, response.read()), time.perf_counter()
                connection.request("GET", f"/v1/files/{uploaded.id}/content", headers=HEADERS)
                check_size(len(connection.getresponse().read()), SMALL)
                up.append((between - began) * 1000)
                down.append((time.perf_counter() - between) * 1000)
                delete(connection, uploaded.id)
        return percentiles("upload", up) | percentiles("download", down)

    @property
    def _root(self) -> Path:
        return self._source.with_name("objects")

    def _open_store(self) -> LocalStore:
        return LocalStore(self._root, mkdir=True)

    async def _read_source(self) -> AsyncIterator[bytes]:
        with self._source.open("rb") as file:
            while piece := file.read(MIB):
                yield piece


def begin() -> float:
    """Return the time, once no earlier part waits for the disk any more."""
    os.sync()
    return time.perf_counter()


def measure_time(function: Callable[[], object]) -> float:
    began = begin()
    function()
    return time.perf_counter() - began


def sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def check_uploaded(status: int, text: bytes) -> Uploaded:
    if status != 201:
        raise BenchmarkFailed(f"an upload was answered {status}: {text[:500]!r}")
    return msgspec.json.decode(text, type=Uploaded)


def check_size(size: int, expected: int = SIZE * MIB) -> None:
    if size != expected:
        raise BenchmarkFailed(f"{size} bytes came of {expected}")


def delete(connection: HTTPConnection, file_id: str) -> None:
    connection.request("DELETE", f"/v1/files/{file_id}", headers=HEADERS)
    connection.getresponse().read()


def measure(bench: Bench) -> Iterator[Figures]:
    (port,), child = bench.ports, bench.child("files client")
    child.call(Client.write_source, source=str(bench.stack.settings.stack_dir.absolute() / "source"))
    child.call(Client.move_small, port=port, seconds=1.0)
    child.call(Client.put, synced=True)  # a virtual disk is slow where nobody has written before
    while True:
        seconds = {
            "cp": child.call(Client.copy, synced=False),
            "cp_synced": child.call(Client.copy, synced=True),
            "put_synced": child.call(Client.put, synced=True),
            "put": child.call(Client.put, synced=False),
            "get": child.call(Client.get, ranges=False),
            "get_ranges": child.call(Client.get, ranges=True),
        }
        meter = bench.meter("files client")
        seconds["upload"], file_id = child.call(Client.upload, port=port)
        between = meter.read(1), bench.meter("files client")
        seconds["download"] = child.call(Client.download, port=port, file_id=file_id)
        cpu = with_prefix("upload", between[0]) | with_prefix("download", between[1].read(1))
        small = child.call(Client.move_small, port=port, seconds=bench.seconds)
        plain = child.call(Client.put_small, seconds=bench.seconds / 4)
        yield with_prefix("files", make_figures(seconds) | cpu | with_prefix("small", small | plain))


def make_figures(seconds: dict[str, float]) -> Figures:
    """Return rates in MiB/s, and those of the gateway as shares of those of obstore."""
    rates = {name: SIZE / value for name, value in seconds.items()}
    return {
        **{f"{name}.rate": rate for name, rate in rates.items()},
        "upload.ratio": rates["upload"] / rates["put_synced"],
        "upload.unsynced_ratio": rates["upload"] / rates["put"],
        "download.ratio": rates["download"] / rates["get"],
        "download.ranges_ratio": rates["download"] / rates["get_ranges"],
    }


SCENARIO = Scenario(measure, {"mib": SIZE, "small": SMALL})
