"""Tenants of a stack, made in this process: the command takes a second each."""

from argparse import Namespace
from itertools import count

from deploy.local.servers.postgres import connect_as
from deploy.local.stack import Stack
from services.gateway.commands import keys

_numbers = count(1)


async def make_tenant(stack: Stack, purpose: str) -> str:
    """Add a tenant that has nothing yet, and return its key, which may do everything."""
    environment = stack.environment
    settings = keys.KeySettings(connect_as("operator", stack.postgres.url), (environment["CHARONIA_ENCRYPTION_KEYS"],))
    given = {"scope": None, "rate_limit": None, "model": None, "expires_at": None}
    return await keys.create(settings, Namespace(tenant=f"{purpose}-{next(_numbers)}", name=purpose, **given))
