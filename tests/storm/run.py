"""One storm, from the start of the stack to the result."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import uvloop

from deploy.local.servers.server import Server
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.storm import api_state, report
from tests.storm.check import Violation, check
from tests.storm.check_liveness import SETTLE_SECONDS
from tests.storm.client import Client, open_client
from tests.storm.fault_injector import FaultInjector
from tests.storm.fault_schedule import HANG_SECONDS, FaultSchedule
from tests.storm.load import Load
from tests.storm.model_events import watch_models
from tests.storm.pipelines import DEFINITIONS
from tests.storm.receiver import Receiver
from tests.storm.residency import limit_memory, list_models, wait_until_known
from tests.storm.slot_samples import watch_slots
from tests.storm.steady_load import SteadyLoad
from tests.storm.storm_log import SUBSCRIPTION, StormLog
from tests.storm.trouble import open_trouble
from tests.support.api.api_shapes import Secret, Subscription
from tests.support.database.checks import add_checks
from tests.support.stacks.key_command import make_key

ENVIRONMENT = {
    "CHARONIA_LEASE": "5",
    "CHARONIA_DELIVERY_SCHEDULE": "0,0.5,1,2,4,8,15,15,15,15,15,15",
    "CHARONIA_DELIVERY_TIMEOUT": "6",  # the receiver shares the machine with everything that restarts
    "CHARONIA_SHUTDOWN_GRACE": "1",  # short, so that running jobs are returned
    "CHARONIA_LOG_FORMAT": "json",
}
COMPLETION_SECONDS = 180.0  # many times the seconds after which a lost wake-up is sent again
MEASURED_SECONDS = 10.0  # before the first fault, and once the last one should have no effect any more
SAMPLES = 20  # of what is unfinished, in this time
BACKLOG = 2  # times as many unfinished jobs as there were at most before the faults
LONGEST_SETTLE_SECONDS = 120.0  # a crash after the last fault is one more fault

RunningLoad = Callable[[asyncio.Event], Coroutine[None, None, None]]


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
    residency: bool = False  # half of the memory that the models need


def run(plan: Plan, report_line: Callable[[str], None]) -> list[Violation]:
    """Run a storm and print its report. Return the violations. The logs stay in the plan's directory."""
    settings = Settings.private(plan.directory, gateways=2, dispatchers=2, notifiers=2)
    settings = replace(settings, environment=ENVIRONMENT, model_control="explicit")
    stack = Stack(limit_memory(settings, plan.directory / "models") if plan.residency else settings)
    try:
        with stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(add_checks(stack.postgres.url))
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
        open_client(gateways, await make_key(stack, "steady")) as steady,
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
        if plan.residency:
            await wait_until_known(client, list_models(stack.settings.model_repository), len(gateways))
        await store_pipelines(client)
        began = time.monotonic()
        load = Load(client, receiver, log, seed=plan.seed, rate=plan.rate, in_flight=plan.in_flight)
        loads = [
            lambda stop: load.run(stop, plan.limit),
            trouble.run,
            SteadyLoad(steady, receiver.url, log).run,
            *watch(client, log, dict.fromkeys(stack.dispatchers, stack.triton)),
        ]
        schedules = plan_faults(stack, plan)
        injector = FaultInjector([*stack.servers, *stack.services], schedules, log, report_event)
        async with injector.supervise():
            await run_with_load(
                loads, lambda: injector.run(time.monotonic() + plan.seconds), log, load.count_unfinished
            )
            report_event("all members are ready and the load has ended")
            state = await api_state.read_all(client, log, COMPLETION_SECONDS)
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


async def store_pipelines(client: Client) -> None:
    """Store the pipelines that the load runs, while all gateways are healthy."""
    for name, definition in DEFINITIONS.items():
        await client.create(f"/v1/pipelines/{name}", definition, msgspec.Raw, method="PUT")


def watch(client: Client, log: StormLog, dispatchers: Mapping[Server, Server]) -> Sequence[RunningLoad]:
    """Return what watches slots and models. `dispatchers` has the Triton of each."""
    logs = {dispatcher.process.log.path: triton.name for dispatcher, triton in dispatchers.items()}
    return [lambda stop: watch_slots(client, log, stop), lambda stop: watch_models(logs, log, stop)]


async def run_with_load(
    loads: Sequence[RunningLoad],
    faults: Callable[[], Coroutine[None, None, None]],
    log: StormLog,
    count_unfinished: Callable[[], int],
    measured: float = MEASURED_SECONDS,
) -> None:
    """Run the faults under load, with a quiet time of `measured` seconds before and after them.

    Each load ends when its event is set. At the end every member is ready and no call is in progress.
    """
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for load in loads:
            group.create_task(load(stop))
        try:
            usual = await watch_unfinished(count_unfinished, measured)
            await faults()
            await wait_until_settled(log, lambda: count_unfinished() <= BACKLOG * max(usual, 1))
            await asyncio.sleep(measured)
        finally:
            stop.set()


async def watch_unfinished(count_unfinished: Callable[[], int], seconds: float) -> int:
    """Return how many jobs of the load are unfinished at most, in the seconds before the first fault."""
    most = 0
    for _ in range(SAMPLES):
        await asyncio.sleep(seconds / SAMPLES)
        most = max(most, count_unfinished())
    return most


async def wait_until_settled(log: StormLog, is_worked_off: Callable[[], bool]) -> None:
    """Note when the last fault was over for SETTLE_SECONDS, and the jobs that had waited meanwhile have ended.

    How long these take depends on how fast the machine is. Another rule checks that no slot idles until then.
    """
    deadline = time.time() + LONGEST_SETTLE_SECONDS
    while time.time() < min(deadline, log.last_fault_ended + SETTLE_SECONDS) or not is_worked_off():
        if time.time() > deadline:
            return
        await asyncio.sleep(MEASURED_SECONDS / SAMPLES)
    log.settled_at = time.time()
