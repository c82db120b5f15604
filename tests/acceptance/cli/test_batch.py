"""Many items on the command line: whatever ends the command, each item runs once and has one line."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.model_inputs import LINES
from tests.support.batch_command import RESULTS, count_lines, read_results, wait_until
from tests.support.command_line import ARGV, CommandLine
from tests.support.stacks.key_command import make_key, revoke_key, run_keys_here

IMAGE = ROOT / "deploy" / "local" / "demo.png"
PROGRESS = f"{RESULTS}.progress"


def write_items(folder: Path, *items: Any) -> None:
    """Write items, and lines that are text as they are."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in items]
    (folder / "items.jsonl").write_text("".join(f"{line}\n" for line in lines))


def make_command(model: str, *options: str) -> list[str]:
    return ["batch", model, "items.jsonl", "-o", RESULTS, *options]


def kill_at(charonia: CommandLine, folder: Path, lines: int, *command: str) -> None:
    """Start a command, and kill it once the file of results has this many lines."""
    process = charonia.start(*command)
    wait_until(lambda: count_lines(folder / RESULTS) >= lines)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)


def count_jobs(charonia: CommandLine) -> set[str]:
    return {job["id"] for job in charonia.read("jobs", "--limit", "0")}


def test_each_item_gets_its_line(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, 1, [2], {"x": 3}, "", {"inputs": {"x": 4}, "custom_id": "four"})
    (summary,) = charonia.read(*make_command("echo", "--priority=high", "--metadata=order=7"))
    assert (summary["items"], summary["failed"], summary["results"]) == (4, 0, RESULTS)
    lines = read_results(tmp_path)
    assert [line["outputs"] for line in lines] == [{"y": [[2.0 * number]]} for number in (1, 2, 3, 4)]
    assert [line["custom_id"] for line in lines] == [None, None, None, "four"]
    assert {(line["status"], line["error"]) for line in lines} == {("succeeded", None)}
    (job,) = charonia.read("job", lines[0]["job"])
    assert (job["priority"], job["metadata"]) == ("high", {"order": 7})
    assert not (tmp_path / PROGRESS).exists()


def test_a_command_that_is_killed_goes_on(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, *({"ms": 40} for _ in range(60)))
    command = make_command("work", "--concurrency=24")
    kill_at(charonia, tmp_path, 1, *command)
    with (tmp_path / RESULTS).open("a") as file:
        file.write('{"index": 59, "status": "succ')  # as if killed while it wrote
    kill_at(charonia, tmp_path, 30, *command)
    (summary,) = charonia.read(*command)
    assert (summary["items"], summary["failed"]) == (60, 0)
    lines = read_results(tmp_path)
    assert len(lines) == 60
    assert {line["job"] for line in lines} == count_jobs(charonia)
    again = charonia.run(*command)
    assert (again.returncode, "--restart" in again.stderr) == (2, True)


@pytest.mark.parametrize("lost", ["answer", "results"])
def test_what_the_command_did_not_write_down_is_not_submitted_again(
    charonia: CommandLine, tmp_path: Path, lost: str
) -> None:
    write_items(tmp_path, *({"ms": 250} for _ in range(24)), "oops")
    command = make_command("work", "--concurrency=12")
    kill_at(charonia, tmp_path, 1, *command)
    if lost == "answer":
        records = (tmp_path / PROGRESS).read_text().splitlines(keepends=True)
        # The last record is the answer for a chunk, or the plan of one whose answer the kill has lost.
        torn = records.pop()[:20] if '"submitted"' in records[-1] else ""
        (tmp_path / PROGRESS).write_text("".join(records) + torn)
        first = json.loads(records[-1])["first"]
        kept = [line for line in (tmp_path / RESULTS).read_text().splitlines() if json.loads(line)["index"] < first]
        (tmp_path / RESULTS).write_text("".join(f"{line}\n" for line in kept))
    else:
        (tmp_path / RESULTS).unlink()
    assert charonia.run(*command).returncode == 1
    lines = read_results(tmp_path)
    assert [line["status"] for line in lines] == ["succeeded"] * 24 + ["refused"]
    assert {line["job"] for line in lines[:24]} == count_jobs(charonia)


