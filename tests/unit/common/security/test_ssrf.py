"""Which URLs may be called."""

import socket

import httpx
import pytest

from common.errors import AddressRefused, SettingsError
from common.security import ssrf
from common.security.ssrf import AddressPolicy, check_address, check_host, check_url
from tests.support.receivers.special_addresses import NOT_PUBLIC, ODD_LITERALS

PUBLIC = AddressPolicy()
LOOPBACK = AddressPolicy.parse(["127.0.0.0/8"], allow_http=True)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused, match="are not allowed"):
        check_address(address, PUBLIC)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_public_addresses_pass(address: str) -> None:
    check_address(address, PUBLIC)


def test_allowed_networks_override_the_table() -> None:
    check_address("127.0.0.1", LOOPBACK)
    with pytest.raises(AddressRefused):
        check_address("10.0.0.1", LOOPBACK)


def test_an_allowed_wrapper_does_not_let_through_what_it_wraps() -> None:
    nat64 = AddressPolicy.parse(["64:ff9b::/96", "2002::/16", "2001::/32"], allow_http=False)
    check_address("64:ff9b::8.8.8.8", nat64)
    for address in ("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001:0:808:808:0:0:5601:5601"):
        with pytest.raises(AddressRefused, match=r"169\.254\.169\.254"):
            check_address(address, nat64)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook?a=b",
        "https://example.com:8443",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://bücher.example/",
        "HTTPS://Example.com/",
    ],
)
def test_ordinary_urls_pass(url: str) -> None:
    check_url(url, PUBLIC)


def test_allowed_schemes_are_named() -> None:
    with pytest.raises(AddressRefused, match="must start with https:// or http://"):
        check_url("ftp://example.com/", LOOPBACK)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.com/", "https://"),
        ("ftp://example.com/", "https://"),
        ("//example.com/", "https://"),
        ("", "https://"),
        ("https://", "host"),
        ("https:///path", "host"),
        ("https://user@example.com/", "user name"),
        ("https://user:password@example.com/", "user name"),
        ("https://@example.com/", "user name"),
        ("https://example.com/#part", "fragment"),
        ("https://example.com/#", "fragment"),
        ("https://example.com/a b", "spaces"),
        ("https://example.com/\n", "spaces"),
        ("https://example.com\\@10.0.0.1/", "backslashes"),
        ("https://example.com/\u2028", None),
        ("https://example.com:0/", "port 0"),
        ("https://example.com:22/", "port 22"),
        ("https://example.com:5432/", "port 5432"),
        ("https://example.com:99999/", "not a URL"),
        ("https://example.com:x/", "not a URL"),
        ("https://[::1/", "not a URL"),
        ("https://%31%32%37.0.0.1/", "plain host"),
        ("https://127.0.0.1/", "loopback"),
        ("https://127.0.0.1./", "loopback"),
        ("https://2130706433/", "loopback"),
        ("https://0x7f000001/", "loopback"),
        ("https://0x7f.0.0.1/", "loopback"),
        ("https://0177.0.0.1/", "loopback"),
        ("https://127.1/", "loopback"),
        ("https://0/", "unspecified"),
        ("https://[::1]/", "loopback"),
        ("https://[::ffff:169.254.169.254]/", "link-local"),
        ("https://169.254.169.254/latest/meta-data/", "link-local"),
        ("https://example.com/" + "a" * 2048, "2048"),
    ],
)
def test_urls_are_refused_with_a_reason(url: str, reason: str | None) -> None:
    if reason is None:  # a line separator is data in a path, not a way around the check
        check_url(url, PUBLIC)
        return
    with pytest.raises(AddressRefused, match=reason):
        check_url(url, PUBLIC)


@pytest.mark.parametrize("host", [*(f"[{each}]" if ":" in each else each for each in NOT_PUBLIC), *ODD_LITERALS])
def test_every_spelling_of_a_forbidden_address_is_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(f"https://{host}/hook", PUBLIC)


def test_plain_http_and_loopback_can_be_allowed() -> None:
    check_url("http://127.0.0.1:22901/", LOOPBACK)
    check_url("http://localhost:22901/", LOOPBACK)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "127.1",
        "0x7f000001",
        "017700000001",
        "127.0.0.1.",
        "１２７.0.0.1",
        "ⓛocalhost",
        "local\u00adhost",
        "☃.example",
        "[v1.localhost]",
        ".",
        "a..b",
        "xn--",
        "-a",
        "a" * 64,
    ],
)
def test_a_host_that_no_connection_can_be_made_to_is_refused_though_its_network_is_allowed(host: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(f"http://{host}:22901/", LOOPBACK)


@pytest.mark.parametrize(
    "host", ["example.com", "example.com.", "a-b.c_d.example", "bücher.example", "x" * 63 + ".example"]
)
def test_a_name_is_a_name(host: str) -> None:
    check_url(f"https://{host}/", AddressPolicy())


def test_a_wrong_network_names_the_variable() -> None:
    with pytest.raises(SettingsError, match="CHARONIA_WEBHOOK_NETWORKS"):
        AddressPolicy.parse(["127.0.0.1/8"], allow_http=False)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What look-ups answer; none for a name that does not exist."""
    found: list[str] = []

    async def resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        if found == ["down"]:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return [(socket.AF_INET, address) for address in found]

    monkeypatch.setattr(ssrf, "resolve", resolve)
    return found


async def test_every_address_of_a_host_is_checked(answers: list[str]) -> None:
    answers[:] = ["8.8.8.8", "1.1.1.1"]
    await check_host("https://example.com/", PUBLIC)
    answers.append("10.0.0.1")
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
        await check_host("https://example.com/", PUBLIC)


async def test_a_host_without_addresses_is_refused(answers: list[str]) -> None:
    with pytest.raises(AddressRefused, match="has no address"):
        await check_host("https://nosuch.example/", PUBLIC)


async def test_the_name_that_is_looked_up_is_the_one_that_is_sent_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
        asked.append(host)
        return [(socket.AF_INET, "8.8.8.8")]

    monkeypatch.setattr(ssrf, "resolve", resolve)
    await check_host("https://Faß.example/", PUBLIC)
    assert asked == ["xn--fa-hia.example"] == [httpx.URL("https://Faß.example/").raw_host.decode()]


async def test_a_look_up_that_fails_for_now_is_not_the_clients_fault(answers: list[str]) -> None:
    answers[:] = ["down"]
    await check_host("https://example.com/", PUBLIC)
