"""Every Python example of the docs works, one after the other, as a reader would run them."""

import json
import shutil
import uuid
from pathlib import Path

import pytest

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.model_inputs import LINES
from tests.support.api.page_pipeline import COUNTS, DEFINITION, TOTAL
from tests.support.guides import find_blocks, read_blocks, run_python
from tests.support.stacks.key_command import make_key

HOW_TO = ROOT / "docs" / "how-to"
GUIDE = HOW_TO / "use-the-python-client.md"
README = ROOT / "client" / "README.md"
ITEMS = 40
PUBLIC = "https://example.com/hook"  # the tests have no network
WORDS = "hello brave world"
PRINTED = {  # a part of what the examples of a page print
    README: str(LINES),
    GUIDE: WORDS,
    HOW_TO / "batches.md": "100 of 100 accepted []",
    HOW_TO / "find-out-why-a-job-waits.md": "tokens normal",
    HOW_TO / "operations.md": "1 run again",
    HOW_TO / "pipelines.md": f"{LINES} {COUNTS} {TOTAL}",
    HOW_TO / "receive-webhooks.md": "whsec_",
    HOW_TO / "reuse.md": "[[10.0]] job_",
    HOW_TO / "stream.md": WORDS,
    HOW_TO / "submit-jobs.md": f"[[2.0, 4.0, 6.0]]\n{LINES}",
    HOW_TO / "tenants-and-keys.md": "key.revoked",
    HOW_TO / "traces.md": "infer echo",
    HOW_TO / "triton-clients.md": "[[2. 5.]]",
}
BEFORE = {  # what has happened before a reader needs the page
    HOW_TO / "pipelines.md": f"open('page.json', 'w').write({json.dumps(DEFINITION)!r})\n",
    HOW_TO / "operations.md": "import charonia\ncharonia.Charonia().submit('ocr', image=b'no image').wait()\n",
}
# These have tests of their own: they need a stack of their own, a receiver or another program.
ELSEWHERE = {
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "reference" / "python-client.md",  # signatures
    HOW_TO / "bring-your-own-model.md",
    HOW_TO / "generate-a-client.md",
    HOW_TO / "language-models.md",
    HOW_TO / "openai-batches.md",
    HOW_TO / "openai-client.md",
}
RECEIVERS = ("def receive(", "def is_genuine")  # tests/unit/docs runs them


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files that the examples read."""
    shutil.copy(ROOT / "deploy" / "local" / "demo.png", tmp_path / "scan.png")
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "items.jsonl").write_text("".join(f"[{number}]\n" for number in range(ITEMS)))
    return tmp_path


@pytest.fixture
async def key(stack: Stack) -> str:
    """A key of a new tenant."""
    return await make_key(stack, f"guide-{uuid.uuid4().hex[:8]}")


@pytest.mark.parametrize("page", PRINTED, ids=lambda page: page.stem)
def test_every_example_works(stack: Stack, place: Path, key: str, page: Path) -> None:
    blocks = [text for text in read_blocks(page, "python") if not any(each in text for each in RECEIVERS)]
    program = BEFORE.get(page, "") + "\n".join(blocks).replace(PUBLIC, "http://localhost:9000/hook")
    printed = run_python(stack, place, program, key)
    assert PRINTED[page] in printed
    if page == GUIDE:
        assert str(LINES) in printed
        assert "invalid_input 1 job_" in printed
        doubled = (place / "doubled.jsonl").read_text().splitlines()
        assert doubled == [f"[[{2.0 * number}]]" for number in range(1000)]
    if page in (GUIDE, HOW_TO / "batches.md"):
        written = [json.loads(line) for line in (place / "mapped.jsonl").read_text().splitlines()]
        assert sorted(written, key=lambda line: int(line["item"][0])) == [
            {"item": [number], "y": [[2.0 * number]]} for number in range(ITEMS)
        ]


def test_no_page_has_examples_that_no_test_runs() -> None:
    pages = {ROOT / "README.md", README, *(ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if read_blocks(page, "python")} == {*PRINTED, *ELSEWHERE}


@pytest.mark.parametrize(("heading", "most"), [("Run a model", 4), ("Stream", 4), ("Run many items", 6)])
def test_a_users_program_is_short(heading: str, most: int) -> None:
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1]
    block = find_blocks(section, "python")[0]
    assert len([line for line in block.splitlines() if line]) <= most