def test_a_full_disk_says_how_to_go_on(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, *range(60))
    command = make_command("echo", "--concurrency=24")
    limited = subprocess.run(
        ["bash", "-c", 'ulimit -f 4; exec "$@"', "charonia", *ARGV, *command],
        env=charonia.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (limited.returncode, limited.stdout) == (5, "")
    assert "run the same command again" in limited.stderr
    assert len(limited.stderr.splitlines()) == 2
    assert charonia.run(*command).returncode == 0
    assert {line["job"] for line in read_results(tmp_path)} == count_jobs(charonia)


def test_ctrl_c_says_how_to_go_on(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, *({"ms": 400} for _ in range(32)))
    command = make_command("work", "--concurrency=8")
    with charonia.on_terminal(*command) as terminal:
        terminal.wait_for("/32")
        wait_until(lambda: count_lines(tmp_path / RESULTS) >= 1)
        terminal.interrupt()
        assert terminal.wait() == 130
        assert "The submitted jobs go on" in terminal.text
    with charonia.on_terminal(*command) as terminal:
        assert terminal.wait() == 0
        assert "items have their results already" in terminal.text
        assert "32/32" in terminal.text
        assert "32 succeeded, 0 failed" in terminal.text
    assert {line["job"] for line in read_results(tmp_path)} == count_jobs(charonia)


def test_ctrl_c_names_the_command_that_cancels_the_jobs(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, *({"ms": 20_000} for _ in range(4)))
    with charonia.on_terminal(*make_command("work")) as terminal:
        wait_until(lambda: count_lines(tmp_path / PROGRESS) >= 3)
        terminal.interrupt()
        assert terminal.wait() == 130
    assert len(charonia.read("cancel", *re.findall(r"charonia cancel (batch_\w+)", terminal.text))) == 4


def test_a_killed_gateway_is_waited_for(breakable: Stack, charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, *({"ms": 60} for _ in range(48)))
    process = charonia.start(*make_command("work", "--concurrency=24"))
    wait_until(lambda: count_lines(tmp_path / RESULTS) >= 1)
    breakable.gateways[0].kill()
    assert process.poll() is None
    breakable.gateways[0].start()
    assert process.wait(timeout=120) == 0
    process.communicate()
    assert {line["job"] for line in read_results(tmp_path)} == count_jobs(charonia)


async def test_limits_are_waited_for(stack: Stack, tmp_path: Path) -> None:
    key = await make_key(
        stack, f"batch-{tmp_path.parent.name}-{tmp_path.name}"[-60:].replace("_", "-"), "--rate-limit=5"
    )
    charonia = CommandLine(stack, key, tmp_path)
    write_items(tmp_path, *range(8))
    assert charonia.run(*make_command("echo", "--concurrency=4"), timeout=300).returncode == 0
    assert len(read_results(tmp_path)) == 8


async def test_a_chunk_that_never_fits_the_queue_is_split(stack: Stack, tmp_path: Path) -> None:
    tenant = "batch-queue-limit"
    charonia = CommandLine(stack, await make_key(stack, tenant), tmp_path)
    await run_keys_here(stack, "tenant", tenant, "--max-queued", "5")
    write_items(tmp_path, *range(8))
    found = charonia.run(*make_command("echo"), timeout=300)
    assert (found.returncode, found.stderr) == (0, "")
    assert [line["outputs"]["y"] for line in read_results(tmp_path)] == [[[2.0 * number]] for number in range(8)]


async def test_a_revoked_key_ends_the_run(stack: Stack, tmp_path: Path) -> None:
    key = await make_key(stack, f"revoked-{time.time_ns()}")
    write_items(tmp_path, *({"ms": 500} for _ in range(100)))
    with contextlib.closing(CommandLine(stack, key, tmp_path)) as charonia:
        (own,) = charonia.read("keys")
        process = charonia.start(*make_command("work", "--concurrency=8"))
        wait_until(lambda: count_lines(tmp_path / RESULTS) >= 1)
        await revoke_key(stack, own["id"])
        _, told = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "Set another key" in told
    assert "run the same command again" in told


def test_mistakes_become_lines_and_the_rest_goes_on(charonia: CommandLine, tmp_path: Path) -> None:
    mistakes = {
        "oops": ("malformed_json", "not JSON"),
        '{"y": 1}': ("invalid_input", "no input 'y'"),
        '"one"': ("invalid_input", "/inputs/x"),
        '{"inputs": {"x": 1}, "priority": "high"}': ("invalid_request", "give other fields with --set"),
        '{"inputs": {"x": 1}, "custom_id": 7}': ("invalid_request", "write it in quotes"),
        '"@missing.bin"': ("invalid_input", "there is no file"),
    }
    write_items(tmp_path, 1, *mistakes, '{"inputs": {}, "custom_id": "empty"}', 2)
    found = charonia.run(*make_command("echo"))
    assert (found.returncode, json.loads(found.stdout)["failed"]) == (1, len(mistakes) + 1)
    assert found.stderr.startswith("item 1 refused: malformed_json: ")
    first, *refused, unnamed, last = read_results(tmp_path)
    assert (first["outputs"], last["outputs"]) == ({"y": [[2.0]]}, {"y": [[4.0]]})
    for line, (code, text) in zip(refused, mistakes.values(), strict=True):
        assert (line["status"], line["job"], line["outputs"], line["error"]["code"]) == ("refused", None, None, code)
        assert text in line["error"]["message"]
    assert (unnamed["custom_id"], unnamed["status"]) == ("empty", "refused")


def test_failed_jobs_say_why(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('"invalid"\n"ok"\n')
    found = charonia.run(*make_command("faulty"))
    failed = read_results(tmp_path)[0]
    assert (found.returncode, failed["status"], failed["outputs"]) == (1, "failed", None)
    assert failed["error"] == {"code": "invalid_input", "message": "INVALID_ARG: invalid as asked"}


def test_files_are_read_beside_the_items(charonia: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    shutil.copy(IMAGE, folder / "scan.png")
    (folder / "items.jsonl").write_text('{"image": "@scan.png"}\n"@scan.png"\n')
    assert charonia.run("batch", "ocr", "scans/items.jsonl", "-o", RESULTS).returncode == 0
    assert [line["outputs"]["text"] for line in read_results(tmp_path)] == [LINES, LINES]
    (tmp_path / "items.jsonl").write_text('{"text": "@@one", "delay_ms": 1}\n')
    assert charonia.run(*make_command("tokens", "--restart")).returncode == 0
    assert read_results(tmp_path)[0]["outputs"] == {"token": ["@one"]}


def test_another_run_is_refused(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, {"ms": 1}, *({"ms": 500} for _ in range(19)))
    command = make_command("work", "--concurrency=8")
    process = charonia.start(*command)
    wait_until(lambda: count_lines(tmp_path / RESULTS) >= 1)
    process.send_signal(signal.SIGSTOP)  # or it may end first
    both = charonia.run(*command)
    assert (both.returncode, "another run writes to" in both.stderr) == (2, True)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    before = (tmp_path / RESULTS).read_bytes(), (tmp_path / PROGRESS).read_bytes()
    for arguments, text in (
        (make_command("echo", "--concurrency=8"), "the model was work"),
        ([*command, "--priority=high"], "priority was not given"),
    ):
        other = charonia.run(*arguments)
        assert (other.returncode, text in other.stderr, "--restart" in other.stderr) == (2, True, True)
    write_items(tmp_path, *({"ms": 101} for _ in range(20)))
    changed = charonia.run(*command)
    assert (changed.returncode, "has changed" in changed.stderr, "--restart" in changed.stderr) == (2, True, True)
    assert before == ((tmp_path / RESULTS).read_bytes(), (tmp_path / PROGRESS).read_bytes())
    assert charonia.run(*command, "--restart").returncode == 0
    assert [line["outputs"] for line in read_results(tmp_path)] == [{"slept": [[101]]}] * 20


def test_a_first_submit_that_is_refused_leaves_nothing(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path, 1)
    refused = charonia.run(*make_command("echo", "--set=expires_in=-1"))
    assert (refused.returncode, "expires_in" in refused.stderr) == (4, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["items.jsonl"]
    assert charonia.run(*make_command("echo")).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["echo", "missing.jsonl", "-o", RESULTS], 2, "does not exist"),
        (["echo", "items.jsonl"], 2, "--output"),
        (["echo", "items.jsonl", "-o", "items.jsonl", "--restart"], 2, "write the results to another file"),
        (["echo", "items.jsonl", "-o", "/dev/null"], 2, "no plain file"),
        (["echo", "items.jsonl", "-o", "missing/results.jsonl"], 2, "there is no folder"),
        (["nothing", "items.jsonl", "-o", RESULTS], 4, "not_found"),
        (["echo", "items.jsonl", "-o", RESULTS, "--concurrency=0"], 2, "concurrency"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value)[:20],
)
def test_mistakes_in_arguments(
    charonia: CommandLine, tmp_path: Path, arguments: list[str], code: int, text: str
) -> None:
    write_items(tmp_path, 1)
    found = charonia.run("batch", *arguments)
    assert (found.returncode, found.stdout) == (code, "")
    assert text in " ".join(found.stderr.replace("│", " ").split())
    assert (tmp_path / "items.jsonl").read_text() == "1\n"
    assert not (tmp_path / RESULTS).exists()


def test_no_items_make_no_results(charonia: CommandLine, tmp_path: Path) -> None:
    write_items(tmp_path)
    (summary,) = charonia.read(*make_command("echo"))
    assert (summary["items"], (tmp_path / RESULTS).read_text()) == (0, "")
