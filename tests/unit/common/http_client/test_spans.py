"""The span attributes of a request."""

import pytest

from common.http_client.spans import describe_url


@pytest.mark.parametrize(
    ("url", "host", "port", "full"),
    [
        ("https://hooks.example.com/T00/B00/s3cret", "hooks.example.com", 443, "https://hooks.example.com/REDACTED"),
        ("http://u:s3cret@[::1]:8080/a?key=s3cret#s3cret", "::1", 8080, "http://[::1]:8080/REDACTED"),
    ],
)
def test_a_span_shows_only_the_host_of_a_url(url: str, host: str, port: int, full: str) -> None:
    shown = {"http.request.method": "POST", "server.address": host, "server.port": port, "url.full": full}
    assert describe_url("POST", url) == shown


def test_a_span_shows_nothing_of_an_invalid_url() -> None:
    assert describe_url("POST", "https://[s3cret/x") == {"http.request.method": "POST"}
