"""Lines are read from any place of a file, whatever their lengths, with a bounded amount of memory."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.errors import StoreNotFound
from common.object_store.reader import ObjectReader
from common.object_store.store import ObjectStore
from services.gateway.openai.batches import source as module
from services.gateway.openai.batches.source import Line, LineSource, Page, split_page

PIECE = 5


class FakeObjects(ObjectStore):
    """One object, in small pieces. Remembers the most bytes that one read has asked for."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.most = 0

    async def read(self, key: str, start: int = 0, end: int | None = None) -> ObjectReader:
        if key != "key":
            raise StoreNotFound("gone")
        return ObjectReader(len(self._content), self._read(self._content[start:end]))

    async def _read(self, content: bytes) -> AsyncIterator[bytes]:
        held = 0
        for start in range(0, len(content), PIECE):
            held += PIECE
            self.most = max(self.most, held)
            yield content[start : start + PIECE]


@pytest.fixture(autouse=True)
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 8)
    monkeypatch.setattr(module, "PAGE", 10)


async def read_all(content: bytes) -> list[bytes | None]:
    source, place, found = LineSource(FakeObjects(content)), 0, []
    while place < len(content):
        page = await source.read("key", len(content), place)
        assert page.end > place
        assert [line.end for line in page.lines] == sorted({line.end for line in page.lines})
        found += [line.text for line in page.lines]
        place = page.end
    return found


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\n  \na\n\n\n", [b"a"]),
        (b"12345678\n12345678\n", [b"12345678"] * 2),
        (b"12345678\r\n12345678", [b"12345678"] * 2),
        (b"123456789\na", [None, b"a"]),
        (b"x" * 100 + b"\nab\n", [None, b"ab"]),
        (b"a\n" + b"x" * 100, [b"a", None]),
        (b"a\n" + b"x" * 10 + b"\n" + b"y" * 11 + b"\nb", [b"a", None, None, b"b"]),
        (b"ab\n" * 50, [b"ab"] * 50),
    ],
)
async def test_each_line_comes_once(content: bytes, lines: list[bytes | None]) -> None:
    assert await read_all(content) == lines


@pytest.mark.parametrize("size", range(1, 24))
async def test_no_length_of_lines_confuses_it(size: int) -> None:
    wanted = [b"x" * size if size <= 8 else None] * 30
    assert await read_all((b"x" * size + b"\n") * 30) == wanted


async def test_a_line_names_the_place_after_it() -> None:
    page = await LineSource(FakeObjects(b"ab\n\ncd\nef")).read("key", 9, 0)
    assert page == Page([Line(0, 3, b"ab"), Line(2, 7, b"cd"), Line(3, 9, b"ef")], 9, 4)
    assert await LineSource(FakeObjects(b"ab\n\ncd\nef")).read("key", 9, 3) == Page(
        [Line(1, 7, b"cd"), Line(2, 9, b"ef")], 9, 3
    )


async def test_a_page_ends_with_a_whole_line() -> None:
    page = split_page(b"ab\ncd\nef", 100, is_last=False)
    assert page == Page([Line(0, 103, b"ab"), Line(1, 106, b"cd")], 106, 2)


async def test_beyond_the_end_there_is_nothing() -> None:
    assert await LineSource(FakeObjects(b"ab")).read("key", 2, 2) == Page([], 2, 0)


async def test_a_missing_file_is_told() -> None:
    with pytest.raises(StoreNotFound):
        await LineSource(FakeObjects(b"ab")).read("other", 2, 0)


async def test_a_too_long_line_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    split: Any = module.split_page

    def measure(data: bytes, start: int, *, is_last: bool) -> Page:
        held.append(len(data))
        page: Page = split(data, start, is_last=is_last)
        return page

    monkeypatch.setattr(module, "split_page", measure)
    await read_all(b"x" * 10_000 + b"\n" + b"y" * 10_000)
    assert max(held) <= module.PAGE
