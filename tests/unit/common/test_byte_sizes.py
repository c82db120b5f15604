"""Sizes are read as people write them."""

import pytest

from common.byte_sizes import MAX_BYTES, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("800000000", 800_000_000),
        ("800 MB", 800_000_000),
        ("1.5GiB", 3 * 2**29),
        (" 2 KiB ", 2048),
        ("3kB", 3000),
        ("1024 TiB", MAX_BYTES),
    ],
)
def test_a_size_has_a_unit_or_none(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9", "GiB", "1 gib", "1,5 GiB", "0.1 B", "2000 TiB", "١", "1" * 30])
def test_anything_else_is_no_size(text: str) -> None:
    assert parse_bytes(text) is None
