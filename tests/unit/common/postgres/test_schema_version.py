"""Numbers and headers of migrations, and which schemas a version can use."""

import pytest

from common.errors import SchemaError
from common.postgres.schema_version import (
    Migration,
    check_applied,
    list_migrations,
    parse_migration,
    sort_migrations,
)

FIRST, SECOND, THIRD = (Migration(number, f"000{number}_a.sql", "", number, True) for number in (1, 2, 3))


def test_the_packaged_migrations_are_well_formed() -> None:
    assert list_migrations()[0].name == "0001_schema.sql"


def test_a_migration_without_headers_runs_in_a_transaction_and_shuts_out_older_services() -> None:
    assert parse_migration("0007_add_x.sql", "SELECT 1") == Migration(7, "0007_add_x.sql", "SELECT 1", 7, True)


def test_headers_are_read() -> None:
    text = "-- Adds an index.\n-- compatible with: 5\n-- migrate: no transaction\nSELECT 1"
    assert parse_migration("0007_add_x.sql", text) == Migration(7, "0007_add_x.sql", text, 5, False)


@pytest.mark.parametrize("name", ["schema.sql", "1_schema.sql", "0001.sql", "0001-schema.sql", "00001_schema.sql"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match=f"^migration {name}: expected a name such as 0002_add_column.sql"):
        parse_migration(name, "")


def test_a_migration_cannot_need_later_services() -> None:
    with pytest.raises(SchemaError, match="`compatible with: 8` is above its own number"):
        parse_migration("0007_add_x.sql", "-- compatible with: 8\n")


def test_migrations_are_sorted_by_number() -> None:
    assert sort_migrations([THIRD, FIRST, SECOND]) == [FIRST, SECOND, THIRD]


def test_two_migrations_with_one_number_are_refused() -> None:
    other = Migration(2, "0002_b.sql", "", 2, True)
    with pytest.raises(SchemaError, match=r"^migrations 0002_a\.sql and 0002_b\.sql have the same number"):
        sort_migrations([FIRST, SECOND, other])


@pytest.mark.parametrize(
    "applied",
    [{1: 1, 2: 2}, {1: 1, 2: 2, 3: 2}, {1: 1, 2: 2, 3: 1, 4: 2}],
    ids=["the same", "one more", "two more"],
)
def test_a_schema_that_fits_is_accepted(applied: dict[int, int]) -> None:
    check_applied(applied, [FIRST, SECOND])


@pytest.mark.parametrize(
    ("applied", "found"), [({}, 0), ({1: 1}, 1), ({2: 2}, 2)], ids=["none", "older", "one is missing"]
)
def test_an_older_schema_is_refused(applied: dict[int, int], found: int) -> None:
    with pytest.raises(SchemaError, match=f"found version {found}, expected 2. Run `python -m "):
        check_applied(applied, [FIRST, SECOND])


@pytest.mark.parametrize("applied", [{1: 1, 2: 2, 3: 3}, {1: 1, 2: 2, 3: 3, 4: 2}, {1: 1, 2: 2, 3: 2, 4: 4}])
def test_a_newer_schema_that_does_not_fit_is_refused(applied: dict[int, int]) -> None:
    found, least = max(applied), max(applied.values())
    expected = f"found version {found}, which needs services with version {least} or later; this one has 2"
    with pytest.raises(SchemaError, match=expected):
        check_applied(applied, [FIRST, SECOND])
