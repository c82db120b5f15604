"""A hanging endpoint takes nothing from the others, however much is queued for it."""

from deploy.local.stack import Stack
from tests.support.database.backlog import ENDPOINT_CONCURRENCY, open_backlog, read_event_number
from tests.support.database.seed import add_pending
from tests.support.receivers.hanging_receiver import open_hanging_receiver
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

PENDING = 2_000
HEALTHY = 40  # endpoints
EVENTS = 3  # for each endpoint
WITHIN = 60.0  # seconds


async def test_hanging_endpoint_does_not_slow_others(stack: Stack, receiver: Receiver) -> None:
    inboxes = [receiver.inbox() for _ in range(HEALTHY)]
    async with (
        open_hanging_receiver() as hanging_receiver,
        open_backlog(stack.environment) as backlog,
        backlog.subscribers([hanging_receiver.url, *(inbox.url for inbox in inboxes)]) as (hanging, *healthy),
    ):
        await add_pending(backlog.database, hanging, PENDING)

        async def is_full() -> bool:
            return len(hanging_receiver.connections) == ENDPOINT_CONCURRENCY

        await eventually(is_full, f"{ENDPOINT_CONCURRENCY} attempts hang", WITHIN)

        events = await backlog.add_events([each.tenant_id for each in healthy] * EVENTS)

        async def has_ended() -> bool:
            return (await backlog.count([each.webhook_id for each in healthy])).succeeded == len(events)

        await eventually(has_ended, "every healthy endpoint has all its webhooks", WITHIN)
        remaining = await backlog.count([hanging.webhook_id])

        async def is_bounded() -> bool:  # an attempt is in flight until a moment after its record
            in_flight = await read_metric(f"{stack.notifiers[0].url}/metrics", "charonia_deliveries_in_flight")
            return in_flight <= ENDPOINT_CONCURRENCY

        await eventually(is_bounded, "the rest waits in PostgreSQL and takes no slot from others")

    for inbox in inboxes:
        assert len({read_event_number(delivery) for delivery in inbox.deliveries}) == len(inbox.deliveries) == EVENTS
    assert (remaining.waiting + remaining.claimed, remaining.succeeded) == (PENDING, 0)
    assert hanging_receiver.most_connections == ENDPOINT_CONCURRENCY
