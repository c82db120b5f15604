"""Which address `--open` opens, and when it opens none."""

import sys
import webbrowser

import pytest
from charonia.cli.session import Session
from charonia.cli.terminal import browser

URL = "https://charonia.example.com"
PAGE = f"{URL}/console/jobs"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were opened, on a desktop."""
    addresses: list[str] = []

    def open_address(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", open_address)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("DISPLAY", ":0")
    return addresses


@pytest.mark.parametrize(
    ("url", "query", "expected"),
    [
        (URL, {}, PAGE),
        (f"{URL}/", {"status": None, "model": ""}, PAGE),
        (URL, {"status": "failed", "model": "a b&c"}, f"{PAGE}?status=failed&model=a+b%26c"),
    ],
)
def test_the_address_of_a_page(url: str, query: dict[str, str | None], expected: str) -> None:
    assert browser.make_address(url, "/jobs", query) == expected


def test_a_desktop_opens_a_page(opened: list[str]) -> None:
    assert browser.open_browser(PAGE)
    assert opened == [PAGE]


def test_nothing_opens_in_a_pipe(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert not browser.open_browser(PAGE)
    assert opened == []


def test_nothing_opens_without_a_display(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in browser.DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    assert not browser.open_browser(PAGE)
    assert opened == []


def test_a_browser_that_does_not_start_is_no_error(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_address: str) -> bool:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "open", fail)
    assert not browser.open_browser(PAGE)
    assert opened == []


def test_only_the_option_opens_a_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARONIA_URL", URL)
    monkeypatch.setenv("CHARONIA_KEY", "ch_x")
    for opens in (False, True):
        with Session(None, as_json=True, opens=opens) as session:
            session.open_page("/jobs")
    assert capsys.readouterr() == ("", f"{PAGE}\n")
