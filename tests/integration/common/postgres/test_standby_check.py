"""A dispatcher finds what is unsafe about a real standby, with the rights of its role."""

import pytest

from common.postgres.database import Database
from common.postgres.migrate import migrate
from common.postgres.roles import parse_passwords
from common.postgres.standby_check import NAMES, SENDER_TIMEOUT, check_once
from deploy.local.servers.postgres import Postgres, connect_as, role_passwords
from tests.integration.waiting import until
from tests.support.database.standby import NAME
from tests.support.telemetry.process_metrics import count

METRIC = "charonia_standby_setting_unsafe"


def set_up(server: Postgres, setting: str, value: str) -> None:
    server.query(f"ALTER SYSTEM SET {setting} = '{value}'")
    server.query("SELECT pg_reload_conf()")
    server.query("SELECT 1")  # a new session: the server answers it after it has told all others


@pytest.mark.usefixtures("standby")
async def test_unsafe_settings_are_logged_once_and_counted_until_they_are_good(
    primary: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    await migrate(primary.url, parse_passwords(role_passwords(primary.url).split(",")))
    database = await Database.connect(connect_as("dispatcher", primary.url), application="tests")

    async def check(known: dict[str, str]) -> dict[str, str]:
        caplog.clear()
        return await check_once(database, known)

    found = await check({})
    assert list(found) == [SENDER_TIMEOUT]  # the default is a minute
    assert caplog.messages == ["standby.setting_unsafe"]
    assert [count(METRIC, setting=each) for each in (NAMES, SENDER_TIMEOUT)] == [0, 1]
    set_up(primary, NAMES, "")

    async def has_no_names() -> bool:
        return NAMES in await check(found)

    await until(has_no_names, "the session has the new settings")
    assert caplog.messages == ["standby.setting_unsafe"]  # only the new one
    assert [count(METRIC, setting=each) for each in (NAMES, SENDER_TIMEOUT)] == [1, 1]
    assert list(await check({NAMES: "", SENDER_TIMEOUT: ""})) == [NAMES, SENDER_TIMEOUT]
    assert caplog.messages == []
    set_up(primary, NAMES, NAME)
    set_up(primary, SENDER_TIMEOUT, "5s")

    async def is_good() -> bool:
        return await check({}) == {}

    await until(is_good, "the session has the good settings")
    assert [count(METRIC, setting=each) for each in (NAMES, SENDER_TIMEOUT)] == [0, 0]
    await database.close()


async def test_a_server_without_standbys_needs_neither(database: Database) -> None:
    assert await check_once(database, {}) == {}
