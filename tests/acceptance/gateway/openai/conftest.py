"""A stack with models that speak OpenAI's API, and OpenAI's own clients of it."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from deploy.local.npm_packages import DIRECTORY as PACKAGES
from deploy.local.npm_packages import MANIFESTS
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.language_models import STUBS
from tests.support.stacks.more_models import add_models

NODE_PROGRAM = MANIFESTS / "openai_calls.mjs"


@pytest.fixture(scope="package")
def stack(stack: Stack) -> Stack:
    """The shared stack, whose Triton has the models that speak OpenAI's API from now on."""
    add_models(stack, STUBS)
    return stack


@pytest.fixture(scope="package")
def base_url(stack: Stack) -> str:
    return f"{stack.url}/openai/v1"


@pytest.fixture(scope="package")
async def client(base_url: str) -> AsyncIterator[Any]:
    """OpenAI's client, which repeats nothing. Its type is Any: its own types refuse what some tests send."""
    async with openai.AsyncOpenAI(base_url=base_url, api_key=DEVELOPMENT_KEY, max_retries=0, timeout=30) as opened:
        yield opened


async def run_node(base_url: str, *arguments: str, stdin: str = "") -> dict[str, Any]:
    """Return what the program with OpenAI's client for Node prints."""
    program = ["node", str(PACKAGES / NODE_PROGRAM.name), base_url, DEVELOPMENT_KEY, *arguments]
    await asyncio.to_thread(shutil.copy, NODE_PROGRAM, PACKAGES)  # beside the packages that it imports
    ran = await asyncio.to_thread(
        subprocess.run, program, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
