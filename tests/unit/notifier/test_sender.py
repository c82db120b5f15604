"""What a span says of the receiver."""

import pytest

from services.notifier.sender import describe


@pytest.mark.parametrize(
    ("url", "host", "port", "full"),
    [
        ("https://hooks.example.com/T00/B00/s3cret", "hooks.example.com", 443, "https://hooks.example.com/REDACTED"),
        ("http://u:s3cret@[::1]:8080/a?key=s3cret#s3cret", "::1", 8080, "http://[::1]:8080/REDACTED"),
    ],
)
def test_of_a_url_only_the_host_is_told(url: str, host: str, port: int, full: str) -> None:
    told = {"http.request.method": "POST", "server.address": host, "server.port": port, "url.full": full}
    assert describe(url) == told


def test_of_a_url_that_is_none_nothing_is_told() -> None:
    assert describe("https://[s3cret/x") == {"http.request.method": "POST"}
