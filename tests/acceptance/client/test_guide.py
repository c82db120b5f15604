"""Every example for the client works, one after the other, as a reader would run them."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.model_inputs import LINES

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
GUIDE = ROOT / "docs" / "how-to" / "use-the-python-client.md"
README = ROOT / "client" / "README.md"
ITEMS = 1000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files that the examples read."""
    shutil.copy(ROOT / "deploy" / "local" / "demo.png", tmp_path / "scan.png")
    (tmp_path / "items.jsonl").write_text("".join(f"[{number}]\n" for number in range(ITEMS)))
    return tmp_path


@pytest.mark.parametrize("page", [GUIDE, README], ids=["guide", "readme"])
def test_every_example_works(stack: Stack, place: Path, page: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    environment = {
        "CHARONIA_URL": stack.url,
        "CHARONIA_KEY": DEVELOPMENT_KEY,
        "PYTHONPATH": str(ROOT / "client"),
        "HOME": str(place),
    }
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert str(LINES) in found.stdout
    if page == GUIDE:
        assert "hello brave world" in found.stdout
        assert "invalid_input 1 job_" in found.stdout
        written = [json.loads(line) for line in (place / "results.jsonl").read_text().splitlines()]
        assert sorted(written, key=lambda line: int(line["item"][0])) == [
            {"item": [number], "y": [[2.0 * number]]} for number in range(ITEMS)
        ]


@pytest.mark.parametrize(("heading", "most"), [("Run a model", 4), ("Stream", 4), ("Run many items", 6)])
def test_a_users_program_is_short(heading: str, most: int) -> None:
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1]
    block = BLOCK.findall(section)[0]
    assert len([line for line in block.splitlines() if line]) <= most
