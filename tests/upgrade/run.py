"""One upgrade, from the start of the last release's stack to the result."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvloop

from deploy.local.servers.postgres import connect_as
from deploy.local.services import DEVELOPMENT_KEY, Installation, Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from services.gateway.auth.scopes import Scope
from tests.storm import api_state, report
from tests.storm.check import Violation, check
from tests.storm.client import Client, open_client
from tests.storm.fault_injector import FaultInjector
from tests.storm.load import Load
from tests.storm.receiver import Receiver
from tests.storm.run import COMPLETION_SECONDS, ENVIRONMENT, run_with_load, store_pipelines, subscribe, watch
from tests.storm.steady_load import SteadyLoad
from tests.storm.storm_log import StormLog
from tests.upgrade.next_release import Migration

JOBS = 100_000  # more than an upgrade submits
IN_FLIGHT = 200
BETWEEN_SECONDS = 0.5  # two replacements, and before the first
MEASURED_SECONDS = 6.0  # before the migration and after the last replacement: enough jobs for a median
RUNS_SECONDS = 8.0  # after the last replacement; what is measured then has no runs, as before
OLD_SCHEMA = 3  # the exit code of a service that cannot use the schema


@dataclass(frozen=True)
class Plan:
    """An upgrade from `old` to `new`. `rate` is in jobs per second.

    If `together`, the kinds of services are replaced at the same time, as Helm does it.
    """

    directory: Path
    old: Installation
    new: Installation
    migration: Migration
    seed: int
    rate: float
    together: bool


def run(plan: Plan, report_line: Callable[[str], None]) -> list[Violation]:
    """Run an upgrade and print its report. Return the violations. The logs stay in the plan's directory."""
    settings = Settings.private(plan.directory / "stack", gateways=2, dispatchers=2, notifiers=2)
    stack = Stack(replace(settings, environment=ENVIRONMENT, model_control="explicit"), installation=plan.old)
    try:
        with stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(upgrade(stack, plan, report_line))
    finally:
        stack.postgres.delete()


async def upgrade(stack: Stack, plan: Plan, report_line: Callable[[str], None]) -> list[Violation]:
    log, began = StormLog(), time.monotonic()
    receiver = Receiver(log, plan.seed)

    def report_event(text: str) -> None:
        report_line(f"{time.monotonic() - began:6.1f} s  {text}   {log.describe()}")

    gateways = [gateway.url for gateway in stack.gateways]
    async with (
        open_client(gateways, DEVELOPMENT_KEY) as client,
        open_client(gateways, await asyncio.to_thread(make_key, stack, plan.old, "steady")) as steady,
        receiver.listen(),
    ):
        await subscribe(client, receiver)
        load = Load(client, receiver, log, seed=plan.seed, rate=plan.rate, in_flight=IN_FLIGHT)
        load.with_runs = False
        loads = [
            lambda stop: load.run(stop, JOBS),
            SteadyLoad(steady, receiver.url, log).run,
            *watch(client, log, dict.fromkeys(stack.dispatchers, stack.triton)),
        ]
        injector = FaultInjector([*stack.servers, *stack.services], [], log, report_event)
        async with injector.supervise():
            await run_with_load(
                loads,
                lambda: replace_and_run(stack, plan, injector, report_event, client, load),
                log,
                load.count_unfinished,
                MEASURED_SECONDS,
            )
            report_event("all services are new and the load has ended")
            state = await api_state.read_all(client, log, COMPLETION_SECONDS)
    violations = check(log, state)
    for line in report.write(log, state, violations):
        report_line(line)
    return violations


def make_key(stack: Stack, installation: Installation, tenant: str) -> str:
    """Create a key with the command of the last release: this tree's needs the schema after the migration."""
    command = [installation.python, "-m", "services.gateway.commands.keys", "create", tenant]
    scopes = [word for scope in Scope for word in ("--scope", scope)]
    environment = os.environ | stack.environment
    environment |= {"CHARONIA_DATABASE_URL": connect_as("operator", stack.postgres.url)}
    printed = subprocess.run(
        [*command, *scopes], cwd=installation.tree, env=environment, check=True, capture_output=True, text=True
    )
    return printed.stdout.strip()


async def replace_and_run(
    stack: Stack, plan: Plan, injector: FaultInjector, report_event: Callable[[str], None], client: Client, load: Load
) -> None:
    """Replace all services. Then submit runs for a while: the last release may have no pipelines."""
    await replace_all(stack, plan, injector, report_event)
    await store_pipelines(client)
    load.with_runs = True
    await asyncio.sleep(RUNS_SECONDS)
    load.with_runs = False


async def replace_all(stack: Stack, plan: Plan, injector: FaultInjector, report_event: Callable[[str], None]) -> None:
    """Migrate, then replace one service of each kind after the other, in the order of docs/how-to/upgrade.md."""
    stack.installation = plan.new
    await asyncio.to_thread(stack.migrate)
    report_event("the database is migrated; all services are old")
    await asyncio.sleep(BETWEEN_SECONDS)
    first = stack.notifiers[0]
    await injector.restart(first, lambda: try_old_start(first, plan))
    kinds = stack.notifiers, stack.dispatchers, stack.gateways
    if plan.together:
        await asyncio.gather(*(replace_each(services, plan, injector) for services in kinds))
        return
    for services in kinds:
        await replace_each(services, plan, injector)


async def replace_each(services: Sequence[Service], plan: Plan, injector: FaultInjector) -> None:
    for service in services:
        await injector.restart(service, partial(service.install, plan.new))
        await asyncio.sleep(BETWEEN_SECONDS)


def try_old_start(service: Service, plan: Plan) -> None:
    """Prepare the start of a service that ended on the new schema. It starts as the last release, if that can use it.

    Raises AssertionError if the last release starts on a schema that it cannot use.
    """
    if plan.migration == "incompatible":
        service.launch()
        code = service.process.wait_exit(service.ready_within)
        assert code == OLD_SCHEMA, f"an old service ended with {code} on a schema that it cannot use"
        service.install(plan.new)
