"""Breaks the members of a stack as planned, and starts again what has died, as a supervisor would."""

import asyncio
import time
from collections.abc import Callable

from deploy.local.errors import LocalError
from deploy.local.server import Server
from deploy.local.stack import Stack
from tests.storm.faults import Action, Lane, Step
from tests.storm.ledger import Fault, Ledger

STARTS = 3  # of a member, before the storm itself is given up
WATCH_SECONDS = 0.2
DYING = 3.0  # seconds a crash may be felt before the process is gone


class Breaker:
    def __init__(
        self, stack: Stack, ledger: Ledger, tell: Callable[[str], None], *, seed: int, pace: float = 1.0
    ) -> None:
        self.members: list[Server] = [*stack.servers, *stack.services]
        self.locks = {member.name: asyncio.Lock() for member in self.members}
        self.ledger = ledger
        self.tell = tell
        self.over = asyncio.Event()
        ours = zip(stack.gateways, stack.dispatchers, stack.notifiers, strict=True)
        self.lanes = [Lane("servers", stack.servers, seed, pace)]
        self.lanes += [Lane(f"services-{index}", members, seed, pace) for index, members in enumerate(ours)]

    async def run(self, until: float) -> None:
        """Breaks things until then (monotonic seconds), each member at least once; returns when everything serves."""
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(self.watch(member)) for member in self.members]
            async with asyncio.TaskGroup() as lanes:
                for lane in self.lanes:
                    lanes.create_task(self.follow(lane, until))
            self.over.set()
            await asyncio.wait(watches)
        for member in self.members:
            await asyncio.to_thread(self.revive, member)

    async def follow(self, lane: Lane, until: float) -> None:
        for count, step in enumerate(lane.steps()):
            if count >= lane.first and time.monotonic() >= until:
                return
            await asyncio.sleep(step.gap)
            async with self.locks[step.member.name]:
                await asyncio.to_thread(self.apply, step)

    async def watch(self, member: Server) -> None:
        """Starts a member again that ended by itself."""
        while not self.over.is_set():
            async with self.locks[member.name]:
                if not member.process.running:
                    await asyncio.to_thread(self.bury, member)
            await asyncio.sleep(WATCH_SECONDS)

    def apply(self, step: Step) -> None:
        member, began, pid = step.member, time.time(), step.member.process.pid or 0
        match step.action:
            case "kill":
                member.kill()
                time.sleep(step.hold)
            case "restart":
                member.stop()
            case "freeze":
                member.freeze()
                time.sleep(step.hold)
                member.thaw()
        self.restore(step.action, member, pid, began)

    def bury(self, member: Server) -> None:
        """Notes a death that is none of our doing."""
        began, pid = time.time() - DYING, member.process.pid or 0
        self.ledger.deaths.append(f"{member.name} ended by itself with code {member.process.returncode}")
        self.restore("crash", member, pid, began)

    def restore(self, action: Action, member: Server, pid: int, began: float) -> None:
        back = time.time()
        self.revive(member)
        ended = time.time()
        self.ledger.faults.append(Fault(action, getattr(member, "kind", member.name), member.name, pid, began, ended))
        self.tell(f"{action:8}{member.name:14} away {back - began:4.1f} s, serves after {ended - began:4.1f} s")

    def revive(self, member: Server) -> None:
        """Waits until it serves, and starts it where it does not run; raises LocalError where all that is in vain."""
        for left in reversed(range(STARTS)):
            try:
                if not member.process.running:
                    member.launch()
                member.wait_ready()
                return
            except LocalError as error:
                if left == 0:
                    raise
                self.ledger.deaths.append(f"{member.name} did not come back at once: {str(error)[:300]}")
