"""`charonia dead-letters replay` says what it asks about, and which jobs it replayed."""

from types import SimpleNamespace

import pytest
from charonia.cli.arguments import InvalidArgument
from charonia.cli.commands import dead_letters
from charonia.cli.session import Session
from charonia.schemas import Failure
from msgspec.structs import replace

from tests.support.api.client_jobs import make_succeeded

FOUND = [
    replace(make_succeeded([]), id=f"job_{number}", model=model, status="failed", error=Failure(code, "why"))
    for number, (model, code) in enumerate([("ocr", "timeout"), ("echo", "model_error"), ("ocr", "timeout")])
]


def make_session() -> Session:
    session = Session(None, as_json=False)
    letters = SimpleNamespace(
        list=lambda **_: iter(FOUND), replay=lambda *, ids, target_model: SimpleNamespace(replayed=ids, skipped=[])
    )
    session.__dict__["client"] = SimpleNamespace(dead_letters=letters)
    return session


def test_the_question_says_which_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidArgument, match=r"Replay 3 jobs\?"):
        dead_letters.replay(make_session(), everything=True)
    assert capsys.readouterr().err.splitlines() == ["2 jobs of ocr: timeout", "1 job of echo: model_error"]


def test_replayed_jobs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    dead_letters.replay(make_session(), everything=True, yes=True)
    assert capsys.readouterr() == ("job_0 replayed\njob_1 replayed\njob_2 replayed\n", "replayed 3 jobs\n")
