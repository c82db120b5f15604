"""Checks that commits wait for a standby where there is one, and not for longer than our statements do.

Otherwise a failover may lose what was promised, or a standby that hangs makes every call fail. One process checks.
"""

import asyncio
import math
from typing import NamedTuple

from prometheus_client import Gauge

from common.postgres import sql
from common.postgres.database import STATEMENT_SECONDS, Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage

QUERIES = sql.load("common.postgres", "standby_check.sql")
INTERVAL_SECONDS = 10.0
NAMES, SENDER_TIMEOUT = "synchronous_standby_names", "wal_sender_timeout"

unsafe_settings = Gauge(
    "charonia_standby_setting_unsafe",
    "Whether a setting of PostgreSQL lets a standby lose commits, or hold them up for too long.",
    ["setting"],
)

log = Log("standby")


class StandbySettings(NamedTuple):
    """The timeout is in milliseconds, and 0 is none."""

    standbys: int
    synchronous_names: str
    sender_timeout: int


async def check_standby(database: Database) -> None:
    """Check again and again, until cancelled. Log a setting when it becomes unsafe."""
    outage = Outage()
    known: dict[str, str] = {}
    try:
        while True:
            with outage.tolerate("standby.not_checked", log):
                known = await check_once(database, known)
            await asyncio.sleep(INTERVAL_SECONDS)
    finally:
        for setting in (NAMES, SENDER_TIMEOUT):  # another process checks now
            unsafe_settings.labels(setting).set(math.nan)


async def check_once(database: Database, known: dict[str, str]) -> dict[str, str]:
    """Set the gauges, and log what is not `known`. Return the unsafe settings, each with what to do."""
    record = await database.fetch_one(QUERIES["read_standby_settings"])
    assert record is not None, "the query returns one row"
    found = find_unsafe_settings(StandbySettings(*record.values()), can_fail_over=database.can_fail_over)
    for setting in (NAMES, SENDER_TIMEOUT):
        unsafe_settings.labels(setting).set(setting in found)
    for setting, error in found.items():
        if setting not in known:
            log.warning("standby.setting_unsafe", setting=setting, error=error)
    return found


def find_unsafe_settings(server: StandbySettings, *, can_fail_over: bool) -> dict[str, str]:
    """Return the unsafe settings of a server with standbys, each with what is wrong and what to set."""
    if not server.standbys and not can_fail_over:
        return {}
    found = {}
    if not server.synchronous_names.strip():
        found[NAMES] = (
            "no standby is synchronous, so a failover loses jobs that were accepted; set synchronous_standby_names, "
            "or synchronous_mode of Patroni"
        )
    if not 0 < server.sender_timeout < STATEMENT_SECONDS * 1000:
        shown = f"{server.sender_timeout / 1000:g} s" if server.sender_timeout else "off"
        found[SENDER_TIMEOUT] = (
            f"is {shown}, so a standby that hangs fails each commit after {STATEMENT_SECONDS:g} s; "
            f"set wal_sender_timeout to less, such as 5s"
        )
    return found
