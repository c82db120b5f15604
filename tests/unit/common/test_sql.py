"""Named queries."""

from importlib.resources import files

import pytest

from common import sql

FILES = [
    ("common", "outbox.sql"),
    ("services.gateway", "queries.sql"),
    ("services.dispatcher", "queries.sql"),
    ("services.notifier", "queries.sql"),
]


@pytest.mark.parametrize(("package", "file"), FILES)
def test_each_block_is_a_name_and_one_statement(package: str, file: str) -> None:
    queries = sql.load(package, file)
    assert queries
    names = sql.BLOCK.findall((files(package) / file).read_text())
    assert sorted(names) == sorted(queries), "two queries of one name"
    for name, query in queries.items():
        lines = query.splitlines()
        assert lines[0] == f"-- {name}"
        code = [line.split("--")[0].strip() for line in lines]
        assert not any(";" in line for line in code), f"{name} is more than one statement"


def test_the_separator_goes_and_comments_stay() -> None:
    assert sql.load("common", "outbox.sql")["confirm"] == (
        "-- confirm\n-- The broker has these messages.\nDELETE FROM outbox WHERE id = ANY($1::uuid[])"
    )
