"""One storm, from the start of the stack to the verdict."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.shapes import Secret, Subscription
from tests.storm import evidence, report
from tests.storm.breaker import Breaker
from tests.storm.check import Violation, check
from tests.storm.check_webhooks import find_repeats
from tests.storm.client import Client, open_client
from tests.storm.ledger import SUBSCRIPTION, Ledger
from tests.storm.load import Load
from tests.storm.receiver import Receiver

ENVIRONMENT = {
    "CHARONIA_LEASE": "5",
    "CHARONIA_DELIVERY_SCHEDULE": "0,0.5,1,2,4,8,15,15,15,15,15,15",
    "CHARONIA_DELIVERY_TIMEOUT": "6",  # the receiver shares the machine with all that is restarted
    "CHARONIA_SHUTDOWN_GRACE": "1",  # short, so that what still runs is handed back
}
REST = 180.0  # seconds: a lost doorbell is rung again after 60, an event unheard for 60 is found within 15


@dataclass(frozen=True)
class Plan:
    """`rate` is in jobs a second; the storm lasts longer than `seconds` where that needs a kill of each member."""

    directory: Path
    seed: int
    seconds: float
    rate: float
    in_flight: int = 400
    pace: float = 1.0  # less: less time between faults
    limit: int = 100_000  # jobs


def run(plan: Plan, tell: Callable[[str], None]) -> list[Violation]:
    """Starts a stack, storms, heals, checks and prints; the violations. The logs stay in the plan's directory."""
    settings = Settings.private(plan.directory, gateways=2, dispatchers=2, notifiers=2)
    stack = Stack(replace(settings, environment=ENVIRONMENT))
    try:
        with stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(storm(stack, plan, tell))
    finally:
        stack.postgres.delete()


async def storm(stack: Stack, plan: Plan, tell: Callable[[str], None]) -> list[Violation]:
    ledger = Ledger()
    receiver = Receiver(ledger, plan.seed)
    began = time.monotonic()

    def say(text: str) -> None:
        done = sum(each.job_id is not None for each in list(ledger.tries.values()))
        tell(f"{time.monotonic() - began:6.1f} s  {text}   ({done} jobs, {len(ledger.deliveries)} webhooks)")

    gateways = [gateway.url for gateway in stack.gateways]
    async with open_client(gateways, DEVELOPMENT_KEY) as client, receiver.listen():
        await subscribe(client, receiver)
        load = Load(client, receiver, ledger, seed=plan.seed, rate=plan.rate, in_flight=plan.in_flight)
        breaker = Breaker(stack, ledger, say, seed=plan.seed, pace=plan.pace)
        await blow(load, breaker, plan)
        say("healed, and the load has ended")
        found = await evidence.gather(client, ledger.list_jobs, REST)
        await evidence.add_sendings(client, found, find_repeats(ledger))
    violations = check(ledger, found)
    for line in report.write(ledger, found, violations):
        tell(line)
    return violations


async def subscribe(client: Client, receiver: Receiver) -> None:
    secret = await client.read("/v1/webhook-secret", Secret)
    receiver.trust("/callback/", secret.secret)
    request = {"url": receiver.url + SUBSCRIPTION, "events": ["job.*"]}
    subscription = await client.create("/v1/webhooks", request, Subscription)
    assert subscription.secret is not None, "it is shown once"
    receiver.trust(SUBSCRIPTION, subscription.secret)


async def blow(load: Load, breaker: Breaker, plan: Plan) -> None:
    """Load and faults together; at the end everything serves again and nothing is asked for any more."""
    over = asyncio.Event()
    loading = asyncio.create_task(load.run(over, plan.limit))
    try:
        await breaker.run(time.monotonic() + plan.seconds)
    finally:
        over.set()
        await loading
