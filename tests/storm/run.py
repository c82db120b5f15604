"""One storm, from the start of the stack to the result."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.storm import api_state, report
from tests.storm.check import Violation, check
from tests.storm.check_webhooks import find_unexplained_repeats
from tests.storm.client import Client, open_client
from tests.storm.fault_injector import FaultInjector
from tests.storm.fault_schedule import HANG_SECONDS, FaultSchedule
from tests.storm.load import Load
from tests.storm.receiver import Receiver
from tests.storm.storm_log import SUBSCRIPTION, StormLog
from tests.storm.trouble import Trouble, open_trouble
from tests.support.api.api_shapes import Secret, Subscription
from tests.support.stacks.key_command import make_key

ENVIRONMENT = {
    "CHARONIA_LEASE": "5",
    "CHARONIA_DELIVERY_SCHEDULE": "0,0.5,1,2,4,8,15,15,15,15,15,15",
    "CHARONIA_DELIVERY_TIMEOUT": "6",  # the receiver shares the machine with everything that restarts
    "CHARONIA_SHUTDOWN_GRACE": "1",  # short, so that running jobs are returned
}
COMPLETION_SECONDS = 180.0  # many times the seconds after which a lost wake-up is sent again


@dataclass(frozen=True)
class Plan:
    """The settings of a storm. `rate` is in jobs per second.

    The storm lasts longer than `seconds` if a kill of each member needs that.
    """

    directory: Path
    seed: int
    seconds: float
    rate: float
    in_flight: int = 400
    pace: float = 1.0  # lower values mean less time between faults
    limit: int = 100_000  # jobs
    backlog: int = 50_000  # pending deliveries of another tenant's subscription


def run(plan: Plan, report_line: Callable[[str], None]) -> list[Violation]:
    """Run a storm and print its report. Return the violations. The logs stay in the plan's directory."""
    settings = Settings.private(plan.directory, gateways=2, dispatchers=2, notifiers=2)
    stack = Stack(replace(settings, environment=ENVIRONMENT, model_control="explicit"))
    try:
        with stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(storm(stack, plan, report_line))
    finally:
        stack.postgres.delete()


async def storm(stack: Stack, plan: Plan, report_line: Callable[[str], None]) -> list[Violation]:
    log = StormLog()
    receiver = Receiver(log, plan.seed)
    began = time.monotonic()

    def report_event(text: str) -> None:
        report_line(f"{time.monotonic() - began:6.1f} s  {text}   {log.describe()}")

    gateways = [gateway.url for gateway in stack.gateways]
    async with (
        open_client(gateways, DEVELOPMENT_KEY) as client,
        receiver.listen(),
        open_trouble(
            gateways,
            await make_key(stack, "trouble"),
            stack.environment["CHARONIA_DATABASE_URL"],
            receiver,
            plan.backlog,
        ) as trouble,
    ):
        await subscribe(client, receiver)
        began = time.monotonic()
        load = Load(client, receiver, log, seed=plan.seed, rate=plan.rate, in_flight=plan.in_flight)
        schedules = plan_faults(stack, plan)
        injector = FaultInjector([*stack.servers, *stack.services], schedules, log, report_event)
        async with injector.supervise():
            await run_load_and_faults(load, trouble, injector, plan)
            report_event("all members are ready and the load has ended")
            state = await api_state.read_state(client, log.list_jobs, COMPLETION_SECONDS)
            await api_state.add_delivery_attempts(client, state, find_unexplained_repeats(log))
            troubles = await trouble.find_violations(COMPLETION_SECONDS)
    violations = [*check(log, state), *troubles]
    for line in report.write(log, state, violations):
        report_line(line)
    return violations


def plan_faults(stack: Stack, plan: Plan) -> list[FaultSchedule]:
    """Return schedules in which one server, one service with the number 1, and one with 2 fail at a time."""
    for dispatcher in stack.dispatchers:
        dispatcher.ready_within += HANG_SECONDS  # it is not ready before Triton answers
    groups = zip(stack.gateways, stack.dispatchers, stack.notifiers, strict=True)
    named = {f"services-{index}": members for index, members in enumerate(groups)}
    return [
        FaultSchedule(name, each, plan.seed, plan.pace) for name, each in {"servers": stack.servers, **named}.items()
    ]


async def subscribe(client: Client, receiver: Receiver) -> None:
    secret = await client.read("/v1/webhook-secret", Secret)
    receiver.set_secret("/callback/", secret.secret)
    request = {"url": receiver.url + SUBSCRIPTION, "events": ["job.*"]}
    subscription = await client.create("/v1/webhooks", request, Subscription)
    assert subscription.secret is not None, "a new subscription shows its secret"
    receiver.set_secret(SUBSCRIPTION, subscription.secret)


async def run_load_and_faults(load: Load, trouble: Trouble, injector: FaultInjector, plan: Plan) -> None:
    """Run load, trouble and faults together. At the end every member is ready and no call is in progress."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run(stop, plan.limit))
        group.create_task(trouble.run(stop))
        try:
            await injector.run(time.monotonic() + plan.seconds)
        finally:
            stop.set()
