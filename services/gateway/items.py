"""The items of a body that has many: lines of JSON as they arrive, or the elements of a list. Pure."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from itertools import islice

from services.gateway.errors import FieldError as Field
from services.gateway.errors import Problem, invalid

SPACE = re.compile(r"[ \t\n\r]*")
# Only the ends of the elements are looked for, so numbers need no value.
DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


async def split_lines(chunks: AsyncIterator[bytes], longest: int) -> AsyncIterator[bytes]:
    """Each line that is not blank, as soon as it is whole; raises Problem (413) for one over `longest` bytes."""
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        size += len(first)
        for line in others:
            if size and (whole := b"".join(begun).strip()):
                yield whole
            begun, size = [line], len(line)
        if size > longest:
            text = f"a line is over the limit of {longest} bytes"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)
    if whole := b"".join(begun).strip():
        yield whole


def list_items(body: bytes, most: int) -> list[str]:
    """The first elements of a JSON list; raises as `split_list` does."""
    return list(islice(split_list(body), most))


def split_list(body: bytes) -> Iterator[str]:
    """Each element of a JSON list, as its text; raises Problem: 400 for what is no JSON, 422 for what is no list."""
    try:
        text = body.decode("utf-8-sig")
        at = skip(text, 0)
        if text[at : at + 1] != "[":
            DECODER.decode(text)
            raise invalid(Field("", "is not a list of jobs; send lines of JSON as application/x-ndjson"))
        at = skip(text, at + 1)
        if text[at : at + 1] != "]":
            while True:
                _, end = DECODER.raw_decode(text, at)
                yield text[at:end]
                at = skip(text, end)
                if text[at : at + 1] != ",":
                    break
                at = skip(text, at + 1)
        if text[at : at + 1] != "]" or skip(text, at + 1) != len(text):
            raise malformed(f"expected ',' or the end of the list at character {at}")
    except (ValueError, RecursionError) as error:  # also of UTF-8 and of JSON
        raise malformed(str(error)) from error


def skip(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def malformed(reason: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, "malformed_json", f"the body is not JSON: {reason}")
