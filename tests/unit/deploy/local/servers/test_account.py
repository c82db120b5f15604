"""The account for Triton, and what other users can read."""

import os
import pwd
from pathlib import Path

import pytest

from deploy.local.servers import account as module
from deploy.local.servers import shown_folders
from deploy.local.servers.account import FIRST_NUMBER, NumberedAccount, find_closed, open_to_others
from deploy.local.servers.shown_folders import find_unreadable, show_folders


def test_root_takes_a_number_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "_is_taken", lambda number: number in (FIRST_NUMBER, FIRST_NUMBER + 1))
    account, number = NumberedAccount.for_triton(), str(FIRST_NUMBER + 2)
    assert account.options == ["--reuid", number, "--regid", number, "--clear-groups", "--no-new-privs"]


def test_a_number_is_taken_by_a_user_or_a_group() -> None:
    own = pwd.getpwuid(0)
    assert module._is_taken(own.pw_uid)
    assert not module._is_taken(2**31 - 7)


def test_others_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert NumberedAccount.for_triton().options == []


def test_a_folder_is_opened_with_all_that_is_in_it(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    (folder / "inner").mkdir(parents=True)
    for file in (folder / "inner" / "data", folder / "program", outside):
        file.touch()
        file.chmod(0o600)
    (folder / "program").chmod(0o700)
    (folder / "link").symlink_to(outside)
    (folder / "inner").chmod(0o700)
    folder.chmod(0o700)
    assert find_closed(folder / "program") is not None
    open_to_others(folder)
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes.pop("folder/link") == modes.pop("outside") == 0o600
    assert modes == {"folder": 0o755, "folder/inner": 0o755, "folder/inner/data": 0o644, "folder/program": 0o755}


def test_the_first_file_that_others_cannot_read_is_found_through_links_that_may_lead_in_a_circle(
    tmp_path: Path,
) -> None:
    model, weights = tmp_path / "model", tmp_path / "weights"
    (model / "1").mkdir(parents=True)
    (model / "1" / "again").symlink_to(model)
    (model / "1" / "nowhere").symlink_to(tmp_path / "nowhere")
    weights.touch()
    (model / "1" / "weights").symlink_to(weights)
    open_to_others(model)
    weights.chmod(0o644)
    assert find_unreadable(model) is None
    assert find_unreadable(tmp_path / "none") is None
    weights.chmod(0o640)
    assert find_unreadable(model) == weights
    (model / "1").chmod(0o754)
    assert find_unreadable(model) == model / "1"


def test_what_is_open_needs_no_mounts(tmp_path: Path) -> None:
    assert show_folders([Path("/usr"), Path("/nowhere")], tmp_path, tmp_path) == []


def test_the_folder_with_the_mounts_is_hidden_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, other = tmp_path / "closed", tmp_path / "other"
    for folder in (closed / "models" / "inner", other / "models"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(shown_folders, "find_closed", lambda path: closed if path.is_relative_to(closed) else other)
    paths = [closed / "models" / "inner", closed / "models", other / "models"]
    script = show_folders(paths, closed, closed / "stages")[4].splitlines()
    moves = [line.split()[-1] for line in script if line.startswith("mount --move")]
    shown = [line.split()[2:] for line in script if line.startswith("mount --rbind")]
    assert moves == [str(other), str(closed)]
    assert shown == [
        [str(other / "models"), str(closed / "stages" / "0" / "models")],
        [str(closed / "models"), str(closed / "stages" / "1" / "models")],
    ]
