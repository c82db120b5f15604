"""An older major version of OpenAI's client works, too."""

import asyncio
import json
import os
import subprocess
import sys

from deploy.local.older_openai import DIRECTORY
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT

PROGRAM = ROOT / "tests" / "support" / "older_openai_calls.py"


async def test_each_call_works_with_an_older_client(base_url: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(DIRECTORY)}
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(PROGRAM), base_url, DEVELOPMENT_KEY],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.pop("version").startswith("1.")
    assert "vllm_model" in found.pop("models")
    assert found == {
        "chat": "one two",
        "stream": ["one", " two", None],
        "completion": "one two",
        "response": "one two",
        "embedding": [7, 2, 3],
        "error": ["unsupported_parameter", "n"],
        "async": ["one", " two", None],
    }
