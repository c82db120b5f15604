"""Jobs on the command line: run, submit, watch, list, change."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.model_inputs import LINES
from tests.support.command_line import CommandLine

IMAGE = ROOT / "deploy" / "local" / "demo.png"


def test_an_image_becomes_text_on_a_terminal(charonia: CommandLine) -> None:
    with charonia.on_terminal("run", "ocr", f"image=@{IMAGE}") as terminal:
        assert terminal.wait() == 0
        for line in LINES:
            assert line in terminal.text
        assert "succeeded in" in terminal.text


def test_a_pipe_gets_one_json_object(charonia: CommandLine) -> None:
    (found,) = charonia.read("run", "echo", "x=[1, 2]")
    assert (found["status"], found["outputs"]) == ("succeeded", {"y": [[2.0, 4.0]]})
    (image,) = charonia.read("run", "ocr", f"image=@{IMAGE}", "--priority=high", "--metadata=order=7")
    assert image["outputs"]["text"] == LINES
    (job,) = charonia.read("job", image["id"])
    assert (job["priority"], job["metadata"]) == ("high", {"order": 7})
    assert [each["id"] for each in charonia.read("jobs")] == [image["id"], found["id"]]
    heads = charonia.run("jobs", "--no-json").stdout.splitlines()[0].split()
    assert heads == ["ID", "STATUS", "MODEL", "AGE", "WAITED", "RAN"]


def test_text_comes_alone(charonia: CommandLine, tmp_path: Path) -> None:
    shutil.copy(IMAGE, tmp_path / "scan.png")
    assert charonia.run("run", "ocr", "image=@scan.png", "--text").stdout.splitlines() == LINES
    assert charonia.run("run", "tokens", "text=@@one two", "--text").stdout == "@one two\n"
    assert charonia.run("run", "tokens", "text=@-", "--text", stdin="one").stdout == "one\n"


def test_outputs_are_saved(charonia: CommandLine, tmp_path: Path) -> None:
    assert charonia.run("run", "ocr", f"image=@{IMAGE}", "--output", "out").returncode == 0
    assert (tmp_path / "out" / "text.txt").read_text().splitlines() == LINES
    assert len(json.loads((tmp_path / "out" / "boxes.json").read_text())) == len(LINES)


def test_tokens_come_one_by_one(charonia: CommandLine) -> None:
    with charonia.on_terminal("run", "tokens", "text=one two", "delay_ms=3000") as terminal:
        terminal.wait_for("one")
        assert "two" not in terminal.text
        assert terminal.wait() == 0
        assert "one two\n" in terminal.text


def test_ctrl_c_leaves_the_job_running(charonia: CommandLine) -> None:
    with charonia.on_terminal("run", "work", "ms=60000") as terminal:
        terminal.wait_for("processing")
        terminal.interrupt()
        assert terminal.wait() == 130
        assert "goes on. Watch it: charonia watch job_" in terminal.text
    (job,) = charonia.read("jobs")
    assert job["status"] == "processing"
    charonia.read("cancel", job["id"])


def test_a_waiting_job_says_why(charonia: CommandLine) -> None:
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    with charonia.on_terminal("run", "work", "ms=1", "--set", f"run_at={later}") as terminal:
        terminal.wait_for("scheduled for")
        terminal.interrupt()
        assert terminal.wait() == 130
    (job,) = charonia.read("jobs", "--status=queued", "--model=work")
    assert "waits for" in charonia.run("job", job["id"], "--no-json").stdout
    (canceled,) = charonia.read("cancel", job["id"])
    assert canceled["status"] == "canceled"
    found = charonia.run("watch", job["id"])
    assert (found.returncode, found.stdout) == (1, "")
    assert "canceled" in found.stderr


def test_a_job_is_submitted_watched_retried_and_erased(charonia: CommandLine) -> None:
    submitted = charonia.run("submit", "faulty", "mode=invalid", "--no-json", "--idempotency-key=a")
    job_id = submitted.stdout.strip()
    assert charonia.run("submit", "faulty", "mode=invalid", "--no-json", "--idempotency-key=a").stdout.strip() == job_id
    failed = charonia.run("watch", job_id)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "invalid as asked (invalid_input" in failed.stderr
    assert "invalid_input: " in charonia.run("job", job_id, "--no-json").stdout
    (again,) = charonia.read("retry", job_id)
    assert again["id"] == job_id
    assert charonia.run("watch", job_id).returncode == 1
    refused = charonia.run("erase", job_id)
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    charonia.read("erase", job_id, "--yes")
    (trace,) = charonia.read("job", job_id, "--trace")
    assert trace["spans"][0]["name"] == "job faulty"


def test_one_of_several_is_refused(charonia: CommandLine) -> None:
    (job,) = charonia.read("run", "echo", "x=1")
    (waiting,) = charonia.read("submit", "work", "ms=60000")
    found = charonia.run("cancel", job["id"], "job_unknown", waiting["id"])
    assert found.returncode == 4
    assert [json.loads(line)["id"] for line in found.stdout.splitlines()] == [waiting["id"]]
    assert found.stderr.count("charonia") == 0
    assert len(found.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["run", "echo", "x"], 2, "write NAME=VALUE"),
        (["run", "echo", "x=one"], 2, "no number and no JSON"),
        (["run", "echo", "x:=[1"], 2, "no number and no JSON"),
        (["run", "echo", "x=1", "x=2"], 2, "given twice"),
        (["run", "echo", "y=1"], 2, "the model has no input 'y'"),
        (["run", "ocr", "image=@missing.png"], 2, "there is no file 'missing.png'"),
        (["run", "echo", "x=1", "--set", "expires=1"], 2, "there is no field 'expires'"),
        (["run", "echo", "x=1", "--set", "expires_in=-1"], 4, "expires_in"),
        (["run", "nothing", "x=1"], 4, "not_found"),
        (["run", "echo", "x=1", "--priority=urgent"], 2, "urgent"),
        (["jobs", "--since", "yesterday"], 2, "write an age such as 15m"),
        (["run", "faulty", "mode=invalid"], 1, "invalid as asked"),
        (["run", "work", "ms=60000", "--timeout=0.5", "--set=timeout=6", "--set=retry.max_attempts=1"], 6, "0.5 s"),
        (["jobs", "--profile", "other"], 2, "there is no profile 'other'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value)[:20],
)
def test_mistakes_have_codes_and_say_what_to_do(
    charonia: CommandLine, arguments: list[str], code: int, text: str
) -> None:
    found = charonia.run(*arguments)
    assert (found.returncode, found.stdout) == (code, "")
    assert text in " ".join(found.stderr.replace("│", " ").split())


def test_a_question_can_be_left_or_answered_with_no(charonia: CommandLine) -> None:
    for answer, text in (("n\n", "the answer was no"), ("\x04", "no answer")):
        with charonia.on_terminal("erase", "job_unknown") as terminal:
            terminal.wait_for("for good?")
            terminal.type(answer)
            assert terminal.wait() == 2
            assert text in terminal.text
            assert "Traceback" not in terminal.text


def test_a_question_can_be_interrupted(charonia: CommandLine) -> None:
    with charonia.on_terminal("erase", "job_unknown") as terminal:
        terminal.wait_for("for good?")
        assert terminal.interrupt_until_end() == 130
        assert "Traceback" not in terminal.text


def test_an_error_while_a_job_runs_keeps_its_id(charonia: CommandLine) -> None:
    found = charonia.run("run", "work", "ms=60000", "--timeout=3")
    (job,) = charonia.read("jobs")
    charonia.read("cancel", job["id"])
    assert (found.returncode, f"charonia watch {job['id']}. Cancel it" in found.stderr) == (6, True)


def test_a_wrong_key_has_a_code(stack: Stack, tmp_path: Path) -> None:
    wrong = CommandLine(stack, "ch_wrong", tmp_path).run("jobs")
    assert (wrong.returncode, "Set another key" in wrong.stderr) == (4, True)


def test_colors_can_be_turned_off(charonia: CommandLine) -> None:
    charonia.read("run", "echo", "x=1")
    with charonia.on_terminal("jobs") as terminal:
        assert terminal.wait() == 0
        assert "\x1b[32m" in terminal.raw
    with charonia.on_terminal("jobs", NO_COLOR="1") as terminal:
        assert terminal.wait() == 0
        assert "\x1b[32m" not in terminal.raw
