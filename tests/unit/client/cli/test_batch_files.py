"""What `charonia batch` may write over, and what it tells of a run."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from charonia.cli.arguments import InvalidArgument
from charonia.cli.batch.files import close_files, open_files
from charonia.cli.batch.results import ResultFile, make_refusal
from charonia.cli.commands.batch import explain_end, explain_restart, report
from charonia.cli.session import Session
from charonia.schemas import Failure
from typer import Exit

RESULT = {"index": 0, "custom_id": None, "job": None, "status": "refused", "outputs": None, "error": None}


def open_and_close(folder: Path, *, restart: bool = True) -> None:
    (folder / "items.jsonl").touch()
    close_files(*open_files(folder / "items.jsonl", folder / "results.jsonl", restart=restart))


@pytest.mark.parametrize("text", ["my notes\n", '{"index": 1}\n', "\n"])
@pytest.mark.parametrize("restart", [True, False])
def test_a_file_without_results_is_kept(tmp_path: Path, text: str, restart: bool) -> None:
    (tmp_path / "results.jsonl").write_text(text)
    with pytest.raises(InvalidArgument, match="has no results of a batch; name another file"):
        open_and_close(tmp_path, restart=restart)
    assert (tmp_path / "results.jsonl").read_text() == text
    assert not (tmp_path / "results.jsonl.progress").exists()


@pytest.mark.parametrize("text", [f"{json.dumps(RESULT)}\n", ""])
def test_results_are_deleted_if_a_run_begins_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.jsonl").write_text(text)
    open_and_close(tmp_path)
    assert (tmp_path / "results.jsonl").read_text() == ""


def test_a_run_of_a_later_version_can_begin_anew(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text(f"{json.dumps(RESULT)}\n")
    (tmp_path / "results.jsonl.progress").write_text('{"is":"begin","later":1}\n')
    with (
        pytest.raises(InvalidArgument, match="with that version, or begin anew with --restart"),
        explain_restart(),
    ):
        open_and_close(tmp_path, restart=False)
    open_and_close(tmp_path)
    assert (tmp_path / "results.jsonl.progress").read_text() == ""


def test_results_do_not_go_to_standard_output(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the results go to a file"):
        open_files(tmp_path / "items.jsonl", Path("-"), restart=False)


@pytest.mark.parametrize("is_read_again", [False, True])
def test_the_first_failure_is_told(tmp_path: Path, is_read_again: bool, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.jsonl"
    results = ResultFile(path)
    for index in (2, 1):
        results.write(make_refusal(index, None, Failure("malformed_json", f"not JSON {index}")))
    results.close()
    if is_read_again:
        results = ResultFile(path)
        results.scan(3)
        results.close()
    with pytest.raises(Exit):
        report(Session(None, as_json=True), results, 1.0)
    told = capsys.readouterr().err
    assert told == f"item 2 refused: malformed_json: not JSON 2; all reasons are in {path}\n"


def test_the_end_of_a_run_says_how_to_cancel_its_jobs() -> None:
    run: Any = SimpleNamespace(batches=["batch_1", "batch_2"])
    assert explain_end(run).endswith("run the same command again. To cancel the jobs: charonia cancel batch_1 batch_2")
    run.batches = []
    assert "cancel" not in explain_end(run)
