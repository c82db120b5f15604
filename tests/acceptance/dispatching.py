"""A dispatcher with settings of its own in place of the stack's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.local.services import Service
from deploy.local.stack import Stack


@asynccontextmanager
async def dispatching(breakable: Stack, **environment: str) -> AsyncIterator[Service]:
    """Ready, with these variables; the fixture `breakable` brings the stack's own back."""
    own = breakable.dispatchers[0]
    other = Service(
        "dispatcher", own.port, breakable.environment | environment, breakable.log_dir, name="dispatcher-other"
    )
    await asyncio.to_thread(own.stop)
    try:
        await asyncio.to_thread(other.start)
        yield other
    finally:
        await asyncio.to_thread(other.stop)
