"""Records the results of attempts in batches, with the effects on their endpoints and subscriptions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, assert_never

from common.errors import Unavailable
from common.outbox import Outbox, OutboxRow
from common.postgres.batcher import Batcher
from common.postgres.database import Connection
from services.notifier import retry_schedule
from services.notifier.attempt_result import AttemptResult
from services.notifier.operational_events import add_disabled_events, add_exhausted_events
from services.notifier.store import attempts
from services.notifier.store.attempts import AttemptRecord, AttemptStore, RecordedAttempts
from services.notifier.store.claims import Claim
from services.notifier.store.endpoints import lock_endpoints, reschedule_endpoints

# A database outage shorter than this repeats no attempt. No claim is possible during the outage, and
# the fence protects later claims.
PERSIST_SECONDS = 300.0
PAUSE_SECONDS = 0.5  # between two tries while the database is unavailable


class AttemptRecorder:
    def __init__(
        self,
        store: AttemptStore,
        outbox: Outbox,
        wake: Callable[[], None],
        *,
        endpoint_concurrency: int,
        disable_after: float,
    ) -> None:
        """`disable_after`: seconds a subscription may fail without a success.

        `wake` is called if something is due.
        """
        self._store = store
        self._outbox = outbox
        self._wake = wake
        self._endpoint_concurrency = endpoint_concurrency
        self._disable_after = disable_after
        self._batches: Batcher[AttemptRecord, bool] = Batcher(self.write, name="attempts")

    async def record(self, record: AttemptRecord) -> bool:
        """Record an attempt. Return False if a newer claim exists or the database stayed unavailable."""
        deadline = asyncio.get_running_loop().time() + PERSIST_SECONDS
        while True:
            try:
                return await self._batches.submit(record)
            except Unavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    return False
                await asyncio.sleep(PAUSE_SECONDS)  # shorter than the pause before this process claims again

    async def write(self, records: list[AttemptRecord]) -> list[bool]:
        if all(
            record.error is None for record in records
        ):  # successes have no further effects: one statement is enough
            recorded = await self._store.record_successes(records)
        else:
            recorded = await self._write_failures(records)
        if recorded.due:
            self._wake()
        return [record.id in recorded.statuses for record in records]

    async def _write_failures(self, records: Sequence[AttemptRecord]) -> RecordedAttempts:
        endpoints = list({record.endpoint_id for record in records})
        async with self._store.transaction() as connection:
            await lock_endpoints(connection, endpoints)
            statuses, _ = await attempts.record_attempts(connection, records)
            messages: list[OutboxRow] = []
            if exhausted := [delivery for delivery, status in statuses.items() if status == "exhausted"]:
                messages += await add_exhausted_events(connection, exhausted)
            if failed := [each for each in records if each.error is not None and each.counted and each.id in statuses]:
                messages += await self._disable(connection, failed)
            wait = await reschedule_endpoints(connection, endpoints, self._endpoint_concurrency)
        self._outbox.announce(messages)
        return RecordedAttempts(statuses, wait == 0)

    async def _disable(self, connection: Connection, failed: Sequence[AttemptRecord]) -> list[OutboxRow]:
        """Disable subscriptions after a 410 or after failing for too long. Return the wake-up messages."""
        webhooks = list({each.webhook_id for each in failed if each.disables_webhook and each.webhook_id is not None})
        endpoints = list({each.endpoint_id for each in failed})
        disabled = await attempts.disable_webhooks(connection, webhooks, endpoints, self._disable_after)
        if not disabled:
            return []
        await attempts.cancel_pending(connection, [each.id for each in disabled])
        return await add_disabled_events(connection, disabled)


def make_record(claim: Claim, result: AttemptResult, decision: retry_schedule.Decision) -> AttemptRecord:
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
        endpoint_id=claim.endpoint_id,
        webhook_id=claim.webhook_id,
        disables_webhook=disables_webhook,
    )
