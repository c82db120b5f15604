"""The scripts of the stack end as their containers need it, and say what is wrong in one line."""

import http.server
import runpy
import signal
from collections.abc import Iterator

import pytest

from tests.unit.deploy.compose.compose_files import COMPOSE, fill_in, read, read_environment

PRODUCTION = "compose.production.yaml"


@pytest.fixture
def handlers() -> Iterator[None]:
    """Set the process's own handler of SIGTERM again after the test."""
    own = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, own)


@pytest.mark.usefixtures("handlers")
def test_the_receiver_ends_at_once_when_its_container_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        def __init__(self, *_: object) -> None:
            pass

        def serve_forever(self) -> None:
            assert callable(signal.getsignal(signal.SIGTERM))
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(http.server, "ThreadingHTTPServer", Server)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(COMPOSE / "receiver.py"), run_name="__main__")
    assert not ended.value.code


def test_the_smoke_test_asks_for_a_receiver_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = read()["services"]["smoke"]["environment"] | read_environment("smoke", PRODUCTION)
    for name, value in environment.items():
        monkeypatch.setenv(name, fill_in(value))
    with pytest.raises(SystemExit, match=r"^error: RECEIVER_URL is not set, and production has no receiver of its own"):
        runpy.run_path(str(COMPOSE / "smoke.py"), run_name="__main__")
