"""Keys of objects."""

from uuid import UUID

import pytest

from common.object_store.keys import file_key, parse_file_key

TENANT, FILE = UUID(int=1), UUID(int=10)
KEY = f"{TENANT}/{FILE}/content"


def test_a_key_has_the_tenant_and_the_file() -> None:
    assert file_key(TENANT, FILE) == KEY
    assert parse_file_key(KEY) == (TENANT, FILE)


@pytest.mark.parametrize("key", ["", "a/b/content", KEY.upper(), f"{KEY}/", f"/{KEY}", KEY.replace("content", "other")])
def test_any_other_key_is_of_no_file(key: str) -> None:
    assert parse_file_key(key) is None
