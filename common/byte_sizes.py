"""Sizes in bytes, as people write them. Pure."""

import re

SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?")
UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
MAX_BYTES = 2**50
EXPECTED = "a number of bytes such as 800000000, 800 MB or 1.5 GiB"


def parse_bytes(text: str) -> int | None:
    """Return the bytes in a text such as `1.5 GiB`. None: it is no size from 1 to MAX_BYTES. See EXPECTED."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = round(float(match[1]) * UNITS[match[2] or "B"])
    return size if 1 <= size <= MAX_BYTES else None
