"""Which URLs are tried, and which error counts when none works."""

import asyncpg
import pytest

from common.postgres.hosts import choose_error, prepare_urls


@pytest.mark.parametrize(
    ("query", "expected", "fails_over"),
    [
        ("", "?target_session_attrs=read-write", True),
        ("?sslmode=require", "?sslmode=require&target_session_attrs=read-write", True),
        ("?target_session_attrs=primary", "?target_session_attrs=primary", True),
        ("?target_session_attrs=any", "?target_session_attrs=any", False),
    ],
)
def test_several_hosts_are_read_write_unless_the_url_says_otherwise(
    query: str, expected: str, fails_over: bool
) -> None:
    urls, can_fail_over = prepare_urls(f"postgresql://u:p@a:1,b/d{query}")
    assert list(urls.values()) == [f"postgresql://u:p@a:1/d{expected}", f"postgresql://u:p@b/d{expected}"]
    assert can_fail_over == fails_over


def test_the_url_of_one_host_stays_as_it_is() -> None:
    assert prepare_urls("postgresql://u:p@a/d") == ({"a:5432": "postgresql://u:p@a/d"}, False)


def test_a_denied_access_counts_only_if_all_hosts_deny_it() -> None:
    denied, refused = asyncpg.InvalidPasswordError("wrong"), ConnectionRefusedError()
    assert choose_error([denied, refused]) is refused
    assert choose_error([denied, denied]) is denied
