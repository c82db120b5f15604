"""One storm on a cluster, from its start to the result."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from deploy.local.services import DEVELOPMENT_KEY
from tests.cluster_storm import outages
from tests.cluster_storm.server_fault_injector import ServerFaultInjector
from tests.storm import api_state, report
from tests.storm.check import Violation, check
from tests.storm.client import open_client
from tests.storm.fault_injector import FaultInjector
from tests.storm.fault_schedule import HANG_SECONDS, FaultSchedule
from tests.storm.load import Load
from tests.storm.receiver import Receiver
from tests.storm.run import COMPLETION_SECONDS, ENVIRONMENT, run_with_load, store_pipelines, subscribe, watch
from tests.storm.steady_load import SteadyLoad
from tests.storm.storm_log import StormLog
from tests.storm.trouble import open_trouble
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.network import GATEWAY

JOBS = 100_000  # more than a storm submits


@dataclass(frozen=True)
class Plan:
    """The settings of a storm. `rate` is in jobs per second.

    The storm lasts longer than `seconds` if `faults` faults of servers need that.
    """

    directory: Path
    seed: int
    seconds: float
    rate: float
    faults: int
    in_flight: int = 300
    backlog: int = 10_000  # pending deliveries of another tenant's subscription


def run(plan: Plan, report_line: Callable[[str], None]) -> list[Violation]:
    """Run a storm inside the namespaces and print its report. Return the violations."""
    began = time.monotonic()
    cluster = Cluster(plan.directory, ENVIRONMENT)
    cluster.start()
    report_line(f"the cluster started in {time.monotonic() - began:.1f} s")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(storm(cluster, plan, report_line))


async def storm(cluster: Cluster, plan: Plan, report_line: Callable[[str], None]) -> list[Violation]:
    log = StormLog(tritons=len(cluster.tritons))
    receiver = Receiver(log, plan.seed, GATEWAY)
    began = time.monotonic()

    def report_event(text: str) -> None:
        report_line(f"{time.monotonic() - began:6.1f} s  {text}   {log.describe()}")

    gateways = [gateway.url for gateway in cluster.gateways]
    key, steady_key = await cluster.make_key("trouble"), await cluster.make_key("steady")
    async with (
        open_client(gateways, DEVELOPMENT_KEY) as client,
        open_client(gateways, steady_key) as steady,
        receiver.listen(),
        open_trouble(gateways, key, cluster.database_url(), receiver, plan.backlog) as trouble,
    ):
        await subscribe(client, receiver)
        await store_pipelines(client)
        began = time.monotonic()
        load = Load(client, receiver, log, seed=plan.seed, rate=plan.rate, in_flight=plan.in_flight)
        processes = [*cluster.tritons, *cluster.services]
        for dispatcher in cluster.dispatchers:
            dispatcher.ready_within += HANG_SECONDS  # it is not ready before Triton answers
        schedule = FaultSchedule("services", processes, plan.seed, 1.0)
        schedule.minimum = min(schedule.minimum, plan.faults)
        loads = [
            lambda stop: load.run(stop, JOBS),
            trouble.run,
            SteadyLoad(steady, receiver.url, log).run,
            *watch(client, log, dict(zip(cluster.dispatchers, cluster.tritons, strict=True))),
        ]
        injector = FaultInjector([*cluster.servers, *processes], [schedule], log, report_event)
        servers = ServerFaultInjector(cluster, injector, log, report_event, plan.seed)
        async with injector.supervise():
            await run_with_load(loads, lambda: run_faults(injector, servers, plan), log, load.count_unfinished)
            report_event("all members are ready and the load has ended")
            state = await api_state.read_all(client, log, COMPLETION_SECONDS)
            troubles = await trouble.find_violations(COMPLETION_SECONDS)
    violations = [*check(log, state), *troubles]
    lines = (
        *outages.tabulate(servers.outages, outages.find_job_times(log, state)),
        *report.write(log, state, violations),
    )
    for line in lines:
        report_line(line)
    return violations


async def run_faults(injector: FaultInjector, servers: ServerFaultInjector, plan: Plan) -> None:
    until = time.monotonic() + plan.seconds
    async with asyncio.TaskGroup() as faults:
        faults.create_task(injector.run(until))
        faults.create_task(servers.run(until, plan.faults))
