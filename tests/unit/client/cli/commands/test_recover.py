"""`charonia recover` waits for the end of a recovery, and leaves it running if it stops waiting."""

from datetime import UTC, datetime
from types import SimpleNamespace

import msgspec
import pytest
from charonia.admin_schemas import Recovery
from charonia.cli.commands import deliveries
from charonia.cli.exits import WaitEnded
from charonia.cli.session import Session
from charonia.errors import ConnectionFailed

NOW = datetime(2026, 12, 1, tzinfo=UTC)
RUNNING = Recovery(
    id="rec_1", webhook_id="whk_1", since=NOW, until=NOW, status="processing", recovered=0, created_at=NOW
)
HALF = msgspec.structs.replace(RUNNING, recovered=500)
DONE = msgspec.structs.replace(RUNNING, recovered=1200, status="completed")


class Webhooks:
    """Answers with these states in turn, the last one again and again, or raises them."""

    def __init__(self, *states: Recovery | type[BaseException]) -> None:
        self._states = list(states)

    def recover(self, webhook_id: str, *, since: datetime, until: datetime | None) -> Recovery:
        assert (webhook_id, until) == ("whk_1", None)
        assert since < datetime.now(UTC)
        return RUNNING

    def get_recovery(self, _webhook_id: str, recovery_id: str) -> Recovery:
        assert recovery_id == "rec_1"
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if isinstance(state, Recovery):
            return state
        raise state


def make_session(*states: Recovery | type[BaseException]) -> Session:
    session = Session(None, as_json=False)
    session.__dict__["client"] = SimpleNamespace(webhooks=Webhooks(*states))
    return session


@pytest.fixture(autouse=True)
def polls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "POLL_SECONDS", 0.0)


def test_the_end_is_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    deliveries.recover(make_session(HALF, HALF, DONE), "whk_1", "2h")
    assert capsys.readouterr() == ("queued 1,200 deliveries of whk_1 again\n", "")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ConnectionFailed])
def test_a_recovery_goes_on_when_nobody_waits(stop: type[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(stop):
        deliveries.recover(make_session(HALF, stop), "whk_1", "2h")
    found = capsys.readouterr()
    assert found.out == ""
    assert "the recovery goes on; look at it: charonia deliveries --webhook whk_1" in found.err


def test_a_wait_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "POLL_SECONDS", 0.1)
    with pytest.raises(WaitEnded, match="500 deliveries of whk_1"):
        deliveries.recover(make_session(HALF), "whk_1", "2h", timeout=1.0)
