"""The form of an upload, in the pieces that a network makes of it."""

from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from services.gateway.files.store import Description
from services.gateway.http.problems import Problem
from services.gateway.openai.files.form import MAX_FIELD, FileForm

CONTENT = b'{"custom_id": "a"}\r\n--not-the-boundary\r\n' + bytes(range(256))
LONGEST = 3600.0
Fields = Sequence[tuple[str, tuple[str | None, str | bytes]]]
PURPOSE = ("purpose", (None, "batch"))
FILE = ("file", ("lines.jsonl", CONTENT))
ANCHOR, SECONDS = ("expires_after[anchor]", (None, "created_at")), ("expires_after[seconds]", (None, "60"))


def encode(fields: Fields) -> tuple[FileForm, bytes]:
    request = httpx.Request("POST", "http://gateway", files=list(fields))
    return FileForm(request.headers, LONGEST), request.read()


async def split(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def read(form: FileForm, body: bytes, size: int = 1_000_000) -> bytes:
    parts = [part async for part in form.read(split(body, size))]
    assert all(parts), "an empty part would look like the end"
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1_000_000])
@pytest.mark.parametrize("fields", [[PURPOSE, FILE], [FILE, PURPOSE]], ids=["Python's order", "JavaScript's order"])
async def test_the_file_comes_as_it_is(fields: Fields, size: int) -> None:
    form, body = encode(fields)
    assert await read(form, body, size) == CONTENT
    assert form.describe() == Description("lines.jsonl", "batch", None)


async def test_a_file_may_be_empty_and_without_a_name() -> None:
    form, body = encode([("file", (None, b"")), PURPOSE])
    assert await read(form, body) == b""
    assert form.describe() == Description("", "batch", None)


async def test_it_says_how_long_the_file_is_kept() -> None:
    form, body = encode([PURPOSE, ANCHOR, SECONDS, ("file", ("a\x7fä.jsonl", b"1"))])
    await read(form, body)
    assert form.describe() == Description("aä.jsonl", "batch", 60.0)


@pytest.mark.parametrize(
    ("fields", "pointer", "text"),
    [
        ([FILE], "/purpose", "is missing; expected `batch`, `user_data`"),
        ([FILE, ("purpose", (None, "fine-tune"))], "/purpose", "is 'fine-tune'; expected `batch`"),
        ([PURPOSE], "/file", "is missing"),
        (
            [FILE, PURPOSE, ("purposes", (None, "batch"))],
            "/purposes",
            "unknown field `purposes`; did you mean `purpose`?",
        ),
        ([FILE, PURPOSE, SECONDS], "/expires_after[anchor]", "must be created_at"),
        ([FILE, PURPOSE, ANCHOR], "/expires_after[seconds]", "must be a whole number from 1 to 3600"),
        ([FILE, PURPOSE, ANCHOR, (SECONDS[0], (None, "3601"))], "/expires_after[seconds]", "from 1 to 3600"),
        ([FILE, PURPOSE, ANCHOR, (SECONDS[0], (None, "²"))], "/expires_after[seconds]", "from 1 to 3600"),
    ],
)
async def test_what_a_form_lacks_is_named(fields: Fields, pointer: str, text: str) -> None:
    form, body = encode(fields)
    await read(form, body)
    with pytest.raises(Problem) as refused:
        form.describe()
    found = {error.pointer: error.detail for error in refused.value.errors}
    assert text in found[pointer]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([FILE, FILE, PURPOSE], "file: is given more than once"),
        ([PURPOSE, PURPOSE, FILE], "purpose: is given more than once"),
        ([("purpose", (None, "x" * (MAX_FIELD + 1))), FILE], "more than 1024 bytes"),
        ([FILE] + [(f"field{number}", (None, "")) for number in range(20)], "the form is broken"),
    ],
)
async def test_a_form_with_too_much_is_refused(fields: Fields, text: str) -> None:
    form, body = encode(fields)
    with pytest.raises(Problem, match=text.replace("[", r"\[")):
        await read(form, body, 1000)


@pytest.mark.parametrize("cut", [3, 10, 60])
async def test_a_form_without_its_end_is_broken(cut: int) -> None:
    form, body = encode([PURPOSE, FILE])
    with pytest.raises(Problem, match="the form is broken") as refused:
        await read(form, body[:-cut])
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=a", "\x00; boundary=a"]
)
def test_another_body_is_refused(content_type: str) -> None:
    with pytest.raises(Problem, match=r"expected multipart/form-data") as refused:
        FileForm({"content-type": content_type}, LONGEST)
    assert refused.value.status == 415


def test_an_encoded_body_is_refused() -> None:
    with pytest.raises(Problem, match="'gzip'"):
        FileForm({"content-type": "multipart/form-data; boundary=a", "content-encoding": "gzip"}, LONGEST)


async def test_what_is_no_form_is_broken() -> None:
    with pytest.raises(Problem, match="the form is broken"):
        await read(FileForm({"content-type": "multipart/form-data; boundary=a"}, LONGEST), b"x" * 10_000, 100)
