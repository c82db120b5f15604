"""Every named query fits the migrated schema."""

from importlib import import_module
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from common import sql

ROOT = Path(__file__).parents[2]


def list_queries() -> list[tuple[str, str, str]]:
    """(package, name, statement) of every query of every .sql file, migrations apart."""
    found = []
    for file in sorted([*ROOT.glob("common/*.sql"), *ROOT.glob("services/*/*.sql")]):
        package = ".".join(file.parent.relative_to(ROOT).parts)
        import_module(package)
        assert (files(package) / file.name).is_file()
        found += [(package, name, text) for name, text in sql.load(package, file.name).items()]
    return found


QUERIES = list_queries()


@pytest.mark.parametrize(("package", "name", "statement"), QUERIES, ids=[f"{query[0]}.{query[1]}" for query in QUERIES])
async def test_the_database_takes_every_query(
    schema: "asyncpg.Connection[asyncpg.Record]", package: str, name: str, statement: str
) -> None:
    prepared = await schema.prepare(statement)
    assert prepared.get_query() == statement


def test_every_service_has_its_queries() -> None:
    assert {package for package, _, _ in QUERIES} == {
        "common",
        "services.dispatcher",
        "services.gateway",
        "services.notifier",
    }
