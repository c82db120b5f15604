"""A second gateway beside the stack's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.local.ports import free_ports
from deploy.local.services import Service
from deploy.local.stack import Stack


@asynccontextmanager
async def another_gateway(stack: Stack, **environment: str) -> AsyncIterator[Service]:
    """Start a gateway with these variables. It has not served any request yet."""
    (port,) = free_ports(1)
    other = Service("gateway", port, stack.environment | environment, stack.log_dir, name="gateway-other")
    try:
        await asyncio.to_thread(other.start)
        yield other
    finally:
        await asyncio.to_thread(other.stop)
