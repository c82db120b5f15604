"""An endpoint that hangs takes nothing from the others, however much waits for it.

How fast the others are beside it is measured by `python -m benchmarks notifier`.
"""

from benchmarks.seed import add_pending
from deploy.local.stack import Stack
from tests.acceptance.backlog import EACH, number_of, open_backlog
from tests.acceptance.metrics import read_metric
from tests.acceptance.pit import dig
from tests.acceptance.receiver import Receiver
from tests.acceptance.waiting import eventually

PENDING = 10_000
HEALTHY = 100  # endpoints
EVENTS = 3  # for each of them
SOON = 60.0  # seconds


async def test_an_endpoint_that_hangs_takes_nothing_from_the_others(stack: Stack, receiver: Receiver) -> None:
    inboxes = [receiver.inbox() for _ in range(HEALTHY)]
    async with (
        dig() as pit,
        open_backlog(stack.environment) as backlog,
        backlog.subscribers([pit.url, *(inbox.url for inbox in inboxes)]) as (hanging, *healthy),
    ):
        await add_pending(backlog.database, hanging, PENDING)

        async def is_held() -> bool:
            return len(pit.held) == EACH

        await eventually(is_held, f"{EACH} attempts hang", SOON)

        events = await backlog.add_events([each.tenant_id for each in healthy] * EVENTS)

        async def is_over() -> bool:
            return (await backlog.count([each.webhook_id for each in healthy])).succeeded == len(events)

        await eventually(is_over, "all healthy endpoints have all of theirs", SOON)
        left = await backlog.count([hanging.webhook_id])
        in_flight = await read_metric(f"{stack.notifiers[0].url}/metrics", "charonia_deliveries_in_flight")

    for inbox in inboxes:
        assert len({number_of(delivery) for delivery in inbox.deliveries}) == len(inbox.deliveries) == EVENTS
    assert (left.waiting + left.held, left.succeeded) == (PENDING, 0)
    assert pit.most == EACH  # the rest waits in PostgreSQL, and takes no place that others could have
    assert in_flight <= EACH
