"""Scenarios of what notifiers do by themselves. The rows that lead to it are written past the proxy."""

from common import ids
from services.gateway.events.feed.store import FeedStore
from services.notifier.cleanup import store as cleanup
from services.notifier.new_deliveries.store import NewDeliveryStore
from services.notifier.overdue_deliveries.sweep import OverdueDeliveries
from tests.support.api.model_inputs import fault
from tests.support.lost_answers.job_scenarios import ONCE
from tests.support.lost_answers.maintenance_scenarios import DAYS
from tests.support.lost_answers.world import DELIVERY_SECONDS, World, parse, repeat
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.support.waiting import eventually


async def clean_up(world: World) -> None:
    """Events without a job, recoveries, secrets and endpoints that nothing needs."""
    own, tenant = world.own, world.removed_id
    await own.execute(
        "INSERT INTO events (id, tenant_id, type, created_at, body, traceparent) VALUES "
        "(gen_random_uuid(), $1, 'webhook.test', now() - interval '400 days', '', '')",
        tenant,
    )
    await own.execute(
        "INSERT INTO old_secrets (id, tenant_id, secret, until) "
        "VALUES (gen_random_uuid(), $1, '', now() - interval '1 s')",
        tenant,
    )
    made = (await world.removed.call("POST", "/v1/webhooks", 201, json={"url": world.inbox().url})).json()
    await own.execute(
        "INSERT INTO recoveries (id, webhook_id, since, until, next_at, created_at) VALUES (gen_random_uuid(), $1, "
        "now() - interval '400 days', now(), NULL, now() - interval '400 days')",
        parse(ids.Kind.WEBHOOK, made["id"]),
    )
    async with world.database() as database:
        await own.execute(
            "UPDATE events SET xid = '9000000000000000000' WHERE tenant_id = $1 AND job_id IS NULL", tenant
        )
        await repeat(lambda: FeedStore(database).adopt_restored(10))
        await repeat(lambda: cleanup.delete_old_recoveries(database, 30 * DAYS, 10))
        await repeat(lambda: cleanup.delete_expired_secrets(database))
        await own.execute(
            "INSERT INTO endpoints (id, tenant_id, origin) VALUES (gen_random_uuid(), $1, 'http://nobody')", tenant
        )
        await repeat(lambda: cleanup.delete_unused_endpoints(database, 10))


async def exhaust(world: World) -> None:
    """A delivery behind an open circuit is given up after a whole schedule; the check of its endpoint was lost."""
    client, inbox = world.client, world.inbox(*[500] * 9)
    body = {"url": inbox.url, "events": ["job.failed"], "models": ["faulty"]}
    made = (await client.call("POST", "/v1/webhooks", 201, json=body)).json()
    endpoint = parse(ids.Kind.WEBHOOK, made["id"])
    await world.own.execute(
        "UPDATE endpoints SET failures = 30, failing_since = now() - interval '1 day', "
        "open_until = now() + interval '1 hour' WHERE id = $1",
        endpoint,
    )
    await client.submit("faulty", fault("invalid"), "failed", retry=ONCE)

    async def is_scheduled() -> bool:
        waiting = "SELECT FROM deliveries WHERE endpoint_id = $1 AND next_at IS NOT NULL"
        return bool(await world.own.fetch(waiting, endpoint))

    await eventually(is_scheduled, "the delivery is scheduled", DELIVERY_SECONDS)
    async with world.database() as database:

        async def is_missed() -> bool:
            """The notifier may correct the check first."""
            await world.own.execute("UPDATE endpoints SET next_at = NULL WHERE id = $1", endpoint)
            await repeat(lambda: NewDeliveryStore(database).check_missed_endpoints(30))
            return not world.loser.list_missing(["notifier/new_deliveries: check_missed_endpoints"])

        await eventually(is_missed, "the answer of the check is lost", DELIVERY_SECONDS)
        await world.own.execute(
            "UPDATE deliveries SET schedule_started_at = now() - interval '1 day' "
            "WHERE endpoint_id = $1 AND next_at IS NOT NULL",
            endpoint,
        )
        # Nothing is published: the notifier finds events by itself.
        overdue = OverdueDeliveries(database, RecordedWakeUps(), [1.0], endpoint_concurrency=32)
        await repeat(overdue.exhaust)

    async def is_exhausted() -> bool:
        (row,) = await world.own.fetch(
            "SELECT count(*) FROM deliveries WHERE endpoint_id = $1 AND status = 'exhausted'", endpoint
        )
        return bool(row[0])

    await eventually(is_exhausted, "the delivery is exhausted", DELIVERY_SECONDS)


SCENARIOS = (clean_up, exhaust)
