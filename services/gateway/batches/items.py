"""Splits the body of a batch into items: lines of JSON, or the elements of a JSON list."""

import hashlib
import json
import re
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Any

from litestar import Request

from services.gateway.http.bodies import malformed, read_chunks
from services.gateway.http.limits.body_limits import find_lease
from services.gateway.http.negotiation import check_json
from services.gateway.http.problems import FieldError as Field
from services.gateway.http.problems import Problem, invalid
from services.gateway.http.worker_processes import Workers

MAX_ITEMS = 10_000
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
SPACE = re.compile(r"[ \t\n\r]*")
# It only finds where elements end, so numbers need no value.
DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


class Items:
    """The items of a request's body: lines of JSON, or a JSON list. Iterate over it once."""

    def __init__(self, request: Request[Any, Any, Any], max_item: int, workers: Workers) -> None:
        """`max_item` is the limit of a line, and of a whole list, in bytes."""
        self._request = request
        self._workers = workers
        self._max_item = max_item
        self.digest = hashlib.sha256()  # of the bytes read so far

    async def __aiter__(self) -> AsyncIterator[bytes | str]:
        if check_json(self._request.headers, LINES) in LINES:
            async for line in split_lines(self._read(), self._max_item):
                yield line
            return
        body = bytearray()
        async for chunk in self._read():
            body += chunk
            if len(body) > self._max_item:
                text = f"the list exceeds the limit of {self._max_item} bytes; send lines of JSON as {LINES[0]}"
                raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)
        self.hold(len(body))  # its text takes as much again
        for item in await self._workers.work(len(body), list_items, bytes(body), MAX_ITEMS + 2):
            yield item

    async def skip(self) -> bytes:
        """Read the body only for its digest, and return that."""
        async for _ in self._read():
            continue
        return self.digest.digest()

    def hold(self, size: int) -> None:
        """Count more bytes than those of the body. Raises Problem (413, 503) without room."""
        find_lease(self._request.scope).grow(size)

    async def _read(self) -> AsyncIterator[bytes]:
        async for chunk in read_chunks(self._request):
            self.digest.update(chunk)
            yield chunk


async def split_lines(chunks: AsyncIterator[bytes], longest: int) -> AsyncIterator[bytes]:
    """Yield each complete line that is not blank. Raises Problem (413) for one over `longest` bytes."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        parts.append(first)
        size += len(first)
        for line in others:
            if size and (complete := b"".join(parts).strip()):
                yield complete
            parts, size = [line], len(line)
        if size > longest:
            text = f"a line exceeds the limit of {longest} bytes"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)
    if last := b"".join(parts).strip():
        yield last


def list_items(body: bytes, limit: int) -> list[str]:
    """Return the first elements of a JSON list. Raises as `split_list` does."""
    return list(islice(split_list(body), limit))


def split_list(body: bytes) -> Iterator[str]:
    """Yield the text of each element. Raises Problem: 400 for invalid JSON, 422 for anything but a list."""
    try:
        text = body.decode("utf-8-sig")
        at = skip_space(text, 0)
        if text[at : at + 1] != "[":
            refuse_lines(text, at)
            DECODER.decode(text)
            raise invalid(
                Field(
                    "", f"the body must be a list of jobs; or send a job in each line, with the Content-Type {LINES[0]}"
                )
            )
        at = skip_space(text, at + 1)
        if text[at : at + 1] != "]":
            while True:
                _, end = DECODER.raw_decode(text, at)
                yield text[at:end]
                at = skip_space(text, end)
                if text[at : at + 1] != ",":
                    break
                at = skip_space(text, at + 1)
        if text[at : at + 1] != "]" or skip_space(text, at + 1) != len(text):
            raise json.JSONDecodeError("", text, at)
    except (ValueError, RecursionError) as error:  # ValueError includes errors of UTF-8 and JSON
        raise malformed(body.removeprefix(BOM_UTF8), error) from error


def refuse_lines(text: str, at: int) -> None:
    """Raise Problem (400) for jobs in lines, sent as a list. Raises ValueError unless it begins with JSON."""
    second = find_second(text, at)
    if second is not None:
        line, column = text.count("\n", 0, second) + 1, second - text.rfind("\n", 0, second)
        detail = (
            f"the body is not a list: a second job begins in line {line}, column {column}; "
            f"to send a job in each line, use the Content-Type {LINES[0]} and, with curl, `--data-binary @FILE`"
        )
        raise Problem(HTTPStatus.BAD_REQUEST, "malformed_json", detail)


def find_second(text: str, at: int) -> int | None:
    """Return where a second object follows the JSON at this place. Raises ValueError unless there is JSON."""
    _, end = DECODER.raw_decode(text, at)
    second = skip_space(text, end)
    return second if text[second : second + 1] == "{" else None


def skip_space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at
