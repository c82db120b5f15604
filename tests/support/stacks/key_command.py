"""The commands of operators, run with a stack's settings."""

import asyncio
import subprocess
from collections.abc import Mapping

from deploy.local.servers.postgres import connect_as
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from services.gateway.auth.scopes import Scope
from services.gateway.commands import keys
from tests.support.forked_command import be_module, run_forked


async def run_keys(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return await run_command(stack, "keys", *arguments)


async def run_command(stack: Stack, command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    url = connect_as("operator", stack.postgres.url)
    return await run_with(stack.environment | {"CHARONIA_DATABASE_URL": url}, command, *arguments)


async def run_with(environment: Mapping[str, str], command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command with this environment, which has the operator's database URL."""
    argv = [f"services.gateway.commands.{command}", *arguments]
    return await asyncio.to_thread(run_forked, argv, environment, ROOT, be_module)


async def make_key(stack: Stack, tenant: str, *options: str) -> str:
    """Create a key and return it. `options` are arguments of the command. Without a scope it may do everything."""
    scopes = () if "--scope" in options else ("--scope", *Scope)
    return await run_keys_here(stack, "create", tenant, *options, *scopes)


async def revoke_key(stack: Stack, key_id: str) -> None:
    await run_keys_here(stack, "revoke", key_id)


async def run_keys_here(stack: Stack, *arguments: str) -> str:
    """Run the command in this process, which is quicker, and return what it prints."""
    url = connect_as("operator", stack.postgres.url)
    secrets = (stack.environment["CHARONIA_ENCRYPTION_KEYS"],)
    settings = keys.KeySettings(url, secrets, stack.environment["CHARONIA_AMQP_URL"])
    parsed = keys.parse(arguments)
    printed: str = await parsed.run(settings, parsed)
    return printed
