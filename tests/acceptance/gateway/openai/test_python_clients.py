"""OpenAI's clients for Python work, with `async` and without: the current one, and an older major version."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from deploy.local.older_openai import DIRECTORY
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT

PROGRAM = ROOT / "tests" / "support" / "openai_calls.py"
EXPECTED = {
    "models": True,
    "chat": "one two",
    "stream": ["one", " two", None],
    "completion": "one two",
    "response": "one two",
    "events": ["response.created", "response.completed"],
    "background": ["one two", "deleted", "cancelled"],
    "embedding": [7, 2, 3],
    "batch": ["batch", "listed", "a", "one two"],
    "error": ["unsupported_parameter", "n"],
}


@pytest.mark.parametrize(("major", "path"), [("3", ""), ("1", str(DIRECTORY))])
async def test_each_call_works_with_each_client(base_url: str, major: str, path: str) -> None:
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(PROGRAM), base_url, DEVELOPMENT_KEY],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.pop("version").partition(".")[0] == major
    assert found == {"sync": EXPECTED, "async": EXPECTED}
