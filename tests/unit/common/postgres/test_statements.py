"""Parameters have names in statements, and numbers in what PostgreSQL gets."""

from typing import NamedTuple

import pytest

from common.postgres.statements import Statement


class Inner(NamedTuple):
    code: str


class Row(NamedTuple):
    id: int
    inner: Inner


ROWS = [Row(1, Inner("a")), Row(2, Inner("b"))]


def test_each_name_has_one_number() -> None:
    statement = Statement("SELECT :a::text, b::integer, :c, :a, '12:30' -- :c. x:y")
    assert statement.text == "SELECT $1::text, b::integer, $2, $1, '12:30' -- $2. x:y"
    assert statement.bind(c=3, a="x") == ["x", 3]


def test_attributes_of_rows_become_columns() -> None:
    statement = Statement("SELECT * FROM unnest(:rows.id::integer[], :rows.inner.code::text[]) LIMIT :limit")
    assert statement.text == "SELECT * FROM unnest($1::integer[], $2::text[]) LIMIT $3"
    assert statement.bind(rows=ROWS, limit=5) == [[1, 2], ["a", "b"], 5]
    assert statement.bind(rows=[], limit=5) == [[], [], 5]


@pytest.mark.parametrize("values", [{}, {"a": 1, "b": 2}, {"b": 2}])
def test_missing_and_unknown_names_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"'(a|b)'"):
        Statement("SELECT :a").bind(**values)
