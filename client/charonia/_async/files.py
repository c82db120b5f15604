"""Files: large values that are uploaded once, and that jobs use by reference."""

import functools
import hashlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from charonia._async.blocking import run_blocking, sleep
from charonia._async.pages import list_pages
from charonia._async.transport import AsyncTransport
from charonia.calls import Call, Deadline, check_timeout, choose_patience, get
from charonia.errors import ConnectionFailed, InvalidResponse
from charonia.inputs import check_sizes, has_files, list_references, read_files
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.paths import make_path
from charonia.retry import choose_delay
from charonia.schemas import FileData
from charonia.sources import (
    LARGE,
    OnProgress,
    Source,
    find_contents,
    find_large,
    find_references,
    measure,
    write_piece,
)

TRANSFER_SECONDS = 3600.0


class AsyncFiles:
    """The tenant's files. They expire after a day, but not while a job that reads them waits or runs."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def upload(
        self,
        source: Path | bytes | BinaryIO,
        *,
        content_type: str | None = None,
        expires_in: float | None = None,
        timeout: float = TRANSFER_SECONDS,
        on_progress: OnProgress | None = None,
    ) -> FileData:
        """Upload a path, an open file or bytes, piece by piece, and return the file. It is an input as it is.

        It is kept for `expires_in` seconds, by default for a day. `on_progress` gets the bytes sent so far. A broken
        upload begins again, if the source can be read again, while the gateway is not away for longer than the
        client's `timeout`.
        """
        timeout = check_timeout(timeout)
        content = Source(source)

        async def send() -> AsyncGenerator[bytes, None]:
            try:
                await run_blocking(content.rewind)
                while piece := await run_blocking(content.read):
                    yield piece
                    if on_progress is not None:
                        on_progress(content.position)
            finally:
                content.close()

        headers = {"Content-Type": content_type or content.guess_type()}
        if content.size is not None:
            headers["Content-Length"] = str(content.size)
        call = Call("POST", "/v1/files", {"expires_in": expires_in}, headers=headers, content=send)
        return self._transport.decode(await self._transport.send(call, timeout, self._transport.timeout), FileData)

    async def get(self, file_id: str) -> FileData:
        """Return a file without its content. Raise NotFound."""
        return await self._transport.call(get(make_path("files", file_id)), FileData)

    async def list(self) -> AsyncGenerator[FileData, None]:
        """Yield the files, newest first."""
        async for file in list_pages(self._transport, "/v1/files", FileData):
            yield file

    async def read(self, file_id: str, *, timeout: float = TRANSFER_SECONDS) -> AsyncGenerator[bytes, None]:
        """Yield the content piece by piece. A broken connection is opened again where it broke.

        Raise DeadlineExceeded after `timeout` seconds.
        """
        deadline = Deadline(timeout)
        file = await self._find(file_id, deadline)
        async for piece in self._read_content(file_id, file.size, {}, deadline):
            yield piece

    async def _read_content(
        self, file_id: str, size: int, query: Mapping[str, str], deadline: Deadline
    ) -> AsyncGenerator[bytes, None]:
        """Yield a content of `size` bytes. The query of a signed URL stands for the right to read."""
        position, patience = 0, Deadline(self._transport.timeout)
        while position < size:
            deadline.check(f"the download of {file_id}")
            headers = {"Range": f"bytes={position}-"} if position else {}
            call = Call("GET", make_path("files", file_id, "/content"), query, headers=headers, is_redirected=True)
            async with self._transport.open(call, deadline) as response:
                if position and response.status_code != 206:
                    raise InvalidResponse(f"the rest of {file_id} cannot be read from where it broke off; read it anew")
                try:
                    async for piece in response.aiter_raw():  # as it comes: a whole PIECE may take long
                        deadline.check(f"the download of {file_id}")
                        position += len(piece)
                        yield piece
                        patience.renew()
                    continue
                except httpx.TransportError as error:
                    if not patience.left:
                        raise ConnectionFailed(f"{file_id} breaks off at byte {position}; read it again") from error
            await sleep(deadline.limit(choose_delay(1, None)))

    async def save(
        self,
        file_id: str,
        path: Path | str,
        *,
        timeout: float = TRANSFER_SECONDS,
        on_progress: OnProgress | None = None,
    ) -> Path:
        """Write the content to a path, and return it. Nothing is at the path before the content is whole and right.

        Raise DeadlineExceeded after `timeout` seconds.
        """
        deadline = Deadline(timeout)
        file = await self._find(file_id, deadline)
        target = Path(path)
        unfinished = target.with_name(f".{target.name}.{file_id}")
        digest, position = hashlib.sha256(), 0
        try:
            with unfinished.open("wb") as output:
                async for piece in self._read_content(file_id, file.size, {}, deadline):
                    await run_blocking(functools.partial(write_piece, output, digest, piece))
                    position += len(piece)
                    if on_progress is not None:
                        on_progress(position)
            if file.sha256 not in (None, digest.hexdigest()):
                raise InvalidResponse(f"the content of {file_id} has another SHA-256 than the file; read it again")
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
        return target

    async def delete(self, file_id: str) -> None:
        """Delete a file for good. Raise Conflict while a job that reads it waits or runs."""
        await self._transport.send(Call("DELETE", make_path("files", file_id), repeatable=False))

    async def _prepare(
        self,
        inputs: Mapping[str, Any],
        model: ModelInfo | None,
        limit: int,
        deadline: Deadline,
        *,
        inline: bool = False,
    ) -> Mapping[str, Any]:
        """Return inputs whose large paths and files are uploaded, and the others read. Raise InvalidInput.

        `{"file": "file_…"}` is a file that was uploaded before. With `inline`, only those are uploaded that do not
        fit into a request of `limit` bytes. Of inputs that the model reads itself, also small ones and bytes are
        uploaded. If one is larger than the model takes, nothing is uploaded.
        """
        large = find_contents(inputs, list_references(model) if model else ())
        known = find_references(inputs)
        if not large and not known and not any(map(has_files, inputs.values())):
            return inputs
        large |= find_large(inputs, limit // 2 if inline else LARGE)
        if model is not None:
            check_sizes(model, {name: measure(source) for name, source in large.items()})
        uploaded = {
            name: await self.upload(source, timeout=deadline.limit(TRANSFER_SECONDS)) for name, source in large.items()
        }
        uploaded |= {name: await self.get(file_id) for name, file_id in known.items()}
        rest = {name: value for name, value in inputs.items() if name not in uploaded}
        return {**await run_blocking(functools.partial(read_files, rest, limit)), **uploaded}

    async def _find(self, file_id: str, deadline: Deadline) -> FileData:
        patience = choose_patience(deadline, 0.0, self._transport.timeout)
        return await self._transport.call(get(make_path("files", file_id)), FileData, patience)
