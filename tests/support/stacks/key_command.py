"""The commands of operators, run with a stack's settings."""

import asyncio
import subprocess
from collections.abc import Mapping

from deploy.local.servers.postgres import connect_as
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from services.gateway.commands import keys
from tests.support.forked_command import run_forked


async def run_keys(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return await run_command(stack, "keys", *arguments)


async def run_command(stack: Stack, command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    url = connect_as("operator", stack.postgres.url)
    return await run_with(stack.environment | {"CHARONIA_DATABASE_URL": url}, command, *arguments)


async def run_with(environment: Mapping[str, str], command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command with this environment, which has the operator's database URL."""
    return await asyncio.to_thread(run_forked, [f"services.gateway.commands.{command}", *arguments], environment, ROOT)


async def make_key(stack: Stack, tenant: str, *options: str) -> str:
    """Create a key and return it. `options` are arguments of the command, which runs in this process: it is quicker."""
    url = connect_as("operator", stack.postgres.url)
    settings = keys.KeySettings(url, (stack.environment["CHARONIA_ENCRYPTION_KEYS"],))
    return await keys.create(settings, keys.parse(["create", tenant, *options]))
