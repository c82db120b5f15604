"""A dispatcher with its own settings, in place of the stack's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.local.services import Service
from deploy.local.stack import Stack


@asynccontextmanager
async def replace_dispatcher(breakable: Stack, **environment: str) -> AsyncIterator[Service]:
    """Replace the stack's dispatcher by a ready one with these variables.

    The fixture `breakable` starts the stack's own again.
    """
    own = breakable.dispatchers[0]
    replacement = Service(
        "dispatcher", own.port, breakable.environment | environment, breakable.log_dir, name="dispatcher-other"
    )
    await asyncio.to_thread(own.stop)
    try:
        await asyncio.to_thread(replacement.start)
        yield replacement
    finally:
        await asyncio.to_thread(replacement.stop)
