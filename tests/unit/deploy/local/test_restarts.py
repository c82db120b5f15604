"""Who asks for a restart waits for it, and a change of code is seen once."""

import os
import threading
import time
from pathlib import Path

import pytest

from deploy.local import restarts
from deploy.local.errors import NotReady
from deploy.local.restarts import SCHEMA, SOURCES, Requests, SourceWatch

DEADLINE = 10.0


def test_a_request_lasts_until_it_is_done(tmp_path: Path) -> None:
    requests = Requests(tmp_path)
    asking = threading.Thread(target=requests.ask, args=["gateway"])
    asking.start()
    deadline = time.monotonic() + DEADLINE
    while not requests.take() and time.monotonic() < deadline:
        asking.join(0.01)
    assert (requests.take(), asking.is_alive()) == (["gateway"], True)
    requests.note_done("gateway")
    asking.join(DEADLINE)
    assert (requests.take(), asking.is_alive()) == ([], False)


def test_who_asked_is_told_what_failed(tmp_path: Path) -> None:
    requests, told = Requests(tmp_path), list[str]()

    def ask() -> None:
        with pytest.raises(NotReady) as found:
            requests.ask("gateway")
        told.append(str(found.value))

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + DEADLINE
    while not requests.take() and time.monotonic() < deadline:
        asking.join(0.01)
    requests.note_failed("notifier", "nobody asked for it")
    requests.note_failed("gateway", "gateway ended with code 1")
    assert requests.take() == []
    asking.join(DEADLINE)
    assert told == ["gateway ended with code 1"]
    assert not any((tmp_path / "restarts").iterdir())


def test_a_failure_that_nobody_read_is_no_answer_to_the_next(tmp_path: Path) -> None:
    requests = Requests(tmp_path)
    folder = tmp_path / "restarts"
    folder.mkdir()
    (folder / "gateway").write_text("an old failure")
    asking = threading.Thread(target=requests.ask, args=["gateway"])
    asking.start()
    deadline = time.monotonic() + DEADLINE
    while not requests.take() and time.monotonic() < deadline:
        asking.join(0.01)
    assert (requests.take(), asking.is_alive()) == (["gateway"], True)
    requests.note_done("gateway")
    asking.join(DEADLINE)
    (folder / "gateway").write_text("another")
    requests.clear()
    assert not any(folder.iterdir())


def test_a_request_that_ends_meanwhile_is_none(tmp_path: Path) -> None:
    """Who asked removes the file between the listing of the folder and the look at its size."""
    (tmp_path / "restarts").mkdir()
    (tmp_path / "restarts" / "gateway").symlink_to("nowhere")
    assert Requests(tmp_path).take() == []


def test_a_request_that_nobody_does_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "ASKED_SECONDS", 0.0)
    requests = Requests(tmp_path)
    with pytest.raises(NotReady, match="gateway is not ready"):
        requests.ask("gateway")
    requests.clear()
    assert requests.take() == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in {folder for folders in SOURCES.values() for folder in folders}:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "old.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("file", "kinds"),
    [
        ("services/gateway/old.py", ["gateway"]),
        ("services/notifier/new.sql", ["notifier"]),
        ("common/jobs/new.py", ["gateway", "dispatcher", "notifier"]),
        ("console/page.html", ["gateway"]),
        ("services/gateway/notes.txt", []),
        ("docs/index.md", []),
    ],
)
def test_a_change_restarts_the_services_that_run_it(root: Path, file: str, kinds: list[str]) -> None:
    watch = SourceWatch(root)
    assert watch.find_changed() == []
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text("new")
    os.utime(root / file, ns=(2**62, 2**62))
    assert watch.find_changed() == kinds
    assert watch.find_changed() == []


def test_a_removed_file_is_a_change(root: Path) -> None:
    watch = SourceWatch(root)
    (root / "services/dispatcher/old.py").unlink()
    assert watch.find_changed() == ["dispatcher"]


def test_a_new_migration_is_seen(root: Path) -> None:
    (root / "common" / "postgres" / "migrations").mkdir(parents=True)
    watch = SourceWatch(root, SCHEMA)
    (root / "common" / "old.py").write_text("changed")
    assert watch.find_changed() == []
    (root / "common" / "postgres" / "migrations" / "0002_note.sql").touch()
    assert watch.find_changed() == ["schema"]
