"""Records the results of attempts in batches, with the effects on their endpoints and subscriptions."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, assert_never
from uuid import UUID

from common import ids
from common.errors import Unavailable
from common.postgres.audit_log import AuditEntry, add_entries
from common.postgres.batcher import Batcher
from common.postgres.database import Connection
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.delivery_attempts import retry_schedule, store
from services.notifier.delivery_attempts.result import AttemptResult
from services.notifier.delivery_attempts.store import AttemptRecord, AttemptStore, Health
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.endpoints.store import lock_endpoints, reschedule_endpoints
from services.notifier.operational_events.events import add_disabled_events, add_exhausted_events
from services.notifier.operational_events.store import DisabledWebhook

# A database outage shorter than this repeats no attempt. No claim is possible during the outage, and
# the fence protects later claims.
PERSIST_SECONDS = 300.0
PAUSE_SECONDS = 0.5  # between two tries while the database is unavailable


class AttemptRecorder:
    def __init__(
        self,
        store: AttemptStore,
        wake_ups: WakeUpPublisher,
        due: DueEndpoints,
        *,
        endpoint_concurrency: int,
        disable_after: float,
    ) -> None:
        """`disable_after`: seconds a subscription may fail without a success."""
        self._store = store
        self._wake_ups = wake_ups
        self._due = due
        self._endpoint_concurrency = endpoint_concurrency
        self._disable_after = disable_after
        self._successes: Batcher[AttemptRecord, bool] = Batcher(self._write_successes, name="successes")
        self._attempts: Batcher[AttemptRecord, bool] = Batcher(self._write_attempts, name="attempts")

    async def record(self, record: AttemptRecord) -> bool:
        """Record an attempt. Return False if a newer claim exists or the database stayed unavailable."""
        deadline = asyncio.get_running_loop().time() + PERSIST_SECONDS
        while True:
            try:
                if record.error is None and await self._successes.submit(record):
                    return True
                return await self._attempts.submit(record)
            except Unavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    return False
                await asyncio.sleep(PAUSE_SECONDS)  # shorter than the pause before this process claims again

    async def _write_successes(self, records: list[AttemptRecord]) -> list[bool]:
        """Record successes to healthy endpoints, which change nothing else. They wait for no failure."""
        recorded = await self._store.record_successes(records, self._endpoint_concurrency)
        has_waiting = {each.id: each.has_waiting for each in recorded}
        self._due.add(record.endpoint_id for record in records if has_waiting.get(record.id))
        return [record.id in has_waiting for record in records]

    async def _write_attempts(self, records: list[AttemptRecord]) -> list[bool]:
        """Record any attempts, with their effects on endpoints and subscriptions."""
        endpoints = list({record.endpoint_id for record in records})
        async with self._store.transaction() as connection:
            await lock_endpoints(connection, endpoints)
            recorded = await store.record_attempts(connection, records)
            current = {each.id for each in recorded if not each.has_former_url}
            telling = [each for each in records if each.id in current]
            await store.update_health(connection, list(summarize(telling)))
            messages: list[WakeUp] = []
            if ended := [each.id for each in recorded if each.status != "pending"]:
                await store.release_blocked(connection, ended)
            if exhausted := [each.id for each in recorded if each.status == "exhausted"]:
                messages += await add_exhausted_events(connection, exhausted)
            if failed := [each for each in telling if each.error is not None and each.counted]:
                messages += await self._disable(connection, failed)
            wait = await reschedule_endpoints(connection, endpoints, self._endpoint_concurrency)
        self._wake_ups.announce(messages)
        if wait == 0:
            self._due.wake()
        changed = {each.id for each in recorded}
        return [record.id in changed for record in records]

    async def _disable(self, connection: Connection, failed: Sequence[AttemptRecord]) -> list[WakeUp]:
        """Disable subscriptions after a 410 or after failing for too long. Return the wake-up messages."""
        webhooks = list({each.webhook_id for each in failed if each.disables_webhook and each.webhook_id is not None})
        endpoints = list({each.endpoint_id for each in failed})
        disabled = await store.disable_webhooks(connection, webhooks, endpoints, self._disable_after)
        if not disabled:
            return []
        await add_entries(connection, list(map(make_entry, disabled)))
        await store.begin_canceling(connection, [each.id for each in disabled])
        return await add_disabled_events(connection, disabled)


def summarize(records: Iterable[AttemptRecord]) -> Iterator[Health]:
    """Yield what counted attempts say of each endpoint."""
    by_endpoint: dict[UUID, list[AttemptRecord]] = {}
    for record in records:
        if record.counted:
            by_endpoint.setdefault(record.endpoint_id, []).append(record)
    for endpoint, counted in by_endpoint.items():
        yield Health(endpoint, any(record.error is None for record in counted), len(counted))


def make_entry(webhook: DisabledWebhook) -> AuditEntry:
    target, changes = ids.encode(ids.Kind.WEBHOOK, webhook.id), {"reason": webhook.disabled_reason}
    return AuditEntry(webhook.tenant_id, "notifier", "webhook.disabled", target, changes)


def make_record(claim: ClaimedDelivery, result: AttemptResult, decision: retry_schedule.Decision) -> AttemptRecord:
    status: Literal["pending", "succeeded", "exhausted"]
    delay, counted, disables_webhook = None, True, False
    match decision:
        case retry_schedule.Succeeded():
            status = "succeeded"
        case retry_schedule.Exhausted():
            status, disables_webhook = "exhausted", decision.disables_webhook
        case retry_schedule.Rescheduled():
            status, delay, counted = "pending", decision.delay, decision.counted
        case _:
            assert_never(decision)
    return AttemptRecord(
        id=claim.id,
        attempt=claim.attempt,
        status=status,
        delay=delay,
        counted=counted,
        started_at=claim.claimed_at,
        duration_ms=result.seconds * 1000,
        status_code=result.status_code,
        error=result.error,
        response=result.response,
        url=claim.url,
        endpoint_id=claim.endpoint_id,
        webhook_id=claim.webhook_id,
        disables_webhook=disables_webhook,
    )
