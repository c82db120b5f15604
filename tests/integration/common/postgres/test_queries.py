"""Every named query fits the schema."""

from importlib import import_module
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from common.postgres import statements

ROOT = Path(__file__).parents[4]


def list_queries() -> list[tuple[str, str, str]]:
    """Return (common or the service, name, statement) of every query, without migrations."""
    found = []
    for file in sorted([*ROOT.glob("common/**/*.sql"), *ROOT.glob("services/**/*.sql")]):
        if file.parent.name == "migrations":
            continue
        package = ".".join(file.parent.relative_to(ROOT).parts)
        import_module(package)
        assert (files(package) / file.name).is_file()
        owner = ".".join(package.split(".")[: 2 if package.startswith("services") else 1])
        found += [(owner, name, each.text) for name, each in statements.load(package, file.name).items()]
    return found


QUERIES = list_queries()


@pytest.mark.parametrize(("package", "name", "statement"), QUERIES, ids=[f"{query[0]}.{query[1]}" for query in QUERIES])
async def test_the_database_accepts_every_query(
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
