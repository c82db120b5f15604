"""The commands of the guide to batches work as they are printed."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.api_shapes import Batch
from tests.support.api.batch_results import parse_lines
from tests.support.api.batches import write_lines

PRINTED, COUNT = 1000, 100  # jobs in the guide, and here
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
GUIDE = (ROOT / "docs/how-to/batches.md").read_text()


def find_blocks(beginning: str, end: str) -> str:
    """Return the commands of one part of the guide as a script."""
    part = GUIDE[GUIDE.index(beginning) : GUIDE.index(end)]
    return "\n".join(["set -eu", *BLOCK.findall(part)])


async def run_script(stack: Stack, script: str, directory: Path) -> str:
    """Run commands of the guide against the stack. Return their output."""
    process = await start_script(stack, script, directory)
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, errors
    return output.decode()


async def start_script(stack: Stack, script: str, directory: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        script.replace("localhost:8080", stack.url.removeprefix("http://")),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_three_calls_take_many_jobs_from_a_file_to_a_file(stack: Stack, tmp_path: Path) -> None:
    """These are the commands of the guide."""
    script = find_blocks("## From a file to a file", "## Submit a batch")
    assert (script.count("curl "), script.count(f"range({PRINTED})")) == (3, 1)
    script = script.replace(f"range({PRINTED})", f"range({COUNT})")
    accepted, shown = (await run_script(stack, script, tmp_path)).splitlines()
    assert accepted == f"{COUNT} of {COUNT} accepted"
    assert msgspec.json.decode(shown, type=Batch).counts["succeeded"] == COUNT
    results = parse_lines((tmp_path / "results.jsonl").read_bytes())
    assert [each.custom_id for each in results] == [f"row-{number}" for number in range(COUNT)]
    assert [each.index for each in results] == list(range(COUNT))
    assert [each.job and each.job.output("y") for each in results] == [[2.0 * number] for number in range(COUNT)]

    whole = (tmp_path / "results.jsonl").read_bytes()
    batch_id = msgspec.json.decode(shown, type=Batch).id
    (tmp_path / "results.jsonl").write_bytes(whole[: len(whole) // 3])  # in the middle of a line
    resume = find_blocks("## Read the results", "## Follow a batch")
    await run_script(stack, f"export BATCH={batch_id}\n{resume}", tmp_path)
    assert (tmp_path / "kept.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ("nobody", ["model 'nobody' not found"]),
        ("echo", ["1 of 2 accepted", "1 /inputs/y: the model has no input 'y'"]),
    ],
)
async def test_the_guides_commands_show_what_is_refused(
    stack: Stack, tmp_path: Path, model: str, texts: list[str]
) -> None:
    """A reader of the guide runs them in a terminal, where no command stops the next one."""
    script = find_blocks("## From a file to a file", "## Submit a batch").removeprefix("set -eu\n")
    _, commands = script.split("> jobs.jsonl\n")
    jobs = [{"model": model, "inputs": {each: [[1]]}} for each in ("x", "y")]
    (tmp_path / "jobs.jsonl").write_bytes(write_lines(jobs))
    (tmp_path / "results.jsonl").write_text("of the last batch\n")
    process = await start_script(stack, commands, tmp_path)
    output, errors = (each.decode() for each in await asyncio.wait_for(process.communicate(), 120))
    assert [text for text in texts if text not in output] == [], output + errors
    results = (tmp_path / "results.jsonl").read_text()
    assert (results == "of the last batch\n") == (model == "nobody")
