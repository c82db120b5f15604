"""Injects the planned faults, and restarts processes that crashed, as a supervisor would."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from deploy.local.errors import LocalError
from deploy.local.processes.tree import members, send
from deploy.local.servers.rabbitmq import RabbitMQ
from deploy.local.servers.server import Server
from tests.storm.fault_schedule import Action, FaultSchedule, PlannedFault
from tests.storm.storm_log import Fault, StormLog
from tests.support.telemetry.service_logs import find_worker

STUB = b"triton_python_backend_stub"
MAX_STARTS = 3  # starts of a member before the storm gives up
SUPERVISION_SECONDS = 0.2
CRASH_SECONDS = 3.0  # seconds in which a crash may have effects before the process has ended


class FaultInjector:
    def __init__(
        self,
        supervised: Sequence[Server],
        schedules: Sequence[FaultSchedule],
        log: StormLog,
        report: Callable[[str], None],
    ) -> None:
        self._members = supervised
        self._schedules = schedules
        self._locks = {member.name: asyncio.Lock() for member in supervised}
        self._log = log
        self._report = report
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def supervise(self) -> AsyncIterator[None]:
        """Restart every member that ends by itself: also after the last fault, for Triton may crash by what it did."""
        async with asyncio.TaskGroup() as group:
            for member in self._members:
                group.create_task(self._supervise(member))
            try:
                yield
            finally:
                self._ended.set()

    async def run(self, until: float) -> None:
        """Inject faults until `until` (monotonic seconds), and kill each member at least once.

        Return when every member is ready again.
        """
        async with asyncio.TaskGroup() as schedules:
            for schedule in self._schedules:
                schedules.create_task(self._inject_faults(schedule, until))
        for member in self._members:
            async with self.reserve([member]):
                await asyncio.to_thread(self.wait_until_ready, member)

    @asynccontextmanager
    async def reserve(self, wanted: Sequence[Server]) -> AsyncIterator[None]:
        """Keep these members from other faults, and from being restarted."""
        async with AsyncExitStack() as locks:
            for member in wanted:
                await locks.enter_async_context(self._locks[member.name])
            yield

    async def restart(self, member: Server, prepare: Callable[[], object]) -> None:
        """Stop a member as an operator does, call `prepare`, and start it again."""
        async with self.reserve([member]):
            began, pid = time.time(), member.process.pid or 0
            await asyncio.to_thread(member.stop)
            await asyncio.to_thread(prepare)
            await asyncio.to_thread(self._record_fault, "restart", member, pid, began)

    async def _inject_faults(self, schedule: FaultSchedule, until: float) -> None:
        for count, fault in enumerate(schedule.plan()):
            if count >= schedule.minimum and time.monotonic() >= until:
                return
            await asyncio.sleep(fault.gap)
            async with self.reserve([fault.member]):
                await asyncio.to_thread(self._inject, fault)

    async def _supervise(self, member: Server) -> None:
        """Restart a member whenever it has ended by itself."""
        while not self._ended.is_set():
            async with self.reserve([member]):
                if not member.process.running:
                    await asyncio.to_thread(self._restart_crashed, member)
            await asyncio.sleep(SUPERVISION_SECONDS)

    def _inject(self, fault: PlannedFault) -> None:
        member, began, pid = fault.member, time.time(), fault.member.process.pid or 0
        match fault.action:
            case "kill":
                member.kill()
                time.sleep(fault.duration)
            case "restart":
                member.stop()
            case "kill model":
                kill_model(pid)
            case "freeze" | "hang":
                member.freeze()
                time.sleep(fault.duration)
                member.thaw()
        self._record_fault(fault.action, member, pid, began)

    def _restart_crashed(self, member: Server) -> None:
        """Restart a member that the storm did not stop, and note the crash."""
        began, pid = time.time() - CRASH_SECONDS, member.process.pid or 0
        self._log.crashes.append(f"{member.name} ended by itself with code {member.process.returncode}")
        self._record_fault("crash", member, pid, began)

    def _record_fault(self, action: Action, member: Server, pid: int, began: float) -> None:
        restarted = time.time()
        self.wait_until_ready(member)
        ready = time.time()
        kind = getattr(member, "kind", member.name)
        started = 0.0 if member.process.pid == pid else restarted
        worker = find_worker(member, pid)
        self._log.faults.append(Fault(action, kind, member.name, pid, began, ready, worker, started))
        times = f"down for {restarted - began:4.1f} s, ready after {ready - began:4.1f} s"
        self._report(f"{action:11}{member.name:14} {times}")

    def wait_until_ready(self, member: Server) -> None:
        """Start the member if it does not run, and wait until it is ready.

        Raise LocalError if it does not start after several tries.
        """
        for remaining in reversed(range(MAX_STARTS)):
            try:
                if not member.process.running:
                    member.launch()
                member.wait_ready()
                return
            except LocalError as error:
                if remaining == 0:
                    raise
                self._log.crashes.append(f"{member.name} did not start at once: {str(error)[:300]}")
                # Erlang 25 may hang when a node joins others: https://github.com/rabbitmq/rabbitmq-server/issues/6034.
                if isinstance(member, RabbitMQ):
                    member.kill()


def kill_model(triton: int) -> None:
    """Kill the process of one of Triton's Python models, if it has any."""
    stubs = [pid for pid in members(triton) if STUB in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]
    send(set(random.sample(stubs, min(len(stubs), 1))), signal.SIGKILL)
