"""The `Prefer` header."""

import pytest

from services.gateway.http.negotiation import read_wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("wait=10", 10),
        ("Wait = 10", 10),
        ('respond-async, wait="7"', 7),
        ("handling=lenient; wait=5", 5),
        ("wait=3, wait=9", 3),
        ("respond-async,wait=4", 4),
        ("wait=61", 60),
        ("wait=999999999", 60),
        ("wait=9999999999", 0),
        ("wait=-1", 0),
        ("wait=1.5", 0),
        ("wait=soon", 0),
        ("wait", 0),
        ("await=4", 0),
    ],
)
def test_the_wait_that_a_client_prefers(header: str | None, seconds: int) -> None:
    assert read_wait(header) == seconds
