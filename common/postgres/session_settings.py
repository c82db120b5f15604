"""The settings of PostgreSQL that each connection sets for its session.

A pooler may not pass them on: see docs/how-to/production.md.
"""

from collections.abc import Mapping

import asyncpg

# By default the server plans most of our statements each time: an array of one row looks cheaper than the ten rows
# that it assumes. That takes up to 1.5 ms for a statement of 0.3 ms. So a session keeps one plan for each statement.
# Such a plan is made without the values, perhaps while the tables are small. So plans that read whole tables are off.
# JIT is off too: it only pays for reports.
PLANNING: Mapping[str, str] = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_mergejoin": "off",
    "enable_hashjoin": "off",
    "enable_seqscan": "off",
}
# A client that freezes or vanishes keeps the locks of its transaction, and its session, until the server notices.
# A transaction of ours is never idle on purpose. A machine that vanishes is noticed within 11 s between statements, and
# within 10 s while the server sends to it.
ABANDONED: Mapping[str, str] = {
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "5s",
    "tcp_keepalives_interval": "2s",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}
RELAXED: Mapping[str, str] = {"synchronous_commit": "off"}
# A role or a database may have set less. What we promise after a commit must outlive a crash, on the standby too. More,
# such as remote_apply, stays.
_MAKE_DURABLE = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
"""


def basic_settings(application: str) -> dict[str, str]:
    """Return the settings of every session."""
    return {"application_name": application, **ABANDONED}


def session_settings(application: str, *, relaxed: bool) -> dict[str, str]:
    """Return the settings of a service's session. A crash of the server may lose the last second of a `relaxed` one."""
    return {**basic_settings(application), **PLANNING, **(RELAXED if relaxed else {})}


async def make_durable(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Let the commits of a session that is not relaxed wait for the disk, and for the synchronous standby."""
    await connection.execute(_MAKE_DURABLE)
