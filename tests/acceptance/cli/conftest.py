"""The command line with the key of a new tenant."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from charonia import Charonia

from deploy.local.stack import Stack
from tests.support.command_line import CommandLine
from tests.support.stacks.key_command import make_key


@pytest.fixture
async def key(stack: Stack) -> str:
    """A key of a new tenant, which has no jobs yet."""
    return await make_key(stack, f"cli-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def client(stack: Stack, key: str) -> Iterator[Charonia]:
    """A client of the same tenant: a wait with it is cheaper than with a command."""
    with Charonia(stack.url, key) as client:
        yield client


@pytest.fixture
def charonia(stack: Stack, key: str, tmp_path: Path) -> Iterator[CommandLine]:
    charonia = CommandLine(stack, key, tmp_path)
    yield charonia
    charonia.close()
