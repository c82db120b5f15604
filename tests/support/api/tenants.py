"""Tenants of a stack."""

from itertools import count

from deploy.local.stack import Stack
from tests.support.stacks.key_command import make_key

_numbers = count(1)


async def make_tenant(stack: Stack, purpose: str) -> str:
    """Add a tenant that has nothing yet, and return its key, which may do everything."""
    return await make_key(stack, f"{purpose}-{next(_numbers)}", "--name", purpose)
