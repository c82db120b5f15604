"""Named queries."""

from importlib.resources import files

import pytest

from common.postgres import sql
from deploy.local.settings import ROOT

FILES = [
    (".".join(file.parent.relative_to(ROOT).parts), file.name)
    for folder in ("common", "services")
    for file in sorted((ROOT / folder).rglob("*.sql"))
    if file.parent.name != "migrations"
]


@pytest.mark.parametrize(("package", "file"), FILES)
def test_each_block_is_a_name_and_one_statement(package: str, file: str) -> None:
    queries = sql.load(package, file)
    assert queries
    names = sql._NAME_LINE.findall((files(package) / file).read_text())
    assert sorted(names) == sorted(queries), "two queries of one name"
    for name, query in queries.items():
        lines = query.splitlines()
        assert lines[0] == f"-- {name}"
        code = [line.split("--")[0].strip() for line in lines]
        assert not any(";" in line for line in code), f"{name} is more than one statement"


def test_the_separator_goes_and_comments_stay() -> None:
    assert sql.load("services.gateway.webhooks")["find_tenant_secret"] == (
        "-- find_tenant_secret\n-- Returns the secret of a tenant ($1).\n"
        "SELECT webhook_secret AS secret FROM tenants WHERE id = $1"
    )
