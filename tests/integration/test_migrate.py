"""Bringing a database to the newest schema."""

import asyncio
from uuid import uuid4

import asyncpg
import httpx
import pytest

from common.database import Database
from common.errors import SettingsError
from common.migrate import list_migrations, main, migrate
from deploy.local.postgres import Postgres

NAMES = [name for name, _ in list_migrations()]


@pytest.fixture
def empty_url(postgres: Postgres) -> str:
    return postgres.create_database(f"empty_{uuid4().hex}")


async def test_everything_is_applied_once_and_in_order(empty_url: str) -> None:
    assert await migrate(empty_url) == NAMES
    assert await migrate(empty_url) == []


async def test_concurrent_runs_wait_for_each_other(empty_url: str) -> None:
    applied = await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    assert sorted(applied) == [[], [], [], NAMES]


@pytest.mark.parametrize("change", [{"username": "nobody"}, {"path": "/nowhere"}], ids=["user", "database"])
def test_a_refused_login_names_the_variable(
    empty_url: str, change: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = httpx.URL(empty_url).copy_with(**change)
    monkeypatch.setenv("CHARONIA_DATABASE_URL", str(url))
    assert main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("migrate: CHARONIA_DATABASE_URL is wrong: ")
    with pytest.raises(SettingsError, match=r"^CHARONIA_DATABASE_URL is wrong: "):
        asyncio.run(Database.connect(str(url), application="tests"))


async def test_a_migration_that_fails_leaves_nothing_and_is_tried_again(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [*list_migrations(), ("9999_broken.sql", "CREATE TABLE half (id integer); SELECT nonsense")]
    with monkeypatch.context() as patch:
        patch.setattr("common.migrate.list_migrations", lambda: broken)
        with pytest.raises(asyncpg.UndefinedColumnError):
            await migrate(empty_url)
    connection = await asyncpg.connect(empty_url)
    try:
        assert await connection.fetchval("SELECT to_regclass('half')") is None
    finally:
        await connection.close()
    assert await migrate(empty_url) == []
