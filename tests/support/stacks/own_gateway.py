"""A second gateway beside the stack's own."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.local.processes.ports import free_ports
from deploy.local.services import Service
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.stacks.broker_connection import wait_for_broker

LONG_KEY_CACHE = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "support" / "long_key_cache"), str(ROOT)])}


@asynccontextmanager
async def another_gateway(stack: Stack, *, name: str = "gateway-other", **environment: str) -> AsyncIterator[Service]:
    """Start a gateway with these variables. It has not served any request yet.

    It is connected to the stack's broker, unless a variable names another one.
    """
    (port,) = free_ports(1)
    other = Service("gateway", port, stack.environment | environment, stack.log_dir, name=name)
    try:
        await asyncio.to_thread(other.start)
        if "CHARONIA_AMQP_URL" not in environment:
            await asyncio.to_thread(wait_for_broker, other)
        yield other
    finally:
        await asyncio.to_thread(other.stop)
