"""Injects the planned faults into the cluster's servers, and waits after each until all are healthy."""

import asyncio
import time
from collections.abc import Callable, Sequence

from deploy.local.errors import NotReady
from deploy.local.servers.server import Server
from tests.cluster_storm.outages import Outage
from tests.cluster_storm.server_faults import ServerFault, plan
from tests.storm.fault_injector import FaultInjector
from tests.storm.storm_log import Fault, StormLog
from tests.support.cluster.cluster import ALONE, Cluster, Group
from tests.support.telemetry.service_logs import find_worker

HEALTHY_SECONDS = 120.0
# A node of RabbitMQ that was silent for about the net tick time may never join the others again. Its documentation
# says that an operator restarts it: https://www.rabbitmq.com/docs/partitions.
OPERATOR_SECONDS = 20.0
POLL_SECONDS = 0.2
SKEW_SECONDS = 60
KINDS = {"broker": "rabbitmq", "primary": "postgres", "standby": "postgres", "witness": "etcd", "service": "clock"}


class ServerFaultInjector:
    """`injector` supervises the servers, too."""

    def __init__(
        self, cluster: Cluster, injector: FaultInjector, log: StormLog, report: Callable[[str], None], seed: int
    ) -> None:
        self._cluster = cluster
        self._injector = injector
        self._log = log
        self._report = report
        self._seed = seed
        self.outages: list[Outage] = []

    async def run(self, until: float, minimum: int) -> None:
        """Inject faults until `until` (monotonic seconds), and at least `minimum` faults."""
        for count, fault in enumerate(plan(self._seed)):
            if count >= minimum and time.monotonic() >= until:
                return
            await asyncio.sleep(fault.gap)
            async with self._injector.reserve([*self._cluster.servers, *self._cluster.service_group.servers]):
                await asyncio.to_thread(self._inject, fault)

    def _inject(self, fault: ServerFault) -> None:
        began, pids = time.time(), [(each, each.process.pid or 0) for each in self._cluster.service_group.servers]
        name, struck = self._strike(fault)
        restored = time.time()
        self._wait_until_healthy(fault, name)
        ended = time.time()
        if fault.target == "services":
            self._record_services(fault, pids, began, ended)
        else:
            self._log.faults.append(Fault(fault.action, KINDS[fault.target], name, 0, began, ended))
        self.outages.append(Outage(fault.name, struck, ended))
        times = f"for {restored - struck:4.1f} s, healthy after {ended - struck:4.1f} s"
        self._report(f"{fault.name:20} {name:14} {times}")

    def _record_services(
        self, fault: ServerFault, pids: Sequence[tuple[Server, int]], began: float, ended: float
    ) -> None:
        """Note the fault of a machine as one of each service on it, and of its Triton, which it could not reach."""
        for service, pid in pids:
            kind, worker = service.name.partition("-")[0], find_worker(service, pid)
            self._log.faults.append(Fault(fault.action, kind, service.name, pid, began, ended, worker))
        self._log.faults.append(Fault(fault.action, "triton", self._cluster.tritons[ALONE - 1].name, 0, began, ended))

    def _strike(self, fault: ServerFault) -> tuple[str, float]:
        """Inject the fault and end it. Return the name of the machine or the service, and when it took effect."""
        cluster = self._cluster
        match fault.action:
            case "switchover":
                return self._switch_over()
            case "memory alarm":
                broker = cluster.brokers[fault.number % len(cluster.brokers)]
                broker.raise_memory_alarm()
                struck = time.time()
                time.sleep(fault.duration)
                broker.clear_memory_alarm()
                return broker.name, struck
            case "clock skew":
                name, clock = [*cluster.clocks.items()][fault.number % len(cluster.clocks)]
                skew = SKEW_SECONDS if fault.number % 2 else -SKEW_SECONDS
                clock.jump(skew)
                struck = time.time()
                time.sleep(fault.duration)
                clock.jump(-skew)
                return name, struck
            case "kill" | "freeze" | "partition":
                group = self._choose_group(fault)
                return group.machine.name, strike_machine(group, fault)

    def _switch_over(self) -> tuple[str, float]:
        primary, standby = self._cluster.find_primary(), self._cluster.find_standby()
        began = time.time()
        if not primary.switch_over(primary.machine.name, standby.machine.name):
            self._log.crashes.append(f"Patroni did not make {standby.machine.name} the primary")
        return primary.machine.name, began

    def _choose_group(self, fault: ServerFault) -> Group:
        groups, cluster = self._cluster.groups, self._cluster
        match fault.target:
            case "primary":
                machine = cluster.find_primary().machine
            case "standby":
                machine = cluster.find_standby().machine
            case "witness":
                machine = groups[-1].machine
            case "services":
                return cluster.service_group
            case _:
                machine = groups[fault.number % len(cluster.brokers)].machine
        return next(group for group in groups if group.machine is machine)

    def _wait_until_healthy(self, fault: ServerFault, name: str) -> None:
        """Wait until all servers are ready, and know each other. Restart a broker that does not join the others."""
        for server in (*self._cluster.servers, *self._cluster.service_group.servers):
            self._injector.wait_until_ready(server)
        began, restarted = time.monotonic(), False
        while not self._is_healthy(fault):
            if time.monotonic() > began + OPERATOR_SECONDS and fault.target == "broker" and not restarted:
                self._report(f"{name} does not join the others: it is restarted, as an operator would do")
                next(broker for broker in self._cluster.brokers if broker.name == name).restart()
                restarted = True
            if time.monotonic() > began + HEALTHY_SECONDS:
                raise NotReady(f"the cluster was not healthy within {HEALTHY_SECONDS:g} s of: {fault.name}")
            time.sleep(POLL_SECONDS)

    def _is_healthy(self, fault: ServerFault) -> bool:
        """Return whether the servers that this fault may have hurt are healthy."""
        match fault.target:
            case "broker":
                return self._cluster.are_brokers_joined()
            case "service" | "services":
                return True
            case _:
                return self._cluster.has_standby()


def strike_machine(group: Group, fault: ServerFault) -> float:
    """Kill, freeze or cut off a machine for the fault's duration. Start killed servers again.

    Return when the fault took effect: finding the primary takes time, in which jobs still end.
    """
    machine = group.machine
    match fault.action:
        case "kill":
            machine.kill()
            struck = time.time()
            kill_each(group.servers)
            time.sleep(fault.duration)
            for server in group.servers:
                server.launch()
        case "freeze":
            machine.freeze()
            struck = time.time()
            time.sleep(fault.duration)
            machine.thaw()
        case _:
            machine.cut_off()
            struck = time.time()
            time.sleep(fault.duration)
            machine.reconnect()
    return struck


def kill_each(servers: Sequence[Server]) -> None:
    """Note that the servers' processes are gone."""
    for server in servers:
        server.kill()
