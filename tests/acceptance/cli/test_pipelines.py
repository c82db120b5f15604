"""Pipelines on the command line: store, check, list, show, run and delete."""

import json
from pathlib import Path

import pytest

from deploy.local.settings import ROOT
from tests.support.api.model_inputs import LINES
from tests.support.api.page_pipeline import COUNTS, DEFINITION, TOTAL
from tests.support.command_line import CommandLine

IMAGE = ROOT / "deploy" / "local" / "demo.png"


@pytest.fixture
def definition(tmp_path: Path) -> str:
    """A file with the definition."""
    (tmp_path / "page.json").write_text(json.dumps(DEFINITION))
    return "page.json"


def test_a_pipeline_is_stored_run_and_deleted(charonia: CommandLine, definition: str) -> None:
    assert "no pipelines" in charonia.tell("pipelines")
    told = charonia.tell("pipelines", "check", "page", definition)
    assert "image BYTES 1" in told
    assert "total INT32 1" in told
    told = charonia.tell("pipelines", "put", "page", definition)
    assert "run it: charonia run page image=…" in told
    assert "text=$read.text" in told
    (again,) = charonia.read("pipelines", "put", "page", "-", stdin=json.dumps(DEFINITION))
    assert again["version"] == "1"
    assert [each["name"] for each in charonia.read("pipelines")] == ["page"]
    assert "read, lines, page" in charonia.tell("pipelines", "list")
    (found,) = charonia.read("pipelines", "show", "page", "--version=1")
    assert (found["versions"], found["definition"]["outputs"]) == (["1"], DEFINITION["outputs"])
    (result,) = charonia.read("run", "page", f"image=@{IMAGE}")
    assert result["outputs"] == {"text": LINES, "counts": COUNTS, "total": TOTAL}
    nobody = charonia.run("pipelines", "delete", "page")
    assert (nobody.returncode, "add --yes" in nobody.stderr) == (2, True)
    assert charonia.read("pipelines", "delete", "page", "--yes") == [{"id": "page", "deleted": True}]
    assert charonia.run("pipelines", "show", "page").returncode == 4


def test_a_run_is_shown_with_its_steps(charonia: CommandLine, definition: str) -> None:
    charonia.read("pipelines", "put", "page", definition)
    with charonia.on_terminal("run", "page", f"image=@{IMAGE}") as terminal:
        assert terminal.wait() == 0
        assert LINES[0] in terminal.text
    (run,) = charonia.read("jobs")
    told = charonia.tell("job", run["id"])
    assert [line.split()[:5] for line in told.splitlines() if " of " in line and "succeeded" in line] == [
        ["read", "succeeded", "1", "of", "1"],
        ["lines", "succeeded", str(len(LINES)), "of", str(len(LINES))],
        ["page", "succeeded", "1", "of", "1"],
    ]
    jobs = charonia.read("jobs", "--parent", run["id"], "--step=lines")
    assert [each["model"] for each in jobs] == ["words"] * len(LINES)
    assert f"lines of the run {run['id']}" in charonia.tell("job", jobs[0]["id"])
    refused = charonia.run("cancel", jobs[0]["id"])
    assert (refused.returncode, run["id"] in refused.stderr) == (4, True)


def test_every_fault_is_said(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text(json.dumps(DEFINITION | {"outputs": {"a": "$read.txet", "b": "$judge.text"}}))
    for command in ("check", "put"):
        found = charonia.run("pipelines", command, "page", "wrong.json")
        assert found.returncode == 4
        assert "/outputs/a: " in found.stderr
        assert "/outputs/b: " in found.stderr
    (tmp_path / "broken.json").write_text("{")
    found = charonia.run("pipelines", "put", "page", "broken.json")
    assert (found.returncode, "broken.json: no JSON" in found.stderr) == (2, True)
    assert charonia.run("pipelines", "put", "page", "missing.json").returncode == 5
