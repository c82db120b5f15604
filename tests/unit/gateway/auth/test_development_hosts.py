"""The development key is for names that no stranger's site can have."""

import pytest

from services.gateway.auth.development_hosts import is_safe_host

PUBLIC = "https://charonia.example.com/api"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "gateway",
        "gateway:8080",
        "127.0.0.1:8080",
        "192.168.1.7",
        "[::1]:8080",
        "a.localhost:1",
        "host.docker.internal:8080",
        "charonia.example.com",
        "charonia.example.com:443",
        "LOCALHOST",
        "localhost.",
    ],
)
def test_addresses_and_local_names_are_safe(host: str) -> None:
    assert is_safe_host(host, PUBLIC)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        ":8080",
        "evil.example",
        "evil.example:8080",
        "evil.example.",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "x.charonia.example.com",
        "[evil.example]",
        "a@evil.example",
    ],
)
def test_domains_of_others_are_not(host: str | None) -> None:
    assert not is_safe_host(host, PUBLIC)


def test_without_a_public_url_only_local_names_are_safe() -> None:
    assert not is_safe_host("", "")
    assert not is_safe_host("charonia.example.com", "")
    assert is_safe_host("localhost:8080", "")
