"""The commands of the guide take a database back to a time between a base backup and a mistake."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.postgres.migrate import migrate
from deploy.local.processes.ports import free_ports
from deploy.local.servers.account import Account
from deploy.local.servers.postgres import DATABASE, Postgres, find_programs
from tests.support.guides import find_blocks
from tests.support.stacks.restored_stack import GUIDE, read_commands
from tests.support.waiting import eventually

EXAMPLE_TIME = "2026-11-23 09:30:00+00"
ADD = "INSERT INTO tenants (id, name, webhook_secret) VALUES (gen_random_uuid(), '{}', '')"
NAMES = "SELECT name FROM tenants ORDER BY name"


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    """Folders of the test, by those in the guide."""
    archive = tmp_path / "archive"
    Account.for_postgres().place(archive)
    return {"/archive": str(archive.resolve()), "/backup/base": str(tmp_path / "base")}


@pytest.fixture
def server(tmp_path: Path, folders: dict[str, str]) -> Iterator[Postgres]:
    """A server with the settings of the guide."""
    (settings,) = find_blocks(GUIDE.read_text().split("\n## Archive the log\n")[1], "ini")
    lines = [line.split(" = ") for line in place(settings, folders).splitlines()]
    options = {name: value.strip("'") for name, value in lines}
    server = Postgres(tmp_path, *free_ports(1), durable=False, options=options)
    try:
        server.start()
        yield server
    finally:
        server.delete()
        Account.for_postgres().remove(tmp_path / "archive")


def place(text: str, folders: dict[str, str]) -> str:
    for known, own in folders.items():
        text = text.replace(known, own)
    return text


def run(command: str, server: Postgres, data: Path) -> None:
    own = {"REPLICATION_URL": server.url, "PGDATA": str(data)}
    environment = {"PATH": f"{find_programs()}:{os.environ['PATH']}", **own}
    subprocess.run(["sh", "-ec", command], env=environment, check=True, timeout=60)


async def test_a_mistake_after_a_base_backup_is_undone(
    server: Postgres, tmp_path: Path, folders: dict[str, str]
) -> None:
    back_up, restore = [place(command, folders) for command in read_commands("Archive the log")]
    data = (tmp_path / "postgres" / "data").resolve()
    await migrate(server.url)
    server.query(ADD.format("before"), DATABASE)
    run(back_up, server, data)
    server.query(ADD.format("after"), DATABASE)
    time = server.query("SELECT clock_timestamp()")
    server.query("DELETE FROM tenants", DATABASE)
    server.query("SELECT pg_switch_wal()")
    server.stop()
    assert EXAMPLE_TIME in restore
    run(restore.replace(EXAMPLE_TIME, time), server, data)
    for path in (data, *data.rglob("*")):
        Account.for_postgres().give(path)
    server.start()

    async def is_primary() -> bool:
        return server.query("SELECT pg_is_in_recovery()") == "f"

    await eventually(is_primary, "the server has replayed the log")
    assert server.query(NAMES, DATABASE).splitlines() == ["after", "before"]
    assert await migrate(server.url) == []
    server.query(ADD.format("new"), DATABASE)
