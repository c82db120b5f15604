"""The loops that look into the database survive its outages, and log each once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from common.errors import DatabaseUnavailable
from common.postgres import database_metrics, standby_check
from services.dispatcher.maintenance.history import history
from services.dispatcher.maintenance.retention import own_retention, retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from services.dispatcher.maintenance.usage import usage_counter
from services.dispatcher.quarantines import shared_quarantine
from services.dispatcher.quarantines.shared_quarantine import SharedQuarantine
from services.dispatcher.triton.quarantine import Quarantine
from services.notifier.cleanup import store as cleanup_store
from services.notifier.cleanup import sweep as cleanup
from services.notifier.overdue_deliveries.sweep import OverdueDeliveries

UNUSED: Any = None
LOOPS: list[tuple[list[tuple[object, str]], Callable[[], Awaitable[None]], str]] = [
    ([(database_metrics, "count")], lambda: database_metrics.collect_metrics(UNUSED), "database_metrics.unavailable"),
    ([(standby_check, "check_once")], lambda: standby_check.check_standby(UNUSED), "standby.not_checked"),
    (
        [(RetentionStore, f"remove_{rows}") for rows in ("keys", "expired_api_keys", "audit_log", "batches")],
        lambda: retention.run(RetentionStore(UNUSED), 1.0, 1.0),
        "retention.database_unavailable",
    ),
    (
        [(history, "sweep"), (history, "release_files"), (history, "remove_twins")],
        lambda: history.run(UNUSED, 1.0),
        "history.database_unavailable",
    ),
    ([(own_retention, "remove_retained")], lambda: own_retention.run(UNUSED), "retention.database_unavailable"),
    (
        [(usage_counter, "roll_up")],
        lambda: usage_counter.run(UNUSED, by_tenant=False),
        "usage.database_unavailable",
    ),
    (
        [(SharedQuarantine, "synchronize")],
        lambda: SharedQuarantine(Quarantine(), UNUSED, UNUSED, asyncio.Event(), "triton").run(),
        "quarantine.not_shared",
    ),
    (
        [(cleanup_store, f"delete_{rows}") for rows in ("old_recoveries", "expired_secrets", "unused_endpoints")],
        lambda: cleanup.run_cleanup(UNUSED, 1.0),
        "cleanup.database_unavailable",
    ),
    (
        [(OverdueDeliveries, "exhaust")],
        lambda: OverdueDeliveries(UNUSED, UNUSED, [1.0], endpoint_concurrency=1).run(),
        "overdue_deliveries.database_unavailable",
    ),
]


@pytest.mark.parametrize(("looks", "run", "event"), LOOPS)
async def test_an_outage_is_logged_once(
    looks: list[tuple[object, str]],
    run: Callable[[], Awaitable[None]],
    event: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = [True, True, True, *[False] * len(looks), True, True]

    async def look(*_: object) -> int:
        if not away:
            raise asyncio.CancelledError
        if away.pop(0):
            raise DatabaseUnavailable
        return 0

    for owner, name in looks:
        monkeypatch.setattr(owner, name, look)
    wait = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: wait(0))
    monkeypatch.setattr(shared_quarantine, "INTERVAL_SECONDS", 0.0)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await run()
    assert caplog.messages == [event] * 2
