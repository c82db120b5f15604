"""Range requests, as RFC 9110 has them."""

import pytest

from services.gateway.files.ranges import ByteRange, Unsatisfiable, read_range

ETAG = '"abc"'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-0", ByteRange(0, 1)),
        ("bytes=0-", ByteRange(0, 10)),
        ("bytes=3-5", ByteRange(3, 6)),
        ("Bytes = 3 - 500", ByteRange(3, 10)),
        ("bytes=-3", ByteRange(7, 10)),
        ("bytes=-30", ByteRange(0, 10)),
        ("bytes=9-", ByteRange(9, 10)),
        ("bytes=3-18446744073709551615", ByteRange(3, 10)),
        ("bytes=5-3", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
    ],
)
def test_a_range_is_read(header: str | None, expected: ByteRange | None) -> None:
    assert read_range(header, 10, ETAG, None) == expected


@pytest.mark.parametrize(
    ("header", "size"),
    [("bytes=10-", 10), ("bytes=10-20", 10), ("bytes=18446744073709551615-", 10), ("bytes=-0", 10), ("bytes=0-", 0)],
)
def test_a_range_after_the_end_is_refused(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        read_range(header, size, ETAG, None)


def test_a_range_of_another_content_is_ignored() -> None:
    assert read_range("bytes=0-0", 10, ETAG, ETAG) == ByteRange(0, 1)
    assert read_range("bytes=0-0", 10, ETAG, '"other"') is None
